"""Runs a program as `pulumi up` would, on a cloud that the SDK's mock monitor simulates. Every output is known."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pulumi
from pulumi.runtime.mocks import Mocks, set_mocks
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import run_pulumi_func


def deploy_on(cloud: Mocks, program: Callable[[], Any]) -> Any:
    """Run a program on a simulated cloud. Return the value of the program's output.

    Raises any exception of the program, including exceptions that are raised later in an apply.
    """
    result: list[Any] = []

    def remember() -> None:
        pulumi.Output.from_input(program()).apply(result.append)

    async def run() -> None:
        set_mocks(cloud, preview=False)
        settings: Any = SETTINGS  # SETTINGS has these attributes only at run time
        settings.rpc_manager.clear()
        settings.outputs.clear()
        await run_pulumi_func(remember)

    contextvars.copy_context().run(_run_to_the_end, run)
    return result[0]


def _run_to_the_end(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the coroutine to its end. If the program stops early, cancel the remaining tasks."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(run())
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
        asyncio.set_event_loop(None)

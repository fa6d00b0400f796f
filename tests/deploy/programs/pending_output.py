"""Fails in an apply while another output never gets a value."""

import asyncio

from pulumi import Output

from gpu_platform.base.errors import Finding


async def never() -> str:
    await asyncio.Event().wait()
    return ""


def refuse(_: int) -> None:
    raise Finding("one output has failed")


Output.from_input(never())
Output.from_input(1).apply(refuse)

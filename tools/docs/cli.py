"""Generates the reference page for the command line from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from gpu_platform.base.errors import ExitCode
from gpu_platform.cli.app import app
from tools.docs.markdown import GENERATED, block, code, table

_INTRODUCTION = """
# Command line

`gpu-platform` is in `.venv/bin` after `make install`. STACK is the name of a stack (`local` for
`stacks/Pulumi.local.yaml`) or the path of a stack file.
"""
_EXIT_CODES = {
    ExitCode.GOOD: "success",
    ExitCode.FINDING: "a finding: violated policy, failed validation, illegal layout, quotas that do not fit",
    ExitCode.BAD_INPUT: "bad input: the message names the place, the wrong value, the allowed values, and the fix",
    ExitCode.UNKNOWN: "unknown: a tool, a cluster or a driver did not answer",
}
_WIDTH = 100


def page() -> str:
    """Return the reference page in Markdown."""
    commands = list(commands_of(typer.main.get_command(app), ("gpu-platform",)))
    summary = table(
        ("Command", "What it does"),
        [(f"[{code(' '.join(path))}](#{'-'.join(path)})", _summary(command)) for path, command in commands],
    )
    codes = table(("Exit code", "Meaning"), [(str(int(number)), text) for number, text in _EXIT_CODES.items()])
    sections = [_section(path, command) for path, command in commands]
    return "\n".join((GENERATED + _INTRODUCTION, summary, "## Exit codes\n", codes, *sections))


def commands_of(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - Typer's copy of Click
    """Yield every command below `command` that is not a group, with the words that invoke it."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from commands_of(child, (*path, name))


def _summary(command: Any) -> str:  # noqa: ANN401 - Typer's copy of Click
    return (command.help or "").strip().partition("\n\n")[0]


def _section(path: tuple[str, ...], command: Any) -> str:  # noqa: ANN401 - Typer's copy of Click
    *parents, name = path
    context = command.make_context(
        name, [], resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    context.info_name = " ".join((*parents, name))
    return f"## {' '.join(path)}\n\n" + block(command.get_help(context), "text")

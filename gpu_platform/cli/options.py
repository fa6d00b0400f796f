"""Options, arguments and the exit that several commands share: the same word for the same thing in all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from gpu_platform.base.errors import ExitCode, Problem


class Format(StrEnum):
    """Output format of a command."""

    TEXT = "text"
    JSON = "json"


class HtmlFormat(StrEnum):
    """Output format of a command that can print its answer as a page, too."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


StackArgument = Annotated[
    str, typer.Argument(metavar="STACK", help="Name of a stack (local), or path of a stack file.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
_WHOLE: Final = 1000  # characters, more than any help text has
CONTEXT = {"help_option_names": ["-h", "--help"]}
"""Settings of every command and group: help by `-h`, too."""


class CommandGroup(TyperGroup):
    """A group of commands whose help shows the whole first paragraph of each, in sections."""

    def sections(self) -> Mapping[str, Sequence[str]]:
        """Return the names of the commands by section."""
        return {"Commands": list(self.commands)}

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - Typer's own copy of Click
        """Write the commands."""
        del ctx
        for title, names in self.sections().items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(limit=_WHOLE)) for name in names]
                )


def command_name(function: Callable[..., None]) -> str:
    """Return the name of a command; `scheduler_config` is `scheduler-config`."""
    return function.__name__.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ExtensionCommand:
    """A command of an extension: its function, as Typer takes it, and where `--help` lists it."""

    function: Callable[..., None]
    task: str
    """Heading of --help."""
    group: str = ""
    """Group of commands that it belongs to, such as `capacity`; empty: a command of its own."""

    @property
    def name(self) -> str:
        """Return the name of the command."""
        return command_name(self.function)


def only_with(option: str, found: str, other: str) -> Problem:
    """Return the mistake of an option that would be ignored without another one."""
    return Problem(option, found, f"only with {other}", f"add {other}, or remove {option}")


def not_with(option: str, found: str, other: str) -> Problem:
    """Return the mistake of an option that would be ignored beside another one."""
    return Problem(option, found, f"not with {other}", f"remove {option}, or {other}")


def leave(code: ExitCode) -> NoReturn:
    """End the command with an exit code; raises typer.Exit."""
    raise typer.Exit(int(code))

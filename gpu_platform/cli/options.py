"""Options and arguments that commands share, so that an option has the same meaning in all commands. The module
also contains the function that ends a command with an exit code.
"""

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
    """Output format of a command that can also print its result as an HTML page."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


StackArgument = Annotated[
    str, typer.Argument(metavar="STACK", help="Name of a stack, such as local, or path of a stack file.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
_WHOLE: Final = 1000  # number of characters; exceeds the length of every help text
CONTEXT = {"help_option_names": ["-h", "--help"]}
"""Settings of every command and group. With them, `-h` also shows the help."""


class CommandGroup(TyperGroup):
    """Group of commands. Its help lists the commands in sections, with the first paragraph of their help texts."""

    def sections(self) -> Mapping[str, Sequence[str]]:
        """Return the names of the commands by section."""
        return {"Commands": list(self.commands)}

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - Typer's own copy of Click
        """Write the commands of each section."""
        del ctx
        for title, names in self.sections().items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(limit=_WHOLE)) for name in names]
                )


def command_name(function: Callable[..., None]) -> str:
    """Return the name of a command, such as `scheduler-config` for the function `scheduler_config`."""
    return function.__name__.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ExtensionCommand:
    """Command of an extension: its function for Typer, and its place in `--help`."""

    function: Callable[..., None]
    task: str
    """Heading in --help."""
    group: str = ""
    """Group of commands that contains the command, such as `capacity`, or an empty string for a command without a
    group.
    """

    @property
    def name(self) -> str:
        """Return the name of the command."""
        return command_name(self.function)


def only_with(option: str, found: str, other: str) -> Problem:
    """Return the problem with an option that has no effect without another option."""
    return Problem(option, found, f"only with {other}", f"add {other}, or remove {option}")


def not_with(option: str, found: str, other: str) -> Problem:
    """Return the problem with an option that has no effect together with another option."""
    return Problem(option, found, f"not with {other}", f"remove {option}, or {other}")


def leave(code: ExitCode) -> NoReturn:
    """End the command with an exit code. Raises typer.Exit."""
    raise typer.Exit(int(code))

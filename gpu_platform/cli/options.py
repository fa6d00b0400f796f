"""Options and arguments that several commands share: the same word for the same thing in all of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """Output format of a command."""

    TEXT = "text"
    JSON = "json"


StackArgument = Annotated[
    str, typer.Argument(metavar="STACK", help="Name of a stack (local), or path of a stack file.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
CONTEXT = {"help_option_names": ["-h", "--help"]}
"""Settings of every command and group: help by `-h`, too."""

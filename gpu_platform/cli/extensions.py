"""Commands that extensions add. Distributions register them under the entry point `gpu_platform.commands`.

The commands of the project's own extensions are also listed here, so that an error can name the extension to
install.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from gpu_platform.cli.options import ExtensionCommand

GROUP: Final = "gpu_platform.commands"
OWN: Final[Mapping[str, Sequence[str]]] = {
    "capacity": ("place", "rehearse", "scheduler-config", "suggest"),
    "reports": ("production", "conformance", "recipe", "dashboards"),
}
"""Commands of the project's own extensions, by extension."""


@cache
def _loaded() -> tuple[tuple[ExtensionCommand, ...], Mapping[str, str]]:
    """Return the commands of all extensions, and the import error of each extension that failed to load."""
    commands: list[ExtensionCommand] = []
    failed: dict[str, str] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            commands += entry.load()
        except ImportError as error:
            failed[entry.name] = str(error)
    return tuple(commands), failed


def commands() -> Sequence[ExtensionCommand]:
    """Return the commands of all installed extensions, in the order of the extensions' names."""
    return _loaded()[0]


def missing(command: str) -> str:
    """Return what to install for a command of a missing extension, or an empty string for any other command."""
    if any(command == one.name for one in commands()):
        return ""
    for extension, names in OWN.items():
        if command in names:
            why = _loaded()[1].get(extension, "not installed")
            install = "run `make install` in a checkout, or install gpu-platform again"
            return f"{command} is a command of the extension {extension} ({why}): {install}"
    return ""

"""Result of one check of `gpu-platform doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A prerequisite of a command.

    `found` is empty if the prerequisite is missing. `remedy` describes how to get the prerequisite. `known` is
    False if this machine cannot check the prerequisite without network access, so the user must check it.
    """

    name: str
    found: str
    needed_for: str
    required: bool
    remedy: str
    known: bool = True

"""Result of one check of `gpu-platform doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A prerequisite of some command: what was found (empty: missing), its purpose, and how to get it.

    `known` False: it cannot be checked on this machine without network access; the user has to check it.
    """

    name: str
    found: str
    needed_for: str
    required: bool
    remedy: str
    known: bool = True

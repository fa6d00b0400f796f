"""Error text for a machine type that is not in the catalogue, and a similar one that is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.errors import did_you_mean

_SERIES: Final = re.compile(r"([a-z]+)\d*([a-z]*)")
_ARM: Final = "g"
"""In the letters after the generation of EC2's families of Arm CPUs: r8g, c7gn, g5g."""


def unknown_machine_type(name: str, catalog: Catalog) -> tuple[str, str, str]:
    """Return what was found, what is allowed and the fix, with the reason where a type is known and left out."""
    unsupported = catalog.unsupported(name)
    allowed = "one of the machine types of the catalogue"
    if unsupported is None:
        fix = similar_machine_type(name, catalog.machine_types) or "see `gpu-platform machines list`"
        return repr(name), allowed, fix
    found = f"{name!r}, which the program does not support: {unsupported.why} ({unsupported.source})"
    return found, allowed, f"use {unsupported.instead}"


def similar_machine_type(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for a similar type of the same series and architecture, else an empty string.

    The name of another series is similar by chance: r8g.large to t3.large.
    """
    series = _series(name)
    return did_you_mean(name, (one for one in known if _series(one) == series))


def _series(name: str) -> tuple[str, bool]:
    found = _SERIES.match(name.casefold())
    return (found[1], _ARM in found[2]) if found is not None else (name, False)

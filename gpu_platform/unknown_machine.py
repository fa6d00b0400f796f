"""Error text for a machine type that is not in the catalogue."""

from __future__ import annotations

from gpu_platform.catalog import Catalog
from gpu_platform.errors import did_you_mean


def unknown_machine_type(name: str, catalog: Catalog) -> tuple[str, str, str]:
    """Return what was found, what is allowed and the fix, with the reason where a type is known and left out."""
    unsupported = catalog.unsupported(name)
    allowed = "one of the machine types of the catalogue"
    if unsupported is None:
        fix = did_you_mean(name, catalog.machine_types) or "see `gpu-platform machines list`"
        return repr(name), allowed, fix
    found = f"{name!r}, which the program does not support: {unsupported.why} ({unsupported.source})"
    return found, allowed, f"use {unsupported.instead}"

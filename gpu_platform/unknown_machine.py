"""What to say of a machine type that the catalogue does not have."""

from __future__ import annotations

from gpu_platform.catalog import Catalog
from gpu_platform.errors import Problem, did_you_mean


def unknown_machine_type(place: str, name: str, catalog: Catalog, otherwise: str) -> Problem:
    """Return the problem at a place, with the reason where a type is known and left out.

    `otherwise`: the fix where no name of the catalogue is like it.
    """
    unsupported = catalog.unsupported(name)
    allowed = "one of the machine types of the catalogue"
    if unsupported is None:
        return Problem(place, repr(name), allowed, did_you_mean(name, list(catalog.machine_types)) or otherwise)
    found = f"{name!r}, which the program does not support: {unsupported.why} ({unsupported.source})"
    return Problem(place, found, allowed, f"use {unsupported.instead}")

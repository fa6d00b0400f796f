"""Error text for a machine type that is not in the catalogue. The text suggests a similar machine type from the
catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from gpu_platform.base.errors import did_you_mean
from gpu_platform.catalog import Catalog, MachineType

_MOST: Final = 4
"""maximum number of machine types that a fix lists"""
_SERIES: Final = re.compile(r"([a-z]+)\d*([a-z]*)")
_ARM: Final = "g"
"""In the names of EC2 families, this letter after the generation marks Arm CPUs, as in r8g, c7gn and g5g."""


def unknown_machine_type(name: str, catalog: Catalog, vendor: str | None = None) -> tuple[str, str, str]:
    """Return the value found, what is allowed, and the fix. If the type is known to be unsupported, the reason is
    included.

    `vendor` is the vendor of the cluster's machine types, or None for any vendor.
    """
    unsupported = catalog.unsupported(name)
    allowed = "one of the machine types in the catalogue"
    if unsupported is None:
        known = [one for one in catalog.machine_types.values() if vendor in (None, one.vendor)]
        word = name.casefold()
        fix = (
            _of_family(word, known)
            or similar_machine_type(name, [one.name for one in known])
            or _with_its_gpu(word, known, catalog)
        )
        return repr(name), allowed, fix or "see `gpu-platform machines list`"
    found = f"{name!r}, which the program does not support: {unsupported.why} ({unsupported.source})"
    return found, allowed, f"use {unsupported.instead}"


def machines_of_gpu(gpus: Collection[str], machines: Iterable[MachineType]) -> str:
    """Return a fix that lists the first few machine types with any of the GPU models, or an empty string if there
    are none.
    """
    return _written([one.name for one in machines if one.gpu in gpus])


def _written(names: Sequence[str]) -> str:
    if len(names) > _MOST:
        return (
            f"write {', '.join(names[:_MOST])}, or another of the {len(names)} types; see `gpu-platform "
            "machines list`"
        )
    return f"write {' or '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}" if names else ""


def _of_family(name: str, machines: Sequence[MachineType]) -> str:
    """Return the fix if the stack file names a family instead of a machine type.

    The fix lists the machine types of the family. It is empty if there is no such family.
    """
    return _written([one.name for one in machines if one.name.startswith((f"{name}.", f"{name}-"))])


def _with_its_gpu(name: str, machines: Sequence[MachineType], catalog: Catalog) -> str:
    """Return the fix if `name` is a GPU model or the beginning of a machine type of any vendor, or else an empty
    string.
    """
    elsewhere = {one.gpu for one in catalog.machine_types.values() if one.gpu and one.name.startswith(name)}
    words = set(re.split(r"[^a-z0-9]+", re.sub(r"^\d+ ?x ?", "", name)))
    exact = catalog.find_gpu(name)
    named = {exact.model} if exact else {model for model in catalog.gpus if model.partition("-")[0] in words}
    return machines_of_gpu(elsewhere | named, machines)


def similar_machine_type(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for a similar type of the same series and architecture, else an empty string.

    Similarity to a name in another series is accidental, as with r8g.large and t3.large.
    """
    series = _series(name)
    return did_you_mean(name, (one for one in known if _series(one) == series))


def _series(name: str) -> tuple[str, bool]:
    found = _SERIES.match(name.casefold())
    return (found[1], _ARM in found[2]) if found is not None else (name, False)

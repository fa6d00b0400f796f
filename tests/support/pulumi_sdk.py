"""Lets Pulumi's SDK run a program in three quarters of the time: two of its pure functions without their waste.

A run of the program calls `contains_unknowns` and `unwrap_type` for every value of every resource. The first
creates at each call a function that refers to itself, so that two thirds of all objects of a run are garbage which
only the garbage collector finds; the second reads the same few hundred types again and again. Half of the CPU time
of all tests without a cluster is spent in the SDK. `tests/test_pulumi_sdk.py` compares the answers with the SDK's.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

from pulumi import _types
from pulumi.runtime import known_types, rpc

_SDK: Final = ("pulumi", "pulumi.")
THE_SDKS: Final[dict[str, Callable[..., Any]]] = {
    "contains_unknowns": rpc.contains_unknowns,
    "unwrap_type": _types.unwrap_type,
}
"""The SDK's own functions, by name."""


def contains_unknowns(val: Any) -> bool:
    """Return whether a value is unknown or contains a value that is."""
    return _contains_unknowns(val, set())


def _contains_unknowns(value: Any, seen: set[int]) -> bool:
    if known_types.is_unknown(value):
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, dict):  # some of the SDK's dictionaries have an attribute `values` of their own
        return any(_contains_unknowns(value[key], seen) for key in value)
    return isinstance(value, list) and any(_contains_unknowns(item, seen) for item in value)


unwrap_type: Final = functools.cache(_types.unwrap_type)


def install() -> None:
    """Use these functions wherever the SDK uses its own."""
    ours = {"contains_unknowns": contains_unknowns, "unwrap_type": unwrap_type}
    for module_name, module in list(sys.modules.items()):
        if module_name == _SDK[0] or module_name.startswith(_SDK[1]):
            for name, function in ours.items():
                if vars(module).get(name) is THE_SDKS[name]:
                    setattr(module, name, function)

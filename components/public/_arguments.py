"""Checks which arguments of a program may be Outputs, and converts the arguments to plain values for planning."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any, Final, cast, get_args, get_origin, is_typeddict

import pulumi
from pulumi.output import Unknown

from components.public.types import GpuCluster
from gpu_platform.base.errors import Problem

_BELOW: Final[Mapping[object, str]] = {Mapping: ".*", Sequence: "[*]"}


def _inputs_in(hint: Any, place: str) -> Iterator[str]:  # noqa: ANN401 - a type
    """Yield the paths of a type that may be Outputs. `*` matches any key or index."""
    if hint == pulumi.Input[str]:
        yield place
    elif is_typeddict(hint):
        for key, each in hint.__annotations__.items():
            yield from _inputs_in(each, f"{place}.{key}")
    elif below := _BELOW.get(cast("object", get_origin(hint))):
        yield from _inputs_in(get_args(hint)[-1], place + below)


INPUTS: Final = frozenset(
    {*_inputs_in(GpuCluster, "cluster"), "workloads[*].image", "teams[*].workloads[*].image"}
)
"""Paths of arguments that may be Outputs, because planning does not need their values. `*` matches any key or
index.
"""

PLATFORM_INPUTS: Final = INPUTS - {"cluster.security_groups[*]"}
"""Paths of a whole platform's arguments that may be Outputs. Security groups must be plain values, because the
platform's outputs list them so that the next run can detect changes.
"""

# Placeholders that planning uses instead of Outputs. They are valid values, but no resource receives them.
_STAND_INS: Final = {
    "cluster.kubeconfig": "/an/output",
    "cluster.subnets.*": "subnet-00000000",
    "cluster.security_groups[*]": "sg-00000000",
    "workloads[*].image": "an/output",
    "teams[*].workloads[*].image": "an/output",
}


def is_output(value: object) -> bool:
    """Return whether a value is an Output, an awaitable or Unknown, and therefore not available to planning."""
    return isinstance(value, (pulumi.Output, Awaitable, Unknown))


def output_problems(arguments: Mapping[str, Any], allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a problem for each Output in the arguments, except in the places that `allowed` contains."""
    for place, pattern, value in _leaves(arguments):
        if is_output(value) and pattern not in allowed:
            yield needs_plain_value(place)


def needs_plain_value(place: str) -> Problem:
    """Return the problem to report for an Output in a place where planning needs a plain value."""
    return Problem(
        place,
        "an Output",
        "a plain value, because the plan depends on it",
        "write the value, or read it from the stack's configuration",
    )


def plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace Outputs with placeholders, remove None, and convert whole numbers to integers."""
    return cast("dict[str, Any]", _plain(arguments, ""))


def _plain(value: object, pattern: str) -> object:
    if is_output(value):
        return _STAND_INS.get(pattern)
    if isinstance(value, Mapping):
        fields = cast("Mapping[Any, object]", value)
        return {key: _plain(each, _below(pattern, key)) for key, each in fields.items() if each is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(each, f"{pattern}[*]") for each in cast("Sequence[object]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _leaves(value: object, place: str = "", pattern: str = "") -> Iterator[tuple[str, str, object]]:
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[Any, object]", value).items():
            yield from _leaves(each, f"{place}.{key}" if place else str(key), _below(pattern, key))
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(cast("Sequence[object]", value)):
            yield from _leaves(each, f"{place}[{index}]", f"{pattern}[*]")
    else:
        yield place, pattern, value


def _below(pattern: str, key: object) -> str:
    if pattern == "cluster.subnets":  # the keys of `cluster.subnets` are zones
        return f"{pattern}.*"
    return f"{pattern}.{key}" if pattern else str(key)


def renamed(problem: Problem, prefix: str, replacement: str = "") -> Problem:
    """Return a copy of a problem whose place begins with `replacement` instead of `prefix`."""
    place = re.sub(rf"^{re.escape(prefix)}(\.|$)", replacement, problem.path)
    return Problem(place or prefix, problem.found, problem.allowed, problem.fix)

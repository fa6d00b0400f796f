"""Replaces six functions of Pulumi's SDK with faster versions, so that the SDK runs a program in half the time.

The SDK calls `contains_unknowns` and `unwrap_type` for every value of every resource. `contains_unknowns` creates
a self-referencing function at each call, so that two thirds of all objects of a run are garbage that only the
garbage collector finds. `unwrap_type` reads the same few hundred types repeatedly.

The SDK's `transfer_properties` gives each property of each resource an output with four futures and a task that
waits for the futures. The SDK's `create_urn` joins a few strings through six outputs, mostly for a URN that is
never read. In this module, a property is one future, and a URN made of strings is a string. The SDK's
`Output._track` also stores outputs that are already resolved, and removes each of them in a separate callback.
Without this work, the event loop has half as much to do. The SDK's `_reachable` traverses the dependencies of a
resource with nested generators. The version in this module uses a loop.

The tests without a cluster spend half of their CPU time in the SDK. `tests/test_pulumi_sdk.py` compares the
results of the replaced functions with the results of the SDK's functions.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import pulumi
from pulumi import _types
from pulumi.output import _OutputData
from pulumi.runtime import known_types, resource, resource_cycle_breaker, rpc, settings

_SDK: Final = ("pulumi", "pulumi.")
THE_SDKS: Final[dict[str, Callable[..., Any]]] = {
    "contains_unknowns": rpc.contains_unknowns,
    "unwrap_type": _types.unwrap_type,
    "transfer_properties": rpc.transfer_properties,
    "create_urn": resource.create_urn,
    "_reachable": resource_cycle_breaker._reachable,
    "_track": pulumi.Output._track,
}
"""The original functions of the SDK, by name."""


def contains_unknowns(val: Any) -> bool:
    """Return whether a value is or contains an unknown value."""
    return _contains_unknowns(val, set())


def _contains_unknowns(value: Any, seen: set[int]) -> bool:
    if known_types.is_unknown(value):
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, dict):  # some dictionaries of the SDK have an attribute named `values`
        return any(_contains_unknowns(value[key], seen) for key in value)
    return isinstance(value, list) and any(_contains_unknowns(item, seen) for item in value)


unwrap_type: Final = functools.cache(_types.unwrap_type)


def transfer_properties(
    res: pulumi.Resource, props: Mapping[str, Any], custom: bool
) -> dict[str, Callable[..., None]]:
    """Give a resource an output for each property, and return the function that resolves each output."""
    resolvers: dict[str, Callable[..., None]] = {}
    for name in props:
        if name == "urn" or (name == "id" and custom):
            continue  # the SDK sets these outputs itself
        data: asyncio.Future[_OutputData[Any]] = asyncio.Future()
        resolvers[name] = functools.partial(_resolve, res, data)
        res.__dict__[name] = pulumi.Output._from_data(data)
    return resolvers


def _resolve(
    res: pulumi.Resource,
    data: asyncio.Future[_OutputData[Any]],
    value: Any,
    is_known: bool,
    is_secret: bool,
    deps: set[pulumi.Resource] | None,
    failed: Exception | None,
) -> None:
    if failed is not None:
        data.set_exception(failed)
    else:
        data.set_result(_OutputData({*(deps or ()), res}, value, is_known, is_secret))


def create_urn(
    name: Any, type_: Any, parent: Any = None, project: str | None = None, stack: str | None = None
) -> pulumi.Output[str]:
    """Return the URN of a resource. `parent` is a resource or a URN."""
    if not all(isinstance(text, str) for text in (name, type_, "" if parent is None else parent)):
        return THE_SDKS["create_urn"](name, type_, parent, project, stack)
    if parent is None:
        prefix = f"urn:pulumi:{stack or settings.get_stack()}::{project or settings.get_project()}::"
    else:
        prefix = parent[: parent.rfind("::")] + "$"
    return pulumi.Output.from_input(f"{prefix}{type_}::{name}")


def _reachable(from_resource: pulumi.Resource, to_resource: pulumi.Resource) -> bool:
    """Return whether a resource is, or depends on, another resource."""
    seen = {from_resource}
    left = [from_resource]
    while left:
        found = left.pop()
        if found == to_resource:
            return True
        new = resource_cycle_breaker._deps(found) - seen
        seen |= new
        left.extend(new)
    return False


def _track(output: pulumi.Output[Any]) -> None:
    """Make the SDK wait for an output and report its error."""
    data: Any = output._data
    if data.done() and not data.cancelled() and data.exception() is None:
        return
    of_run: Any = settings.SETTINGS  # the attribute exists only at run time
    outputs = of_run.outputs
    outputs.add(data)
    data.add_done_callback(functools.partial(_forget, outputs))


def _forget(outputs: set[Any], data: asyncio.Future[Any]) -> None:
    if not data.cancelled() and data.exception() is None:
        outputs.discard(data)


def install() -> None:
    """Replace the functions everywhere in the SDK."""
    ours = {
        "contains_unknowns": contains_unknowns,
        "unwrap_type": unwrap_type,
        "transfer_properties": transfer_properties,
        "create_urn": create_urn,
        "_reachable": _reachable,
    }
    setattr(pulumi.Output, "_track", _track)  # noqa: B010  # its parameter is not called `self`
    for module_name, module in list(sys.modules.items()):
        if module_name == _SDK[0] or module_name.startswith(_SDK[1]):
            for name, function in ours.items():
                if vars(module).get(name) is THE_SDKS[name]:
                    setattr(module, name, function)

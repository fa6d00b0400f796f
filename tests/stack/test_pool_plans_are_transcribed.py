"""Every part of a pool's cloud plan is an input or an option of the resources that create the pool's nodes.

`preview` announces changes of the plan. If a component does not copy a part of the plan into a resource, `preview`
announces a change that never happens. The test finds such a part if a change of one field in the stack file
changes the part and no resource.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack import Environment
from gpu_platform.stack.loaded import plan_platform
from tests.stack.field_changes import stack_for, values_for
from tests.stack.stack_fields import changed, fields_of, get, place_of
from tests.support.recorded import record_platform

_OF_POOLS = ("pools[]", "compute_classes[]")
_COMPONENTS = {
    "EksPoolPlan": "components/eks/node_pool.py",
    "KarpenterPoolPlan": "components/eks/karpenter_node_pool.py",
    "GkePoolPlan": "components/gke/node_pool.py",
    "AksPoolPlan": "components/aks/node_pool.py",
}

# Parts of a pool's plan that the resources of the pool do not need, and where each part is used instead.
READ_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "eks": {
        "EksPoolPlan.blocks[].window.ends": "the alerts announce the end of a capacity block",
        "EksPoolPlan.compute_class.rank": "the Cluster Autoscaler's priorities contain the order of pools",
    },
    "gke": {
        "GkePoolPlan.windows[].starts": "the alerts announce the start of a reservation",
        "GkePoolPlan.compute_class.rank": "the ComputeClass contains the order of the pools",
    },
    "aks": {},
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one field of the stack file, with a description and the stacks before and after the change."""

    text: str
    before: dict[str, Any]
    after: dict[str, Any]


@pytest.mark.parametrize("provider", ["eks", "gke", "aks"])
def test_each_part_of_a_pools_plan_is_in_the_resources_of_the_pool(provider: str) -> None:
    elsewhere, needed = READ_ELSEWHERE[provider], set[str]()
    wrong: list[str] = []
    for parts, changes in _changes(provider).items():
        # An unset field and one of its values may have the same effect, so one effective value is enough.
        if any(_reaches_the_pool(change) for change in changes):
            continue
        if parts <= elsewhere.keys():
            needed |= parts
            continue
        found = sorted(parts - elsewhere.keys())
        where = sorted({_COMPONENTS[part.partition(".")[0]] for part in found})
        wrong.append(
            f"{changes[0].text} changes {', '.join(found)} in the plan, but no resource of the pool; "
            f"copy these parts in {', '.join(where)}, or add them to READ_ELSEWHERE with their reader"
        )
    wrong += [f"{part}: remove this part from READ_ELSEWHERE" for part in elsewhere if part not in needed]
    assert not wrong, f"on provider {provider}:\n" + "\n".join(wrong)


def _changes(provider: str) -> Mapping[frozenset[str], Sequence[Change]]:
    """Return the changes of fields that affect the cloud plans of pools, by the affected parts of the plans."""
    found: dict[frozenset[str], list[Change]] = {}
    for field in fields_of(Environment):
        if not field.path.startswith(_OF_POOLS):
            continue
        stack = _stack(field.path, provider)
        place = place_of(field.path, stack)
        values = values_for(field, get(stack, place), provider)
        before = _plan(stack)
        if before is None or isinstance(values, str):
            continue
        for value in values:
            platform = changed(stack, place, value)
            after = _plan(platform)
            if after is None:
                continue
            parts = frozenset(_changed_parts(before, after))
            if parts:
                text = f"{field.path}: {json.dumps(get(stack, place))} changed to {json.dumps(value)}"
                found.setdefault(parts, []).append(Change(text, stack, platform))
    return found


def _stack(path: str, provider: str) -> dict[str, Any]:
    """Return the stack in which a field has an effect, without teams, because teams do not affect pools."""
    stack = stack_for(path, provider)
    del stack["teams"]
    stack.pop("queueing", None)
    if provider == "eks" and path.endswith((".zone", ".zones")):
        # A preview does not know the subnets of an existing cluster.
        stack["cluster"] = stack_for("cluster(eks).create.network", provider)["cluster"]
    return stack


def _plan(platform: dict[str, Any]) -> EnvironmentPlan | None:
    """Return the plan, or None if the stack is refused."""
    try:
        plan = plan_platform(platform, "test")
    except BadInput:
        return None
    assert isinstance(plan, EnvironmentPlan)
    return plan


def _changed_parts(before: EnvironmentPlan, after: EnvironmentPlan) -> Iterator[str]:
    for one, other in zip(before.pools, after.pools, strict=True):
        yield from _differences(one.cloud, other.cloud, type(one.cloud).__name__)


def _differences(one: object, other: object, path: str) -> Iterator[str]:
    """Yield the fields of plans that differ, such as `GkePoolPlan.upgrade.max_surge`. Mappings are not divided."""
    if one == other:
        return
    if isinstance(one, tuple) and isinstance(other, tuple):
        entries, others = cast("tuple[object, ...]", one), cast("tuple[object, ...]", other)
        if len(entries) == len(others) and all(map(is_dataclass, (*entries, *others))):
            for entry, changed_entry in zip(entries, others, strict=True):
                yield from _differences(entry, changed_entry, f"{path}[]")
            return
    if is_dataclass(one) and not isinstance(one, type) and type(one) is type(other):
        for field in fields(one):
            yield from _differences(getattr(one, field.name), getattr(other, field.name), f"{path}.{field.name}")
        return
    yield path


def _reaches_the_pool(change: Change) -> bool:
    return _pool_resources(change.before) != _pool_resources(change.after)


def _pool_resources(platform: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return the inputs and options of all resources in the components of pools, without the resources' names."""
    return [
        (one.type, one.inputs, one.protect, one.ignore_changes, one.delete_before_replace, one.timeouts)
        for one in record_platform(platform).resources
        if "NodePool$" in one.urn
    ]

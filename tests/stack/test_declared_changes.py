"""If a field changes, the properties that are declared next to the field change on existing nodes."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import pool_facts
from gpu_platform.planning.changes.declared_properties import declared_properties, fields_text
from gpu_platform.stack import Environment
from gpu_platform.stack.loaded import plan_platform
from tests.stack.field_changes import stack_for, values_for
from tests.stack.stack_fields import changed, fields_of, get, place_of

PLATFORMS = {"sandbox": "sandbox", "eks": "eks", "karpenter": "eks", "gke": "gke", "aks": "aks"}
# Fields that determine other fields. A change to one of them changes the properties of the others.
FOLLOWED = {"machine_type", "workload", "name", "cluster.name", "cluster.location"}
# Properties that change only if GKE runs the device plugin. tests/planning/test_changes.py covers these.
WITH_THE_DEVICE_PLUGIN_OF_GKE = {("gke", "gpu_sharing_config"), ("gke", "gpu_partition_size")}


def facts_of(platform: dict[str, Any]) -> dict[str, Any] | None:
    """Return the recorded facts about the first pool, or None if the stack is refused."""
    try:
        plan = plan_platform(platform, "stack")
    except BadInput:
        return None
    assert plan.kind == "environment"
    return next(iter(pool_facts(plan).values()))


def with_karpenter(stack: dict[str, Any]) -> dict[str, Any]:
    stack = copy.deepcopy(stack)
    pool = stack["pools"][0]
    pool.update(provisioner="karpenter", count={"desired": 0, "max": 4})
    return stack


@cache
def shown(platform: str) -> dict[str, set[str]]:
    """Return the changed properties for each field, named as in the declarations."""
    provider = PLATFORMS[platform]
    found: dict[str, set[str]] = {}
    for field in fields_of(Environment):
        if field.path.startswith(("pools", "operator", f"cluster({provider}).")) and not field.path.startswith(
            "pools[].nodes"
        ):
            name = re.sub(r"\([^)]*\)|\[\]", "", field.path).removeprefix("pools.")
            name += ".type" if field.path.endswith(")") and "capacity" in field.path else ""
            found.setdefault(name, set()).update(changes(field, platform, provider))
    return found


def changes(field: Any, platform: str, provider: str) -> Iterator[str]:
    stack = stack_for(field.path, provider)
    if platform == "karpenter":
        stack = with_karpenter(stack)
    before = facts_of(stack)
    place = place_of(field.path, stack)
    values = values_for(field, get(stack, place), provider)
    if before is None or isinstance(values, str):
        return
    for value in values:
        after = facts_of(changed(stack, place, value))
        if after is not None and after["platform"] == before["platform"] == platform:
            old, new = before["properties"], after["properties"]
            yield from (name for name in old if old[name] != new[name])


def owners(name: str) -> set[str]:
    """Return a field and its parents, because a declaration for `disk` also applies to `disk.type`."""
    parts = name.split(".")
    return {".".join(parts[: count + 1]) for count in range(len(parts))}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_declared_property_changes_with_its_field(platform: str) -> None:
    seen = {
        (name, shown_in)
        for field, names in shown(platform).items()
        for name in owners(field)
        for shown_in in names
    }
    declared = {
        (field, name)
        for (of, name), fields in declared_properties().items()
        if of == platform and (of, name) not in WITH_THE_DEVICE_PLUGIN_OF_GKE
        for field in fields
    }
    assert declared
    assert sorted(declared - seen) == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_field_that_shows_on_nodes_is_declared_to(platform: str) -> None:
    declared = {field for (of, _), fields in declared_properties().items() if of == platform for field in fields}
    silent = {
        field: names
        for field, names in shown(platform).items()
        if names and field not in FOLLOWED and not owners(field) & declared
    }
    assert silent == {}


def test_declared_properties_are_exactly_those_of_the_catalogue() -> None:
    assert set(declared_properties()) == set(load_catalog().pool_properties)


def test_the_fields_of_a_property_are_named_as_the_stack_file_has_them() -> None:
    assert fields_text("eks", "ami_type", "pools[2]") == "pools[2].image.family or image.ami"
    assert fields_text("gke", "gpu_partition_size", "pools[0]") == "pools[0].sharing.layout"
    assert fields_text("eks", "vpc", "pools[0]") == "cluster.create.network.vpc or cluster.create.cidr"

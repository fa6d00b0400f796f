"""Values that a stack computes once for all rules, and the stack's objects by kind and namespace."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    cluster_policy,
    device_plugin_config_map,
    namespace,
    node,
    quota,
    violations,
)

from gpu_platform.catalog import load_catalog
from policies import teams as team_rules
from policies._inputs import NotVisible, Value
from policies._node_pool import NodePool
from policies._stack import Stack


def stack_of(*records: Record) -> Stack:
    return Stack.from_records(records, load_catalog())


def test_an_answer_that_cannot_be_seen_is_sought_once_and_raised_each_time() -> None:
    stack, asked = stack_of(), []

    def answer() -> str:
        asked.append(1)
        raise Value("urn", "spec.taints").not_visible("secret")

    for _ in range(2):
        with pytest.raises(NotVisible, match=r"spec\.taints: secret"):
            stack.once("taints", answer)
    assert len(asked) == 1


def test_objects_of_several_kinds_are_in_the_order_of_registration() -> None:
    stack = stack_of(node("a"), namespace(), node("b"), quota({}))
    found = stack.of_kind("core/Namespace", "core/Node", "core/Node")
    assert [one.name for one in found] == [one.name for one in stack.resources[:3]]


def test_objects_of_a_namespace_are_found_unless_the_namespace_of_one_cannot_be_seen() -> None:
    seen = [quota({}), quota({}, namespace="audio")]
    stack = stack_of(*seen)
    assert stack.in_namespace("core/ResourceQuota", "vision") == stack.resources[:1]
    stack = stack_of(*seen, quota({}, namespace=UNKNOWN))
    with pytest.raises(NotVisible):
        stack.in_namespace("core/ResourceQuota", "vision")


def test_what_pools_offer_is_read_once_for_all_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    offered = team_rules.units_per_node

    def counted(stack: Stack, pool: NodePool) -> Mapping[str, int]:
        read.append(pool.name)
        return offered(stack, pool)

    monkeypatch.setattr(team_rules, "units_per_node", counted)
    teams = [namespace(name, name) for name in ("vision", "audio", "text")]
    config = device_plugin_config_map(train="version: v1\nflags: {migStrategy: none}")
    pools = [node("train-0"), node("train-1"), cluster_policy(), config]
    found = violations("gpu-namespace-quota", *pools, *teams)

    assert len(found) == 3
    assert len(read) == 2

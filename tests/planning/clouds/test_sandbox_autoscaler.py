"""Autoscaled pools of a sandbox: Karpenter's NodePools, the refused settings, and the effect on other plans."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.live.node_reports import expected_pool
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from sandbox.karpenter.instance_types import instance_types
from tests.support.recorded import Recorded, record_platform

SERVE: dict[str, Any] = {
    "name": "serve",
    "machine_type": "g4dn.xlarge",
    "count": {"desired": 1, "max": 3},
    "workload": "inference",
    "sharing": {"mode": "time-slicing", "replicas": 4},
}


def stack(*pools: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": list(pools), **rest}


def planned(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    found = plan_platform(stack(*pools, **rest), "test")
    assert isinstance(found, EnvironmentPlan)
    return found


def node_pools(recorded: Recorded) -> dict[str, Any]:
    """Return the specs of Karpenter's NodePools. Components of this type have no spec and are left out."""
    found = (one.inputs for one in recorded.of("NodePool") if "spec" in one.inputs)
    return {one["metadata"]["name"]: one["spec"] for one in found}


def test_karpenter_may_add_nodes_from_desired_to_max() -> None:
    recorded = record_platform(stack(SERVE))
    assert [one.inputs["metadata"]["name"] for one in recorded.of("Node")] == ["serve-0"]
    spec = node_pools(recorded)["serve"]
    # In a single scheduling pass, Karpenter checks new nodes only against the limit on pods.
    assert spec["limits"] == {"nodes": "2", "pods": "220"}
    assert spec["template"]["spec"]["nodeClassRef"]["name"] == "serve"
    assert recorded.one("KWOKNodeClass", "serve").inputs["apiVersion"] == "karpenter.kwok.sh/v1alpha1"


def test_added_nodes_have_the_labels_taints_and_machine_of_created_ones() -> None:
    recorded = record_platform(stack({**SERVE, "taints": [{"key": "team", "effect": "NoSchedule"}]}))
    node, template = (
        recorded.one("Node", "serve-0").inputs,
        node_pools(recorded)["serve"]["template"],
    )
    own = {"kubernetes.io/hostname", "node.kubernetes.io/instance-type", "kubernetes.io/os", "kubernetes.io/arch"}
    created = {key: value for key, value in node["metadata"]["labels"].items() if key not in own}
    assert template["metadata"]["labels"] == created
    # Karpenter's provider sets KWOK's annotation.
    # The CRD refuses an empty taint value.
    assert template["metadata"]["annotations"].items() <= node["metadata"]["annotations"].items()
    assert template["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "team", "effect": "NoSchedule"},
    ]
    (starting,) = template["spec"]["startupTaints"]
    assert starting == {"key": "sandbox.gpu-platform.dev/starting", "effect": "NoSchedule"}


@pytest.mark.parametrize(("scope", "annotation"), [("pod", "pod"), ("container", None)])
def test_created_and_added_nodes_name_their_topology_scope(scope: str, annotation: str | None) -> None:
    recorded = record_platform(stack({**SERVE, "topology": {"policy": "restricted", "scope": scope}}))
    nodes = [recorded.one("Node", "serve-0").inputs, node_pools(recorded)["serve"]["template"]]
    assert [one["metadata"]["annotations"].get("sandbox.gpu-platform.dev/topology-scope") for one in nodes] == [
        annotation
    ] * 2


def test_a_pool_of_a_fixed_number_of_nodes_needs_no_karpenter() -> None:
    fixed = {**SERVE, "count": {"min": 0, "desired": 2, "max": 2}}
    assert planned(fixed).pools[0].autoscaler is None
    assert not node_pools(record_platform(stack(fixed)))


def test_karpenter_knows_what_a_shared_node_of_any_vendor_offers() -> None:
    offers = {"g4dn.xlarge": {"nvidia.com/gpu.shared": 4}, "a2-ultragpu-8g": {"nvidia.com/mig-1g.10gb": 56}}
    found = {one["name"]: one["resources"] for one in instance_types(load_catalog(), offers)}
    for machine, resources in offers.items():
        gpus = {key: value for key, value in found[machine].items() if key.startswith("nvidia.com/")}
        assert gpus == {key: str(value) for key, value in resources.items()}
    assert found["p5.48xlarge"]["nvidia.com/gpu"] == "8"


def test_validation_expects_the_created_nodes_at_least_and_max_at_most() -> None:
    plan = planned(SERVE)
    expected = expected_pool(plan.pools[0], datetime(2026, 11, 26, tzinfo=UTC))
    assert (expected.least, expected.most) == (1, 3)


def test_an_autoscaled_pool_may_have_more_replicas_than_nodes() -> None:
    team = {
        "name": "search",
        "quota": {"shared": 12, "gpus": 0},
        "priority": "inference",
        "members": ["group:search"],
        "workloads": [{"name": "chat", "pool": "serve", "replicas": 8}],
    }
    planned(SERVE, teams=[team])
    with pytest.raises(BadInput, match="at most 4 in all"):
        planned({**SERVE, "count": {"desired": 1}}, teams=[{**team, "quota": {"shared": 4, "gpus": 0}}])


def test_claims_and_mixed_sharing_are_refused_on_autoscaled_pools() -> None:
    whole = {key: value for key, value in SERVE.items() if key != "sharing"} | {"name": "whole"}
    with pytest.raises(BadInput, match=r"pools\[1\].sharing: found sharing of g4dn.xlarge"):
        planned(SERVE, whole)
    planned(SERVE, {**whole, "count": {"desired": 1}})
    planned(SERVE, {**SERVE, "name": "other"})
    claimed = {**whole, "sharing": {"mode": "dra"}}
    with pytest.raises(BadInput, match=r"count.max: found 3 with sharing 'dra'.*no nodes for claims"):
        planned(claimed, operator={"allocation": "dra"})

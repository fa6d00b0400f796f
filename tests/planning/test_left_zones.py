"""Pools that still have nodes in zones that the stack file no longer names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes import classify, pool_changes, pool_facts
from gpu_platform.planning.changes.impact import Impact
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment
from tests.support.eks_stacks import CREATED, EXISTING, plan_eks

LAB: dict[str, Any] = {"machine_type": "g6.12xlarge", "workload": "inference", "count": {"desired": 2}}
ONE = {"zones": ["us-east-2a"]}
RESERVED = {"capacity": {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}}
KARPENTER: dict[str, Any] = {"provisioner": "karpenter", "count": {"desired": 0, "max": 2}}
GKE = {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"}
CPU: dict[str, Any] = {"name": "train", "machine_type": "n2-standard-8", "workload": "general"}
CPU["count"] = {"min": 0, "desired": 0, "max": 2}


def plan_gke(**pool: Any) -> EnvironmentPlan:
    plan = plan_platform(environment({**CPU, **pool}, cluster=GKE), "test")
    assert plan.kind == "environment"
    return plan


def refused(before: EnvironmentPlan, after: EnvironmentPlan) -> list[Impact]:
    facts = json.loads(json.dumps({"pools": pool_facts(before)}))
    changes = pool_changes(facts["pools"], after, load_catalog())
    found = classify(facts, after, load_catalog(), live=None, pools=changes)
    return [one for one in found if one.refusal is not None]


def test_up_refuses_to_remove_zones_from_a_node_group() -> None:
    (found,) = refused(plan_eks({**LAB, **ONE}), plan_eks(LAB))
    assert (found.subject, found.field, found.old) == ("pool train", "pools[0].zones", "us-east-2a")
    assert found.refusal is not None
    assert "zones: [us-east-2a] to leave it there" in found.refusal.fix


@pytest.mark.parametrize("after", [LAB, {**LAB, **ONE}, {**LAB, "capacity": {"type": "spot"}}])
def test_a_node_group_that_is_replaced_may_leave_its_zones(after: dict[str, Any]) -> None:
    before = plan_eks({**LAB, **(ONE if "capacity" in after else RESERVED)})
    assert not refused(before, plan_eks(after))


def test_a_node_group_that_is_only_rolled_stays_in_its_zones() -> None:
    (found,) = refused(plan_eks({**LAB, **ONE}), plan_eks({**LAB, "machine_type": "g6.24xlarge"}))
    assert found.field == "pools[0].zones"


def test_up_refuses_to_remove_zones_from_a_gke_pool_unless_replaced() -> None:
    before = plan_gke(zones=["us-central1-a"])
    (found,) = refused(before, plan_gke())
    assert found.old == "us-central1-a"
    assert not refused(before, plan_gke(disk={"type": "pd-ssd"}, capacity={"type": "spot"}))


@pytest.mark.parametrize("zones", [["us-east-2a"], ["us-east-2b", "us-east-2a"]])
@pytest.mark.parametrize("create", [True, False], ids=["existing VPC", "existing cluster"])
def test_a_pool_that_is_in_all_zones_of_the_cluster_may_leave_them(zones: list[str], create: bool) -> None:
    subnets = {zone: EXISTING["subnets"][zone] for zone in zones}
    network = {
        "vpc": "vpc-0a1b2c3d4e5f60718",
        "subnets": subnets,
        "control_plane_subnets": ["subnet-2a1b2c3d4e5f60718", "subnet-3a1b2c3d4e5f60718"],
    }
    own = {**CREATED, "create": {**CREATED["create"], "network": network}}
    cluster = own if create else {**EXISTING, "subnets": subnets}
    before = plan_eks({**LAB, "zones": zones}, cluster=cluster)
    assert not refused(before, plan_eks(LAB, cluster=cluster))
    if len(zones) > 1:
        assert refused(plan_eks({**LAB, **ONE}, cluster=cluster), plan_eks(LAB, cluster=cluster))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LAB, LAB),
        (LAB, {**LAB, **ONE}),
        ({**LAB, **ONE}, {**LAB, "zones": ["us-east-2a", "us-east-2b"]}),
        ({**LAB, **ONE, **KARPENTER}, {**LAB, **KARPENTER}),
        ({**LAB, **ONE}, {**LAB, "name": "other"}),
    ],
    ids=["none before", "named now", "more", "karpenter", "another name"],
)
def test_other_edits_of_zones_are_not_refused(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert not refused(plan_eks(before), plan_eks(after))

"""The placement of nodes and their purchase options (tests/components/eks/checklist.md, lines 4 and 5)."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import pool_changes, pool_facts
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, PlacementGroup
from gpu_platform.stack.cluster import EksCluster
from tests.planning.clouds.eks.eks_pools import (
    BLOCK,
    RESERVATION,
    eks,
    node_group,
    plan_and_decisions,
    planned,
    pool,
    problems_of,
)
from tests.support.eks_stacks import plan_eks

OWN = PlacementGroup(name="ml-train", create=True)
THERE = PlacementGroup(name="rack-7", create=False)
TWO: dict[str, Any] = {"count": {"desired": 2}, "zones": ["us-east-2a"]}
INFERENCE: dict[str, Any] = {**TWO, "machine_type": "g6.12xlarge", "workload": "inference"}

PLACEMENTS: dict[str, tuple[dict[str, Any], PlacementGroup | None]] = {
    "training on two nodes with EFA": (TWO, OWN),
    "training that may grow to two nodes": ({**TWO, "count": {"desired": 1, "max": 2}}, OWN),
    "training on one node": ({}, None),
    "training without EFA": ({**TWO, "network": {"rdma": False}}, None),
    "training on a type without EFA": ({**TWO, "machine_type": "g5.xlarge"}, None),
    "training on spot": ({**TWO, "capacity": {"type": "spot"}}, None),
    "spot, asked for": ({**TWO, "capacity": {"type": "spot"}, "placement": {"type": "cluster"}}, OWN),
    "none, asked for": ({**TWO, "placement": {"type": "none"}}, None),
    "inference": (INFERENCE, None),
    "inference, asked for": ({**INFERENCE, "placement": {"type": "cluster"}}, OWN),
    "a group that exists": ({**TWO, "placement": {"type": "cluster", "group": "rack-7"}}, THERE),
    "a reservation": ({"count": {"desired": 2}, "capacity": RESERVATION}, None),
    "a reservation in a placement group": (
        {"count": {"desired": 2}, "capacity": RESERVATION | {"placement_group": "rack-7"}},
        THERE,
    ),
    "the reservation's group given in both places": (
        {
            "count": {"desired": 2},
            "capacity": RESERVATION | {"placement_group": "rack-7"},
            "placement": {"type": "cluster", "group": "rack-7"},
        },
        THERE,
    ),
    "a capacity block": ({"count": {"desired": 2}, "capacity": BLOCK}, None),
}


@pytest.mark.parametrize(("said", "group"), PLACEMENTS.values(), ids=PLACEMENTS)
def test_eks_4_create_a_cluster_placement_group_only_without_a_reservation(
    said: dict[str, Any], group: PlacementGroup | None
) -> None:
    assert node_group(**said).placement_group == group


LAB: dict[str, Any] = {"machine_type": "g6.12xlarge", "workload": "development", "count": {"desired": 3}}
SUBNETS = {"us-east-2b": "subnet-0a1b2c3d4e5f60718", "us-east-2c": "subnet-1a1b2c3d4e5f60718"}
ONE_SUBNET = {
    "us-east-2b": "subnet-0a1b2c3d4e5f60718",
    "us-east-2-atl-2a": "subnet-2a1b2c3d4e5f60718",  # a Local Zone, which a pool without zones does not use
}
ONE_ZONE = [
    eks(subnets=ONE_SUBNET),
    eks(
        create={
            "admins": ("arn:aws:iam::123456789012:role/platform-admin",),
            "network": {
                "vpc": "vpc-0a1b2c3d4e5f60718",
                "subnets": ONE_SUBNET,
                "control_plane_subnets": tuple(SUBNETS.values()),
            },
        }
    ),
]


@pytest.mark.parametrize("cluster", ONE_ZONE, ids=["existing cluster", "existing VPC"])
def test_nodes_of_a_cluster_with_one_zone_are_not_moved_between_zones(cluster: EksCluster) -> None:
    plan, decisions = plan_and_decisions(cluster, **LAB)
    assert "warning: zones" not in decisions
    assert not plan.cloud_nodes.leaves_zones
    assert not any("between the zones" in one.why for one in plan.cloud_nodes.pod_endings)
    assert "warning: zones" in plan_and_decisions(eks(subnets=SUBNETS), **LAB)[1]


@pytest.mark.parametrize("cluster", ONE_ZONE, ids=["existing cluster", "existing VPC"])
def test_a_pool_that_needs_one_zone_is_told_the_one_that_the_cluster_has(cluster: EksCluster) -> None:
    (problem,) = problems_of(pool(count={"desired": 2}, capacity={"type": "on-demand"}), cluster)
    assert problem.fix.startswith("write zones: [us-east-2b]")


@pytest.mark.parametrize(
    ("said", "cluster", "fix"),
    [
        (LAB, eks(), "zones: [us-east-2a]"),
        ({**LAB, "count": {"min": 0, "desired": 0, "max": 4}}, eks(), "zones: [us-east-2a]"),
        ({**LAB, "workload": "training", "network": {"rdma": False}}, eks(subnets=SUBNETS), "zones: [us-east-2b]"),
        ({**LAB, "zones": ["us-east-2c", "us-east-2b"]}, eks(), "zones: [us-east-2c]"),
    ],
)
def test_check_warns_that_auto_scaling_may_end_nodes_in_several_zones(
    said: dict[str, Any], cluster: EksCluster, fix: str
) -> None:
    _, decisions = plan_and_decisions(cluster, **said)
    assert fix in decisions["warning: zones"].why
    _, decisions = plan_and_decisions(cluster, **{**said, "zones": [fix[8:-1]]})
    assert "warning: zones" not in decisions


@pytest.mark.parametrize("workload", ["inference", "general"])
def test_check_says_the_same_of_services_without_a_warning(workload: str) -> None:
    machine_type = "g6.12xlarge" if workload == "inference" else "m7i.2xlarge"
    said: dict[str, Any] = {**LAB, "machine_type": machine_type, "workload": workload}
    _, decisions = plan_and_decisions(**said)
    assert "may terminate nodes with running pods" in decisions["zones"].chosen
    assert "warning: zones" not in decisions


@pytest.mark.parametrize(
    "said",
    [
        {"count": {"desired": 1}},
        {"capacity": {"type": "spot"}},
        {"machine_type": "p5.48xlarge", "capacity": RESERVATION},
        {"provisioner": "karpenter", "count": {"desired": 0, "max": 4}},
    ],
)
def test_nodes_in_one_zone_of_karpenter_and_spot_nodes_have_no_such_warning(said: dict[str, Any]) -> None:
    _, decisions = plan_and_decisions(**{**LAB, **said})
    assert not {"zones", "warning: zones"} & set(decisions)


@pytest.mark.parametrize(("said", "group"), PLACEMENTS.values(), ids=PLACEMENTS)
def test_the_pool_says_the_placement_that_it_gets(said: dict[str, Any], group: PlacementGroup | None) -> None:
    assert planned(**said).placement == ("none" if group is None else "cluster")


@pytest.mark.parametrize("capacity", [RESERVATION, BLOCK])
def test_eks_4_one_zone_only_and_reserved_capacity_says_which(capacity: dict[str, Any]) -> None:
    assert node_group(capacity=capacity).zones == ("us-east-2a",)
    assert node_group(capacity=capacity, zones=["us-east-2a"]).zones == ("us-east-2a",)


def test_a_pool_may_span_all_zones_or_the_zones_that_it_names() -> None:
    assert node_group(machine_type="g6.xlarge", workload="inference").zones == ()
    several = node_group(machine_type="g6.xlarge", workload="inference", zones=["us-east-2a", "us-east-2c"])
    assert several.zones == ("us-east-2a", "us-east-2c")


def test_eks_5_capacity_block_market_type_target_and_capacity_type() -> None:
    plan = node_group(capacity=BLOCK)
    assert (plan.capacity_type, plan.market_type) == ("CAPACITY_BLOCK", "capacity-block")
    assert plan.capacity_reservation == "cr-0a1b2c3d4e5f60718"
    assert plan.instance_type == "p5.48xlarge"


def test_eks_5_on_demand_capacity_reservation_the_target_only() -> None:
    plan = node_group(capacity=RESERVATION)
    assert (plan.capacity_type, plan.market_type) == ("ON_DEMAND", None)
    assert plan.capacity_reservation == "cr-0a1b2c3d4e5f60718"


@pytest.mark.parametrize(("kind", "bought"), [("spot", "SPOT"), ("on-demand", "ON_DEMAND")])
def test_eks_5_spot_never_with_a_reservation(kind: str, bought: str) -> None:
    plan = node_group(capacity={"type": kind})
    assert (plan.capacity_type, plan.market_type, plan.capacity_reservation) == (bought, None, None)


def test_eks_5_scales_a_block_pool_to_0_some_40_minutes_before_its_end() -> None:
    said = BLOCK | {"ends": "2026-12-14T11:30:00Z", "needed_until": "2026-12-14T10:50:00Z"}
    _, decisions = plan_and_decisions(capacity=said)
    assert "40 minutes before 2026-12-14T11:30:00" in decisions["capacity"].why


@pytest.mark.parametrize(
    ("capacity", "goes_first"), [(RESERVATION, True), (BLOCK, True), ({"type": "spot"}, False), ({}, False)]
)
def test_reserved_capacity_has_no_room_for_a_second_pool_or_an_extra_node(
    capacity: dict[str, Any], goes_first: bool
) -> None:
    plan = node_group(capacity=capacity or {"type": "on-demand"})
    assert plan.delete_before_replace == goes_first
    assert plan.update_strategy == ("MINIMAL" if goes_first else "DEFAULT")


@pytest.mark.parametrize(
    ("said", "repaired"),
    [
        ({}, True),
        ({"capacity": {"type": "spot"}}, True),
        ({"capacity": RESERVATION}, True),
        ({"capacity": BLOCK}, False),
        ({"capacity": BLOCK, "repair": True}, True),
        ({"repair": False}, False),
    ],
)
def test_eks_8_node_repair_is_on_where_a_replacement_can_come(said: dict[str, Any], repaired: bool) -> None:
    assert node_group(**said).node_repair == repaired


@pytest.mark.parametrize(
    ("said", "stated"),
    [
        ({}, "EKS reboots or replaces nodes with broken GPUs"),
        (
            {
                "machine_type": "p4de.24xlarge",
                "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
                "repair": True,
            },
            "detects no broken GPUs: the node monitoring agent does not read the GPUs of MIG nodes",
        ),
        (
            {"machine_type": "g5g.8xlarge", "workload": "inference"},
            "detects no broken GPUs: the node monitoring agent does not read GPUs on arm64",
        ),
    ],
)
def test_a_decision_states_whether_eks_detects_broken_gpus(said: dict[str, Any], stated: str) -> None:
    _, decisions = plan_and_decisions(eks(create={"admins": ("arn:aws:iam::123456789012:role/admin",)}), **said)
    assert decisions["repair"].chosen == "on"
    assert stated in decisions["repair"].why


def test_an_existing_cluster_detects_broken_gpus_only_with_the_agent() -> None:
    _, decisions = plan_and_decisions()
    assert "if the cluster has the add-on eks-node-monitoring-agent" in decisions["repair"].why


def test_a_decision_states_why_spot_training_is_not_placed() -> None:
    _, decisions = plan_and_decisions(**TWO, capacity={"type": "spot"})
    assert "spot" in decisions["placement"].why
    assert "placement: {type: cluster}" in decisions["placement"].why


IN_GROUP = {"placement": {"type": "cluster", "group": "rack-7"}}
RESERVED_IN_GROUP = {"capacity": {**RESERVATION, "placement_group": "rack-7"}}


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ({**IN_GROUP, "zones": ["us-east-2a"]}, {**IN_GROUP, "zones": ["us-east-2b"]}, "placement.group"),
        (
            {**IN_GROUP, "zones": ["us-east-2b"]},
            RESERVED_IN_GROUP,
            "capacity.placement_group",
        ),
    ],
    ids=["on demand", "with a reservation"],
)
def test_pools_of_two_zones_cannot_name_one_placement_group(
    first: dict[str, Any], second: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as caught:
        plan_eks(first, {"name": "other", **second})
    [problem] = caught.value.problems
    assert problem.path == f"pools[1].{field}"
    assert "where pools[0] uses the group, because a cluster placement group cannot span zones" in problem.allowed


@pytest.mark.parametrize("zone", ["us-east-2a", "us-east-2b"])
@pytest.mark.parametrize(
    ("second", "field"),
    [
        ({"placement": {"type": "cluster", "group": "ml-a"}}, "placement.group"),
        ({"capacity": {**RESERVATION, "placement_group": "ml-a"}}, "capacity.placement_group"),
    ],
)
def test_a_pool_cannot_name_the_group_that_the_program_creates_for_another(
    second: dict[str, Any], field: str, zone: str
) -> None:
    in_zone = {"capacity": {**second["capacity"], "zone": zone}} if "capacity" in second else {"zones": [zone]}
    for order in (("a", "b"), ("b", "a")):
        pools = {"a": {**TWO, "name": "a", "zones": ["us-east-2a"]}, "b": {"name": "b", **second, **in_zone}}
        with pytest.raises(BadInput) as refused:
            plan_eks(*(pools[name] for name in order))
        (problem,) = refused.value.problems
        assert problem.path == f"pools[{order.index('b')}].{field}"
        assert f"which the program creates for pools[{order.index('a')}]" in problem.found


def test_pools_of_one_zone_can_name_one_placement_group() -> None:
    plan = plan_eks({**IN_GROUP, "zones": ["us-east-2a"]}, {"name": "reserved", **RESERVED_IN_GROUP})
    groups = [pool.cloud.placement_group for pool in plan.pools if isinstance(pool.cloud, EksPoolPlan)]
    assert groups == [THERE, THERE]


@pytest.mark.parametrize(
    ("other", "avoids"),
    [
        ({"zones": ["us-east-2a"]}, True),
        ({}, True),
        ({"provisioner": "managed", "machine_type": "g6e.8xlarge", "workload": "inference"}, False),
        ({"zones": ["us-east-2b"]}, False),
        ({"capacity": {"type": "spot"}, "zones": ["us-east-2a"]}, False),
        ({"capacity": BLOCK}, False),
    ],
)
def test_nodes_on_demand_stay_out_of_a_reservation_of_another_pool(other: dict[str, Any], avoids: bool) -> None:
    reserved = {"name": "reserved", "capacity": {**RESERVATION, "reservation": "cr-1a1b2c3d4e5f60718"}}
    plan = plan_eks(reserved, {"name": "more", **other})
    clouds = {pool.name: pool.cloud for pool in plan.pools}
    assert isinstance(clouds["more"], EksPoolPlan)
    assert isinstance(clouds["reserved"], EksPoolPlan)
    assert clouds["more"].avoids_reservations == avoids
    assert not clouds["reserved"].avoids_reservations


def test_an_alternative_of_the_reserved_machine_type_stays_out_of_the_reservation() -> None:
    reserved = {
        "name": "reserved",
        "machine_type": "g6e.16xlarge",
        "workload": "inference",
        "capacity": RESERVATION,
    }
    capacity = {"type": "on-demand", "alternatives": ["g6e.16xlarge"]}
    more = {"name": "more", "machine_type": "g6e.8xlarge", "workload": "inference", "capacity": capacity}
    cloud = plan_eks(reserved, more).pools[1].cloud
    assert isinstance(cloud, EksPoolPlan)
    assert cloud.avoids_reservations


def test_nodes_on_demand_may_use_open_reservations_that_no_pool_names() -> None:
    cloud = plan_eks({"zones": ["us-east-2a"]}).pools[0].cloud
    assert isinstance(cloud, EksPoolPlan)
    assert not cloud.avoids_reservations


def test_a_new_reservation_rolls_the_on_demand_pool_next_to_it() -> None:
    more, reserved = {"name": "more", "zones": ["us-east-2a"]}, {"name": "reserved", "capacity": RESERVATION}
    deployed = pool_facts(plan_eks(more))
    (change,) = pool_changes(deployed, plan_eks(more, reserved), load_catalog())
    assert (change.pool, change.effect) == ("more", "rolled")
    assert change.causes[0].new == "outside open reservations"

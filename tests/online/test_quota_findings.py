"""How a quota affects `up`, depending on its value, its current use and the nodes that the stack requests."""

from __future__ import annotations

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.online.aws.answers import CapacityReservation, Instance
from gpu_platform.online.aws.quotas import group_demands, network_demands, used_by_others
from gpu_platform.online.quota import QuotaDemand, QuotaState, compare_quota, gpu_demands, unnamed_findings
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.plan import EnvironmentPlan
from tests.support.eks_stacks import EXISTING, plan_eks

P = "Running On-Demand P instances"
CATALOG = load_catalog()
QUOTAS = CATALOG.service_quotas
DEMAND = QuotaDemand(name=P, unit="vCPU", region="us-east-2", desired=192, most=384, wanted_by="train")


@pytest.mark.parametrize(
    ("limit", "used", "severity"),
    [
        (384.0, 0.0, "fine"),
        (1000.0, 616.0, "fine"),
        (1000.0, 617.0, "warns"),
        (191.0, 0.0, "stops"),
        (384.0, 193.0, "stops"),
        (100.0, 900.0, "stops"),
        (384.0, None, "warns"),
        (191.0, None, "stops"),
    ],
)
def test_the_desired_nodes_must_fit_in_addition_to_existing_use(
    limit: float, used: float | None, severity: str
) -> None:
    state = QuotaState(limit=limit, used=used, unknown="no permission")

    assert compare_quota(DEMAND, state, "console").severity == severity


def test_a_quota_that_is_too_small_says_how_much_to_request() -> None:
    finding = compare_quota(DEMAND, QuotaState(limit=200, used=100), "Service Quotas, ec2, L-417A185B")

    assert finding.why == "92 vCPU are missing for the desired nodes"
    assert finding.fix == "Service Quotas, ec2, L-417A185B: request at least 484 vCPU"


def test_demand_includes_desired_maximum_and_rolling_nodes() -> None:
    plan = plan_eks(
        {"count": {"desired": 1, "max": 3}, "zones": ["us-east-2a"]},
        {"name": "more", "count": {"desired": 2}, "zones": ["us-east-2a"]},
    )

    (demand,) = gpu_demands(plan, CATALOG)

    assert (demand.name, demand.desired, demand.most) == (
        P,
        3 * 192,
        (3 + 2 + 2 * 2) * 192,
    )  # a rolling update adds two nodes in each zone of a pool


def test_spot_of_a_family_without_a_known_quota_is_left_for_a_manual_check() -> None:
    plan = plan_eks({"machine_type": "p6-b200.48xlarge", "capacity": {"type": "spot"}})

    (finding,) = unnamed_findings(plan, CATALOG, "console")

    assert finding.severity == "unknown"
    assert f"{(1 + 2 * 2) * 192} vCPU" in finding.why  # two more nodes in each of two zones


def _instance(kind: str, lifecycle: str = "", **tags: str) -> Instance:
    return Instance(instance_type=kind, lifecycle=lifecycle, vcpus=CATALOG.machine_types[kind].vcpu, tags=tags)


def _reservation(kind: str) -> CapacityReservation:
    return CapacityReservation(
        reservation_id="cr-1",
        instance_type="p5.48xlarge",
        zone="us-east-2a",
        state="active",
        kind=kind,
        total=2,
        available=1,
        starts=None,
        ends=None,
        placement_group="",
    )


@pytest.fixture(scope="module")
def plan() -> EnvironmentPlan:
    return plan_eks({})


def test_spot_and_on_demand_instances_have_separate_quotas(plan: EnvironmentPlan) -> None:
    instances = [_instance("p5.48xlarge"), _instance("p5.48xlarge", "spot"), _instance("g6.4xlarge")]

    assert used_by_others(QUOTAS[P], instances, (), plan, CATALOG) == 192
    assert used_by_others(QUOTAS["All P5 Spot Instance Requests"], instances, (), plan, CATALOG) == 192
    assert used_by_others(QUOTAS["All P4, P3 and P2 Spot Instance Requests"], instances, (), plan, CATALOG) == 0


def test_instances_of_capacity_blocks_do_not_count(plan: EnvironmentPlan) -> None:
    assert used_by_others(QUOTAS[P], [_instance("p5.48xlarge", "capacity-block")], (), plan, CATALOG) == 0


def test_free_capacity_counts_for_reservations_but_not_blocks(
    plan: EnvironmentPlan,
) -> None:
    found = [_reservation("default"), _reservation("capacity-block")]

    assert used_by_others(QUOTAS[P], (), found, plan, CATALOG) == 192


def test_nodes_of_the_stack_itself_are_not_counted_twice(plan: EnvironmentPlan) -> None:
    own = {"gpu-platform.dev/pool": "train", "kubernetes.io/cluster/ml": "owned"}
    other = own | {"kubernetes.io/cluster/ml": ""}
    del other["kubernetes.io/cluster/ml"]
    instances = [_instance("p5.48xlarge", **own), _instance("p5.48xlarge", **other)]

    assert used_by_others(QUOTAS[P], instances, (), plan, CATALOG) == 192


def test_every_quota_of_the_catalogue_has_its_code() -> None:
    named = {quota.name for quota in CATALOG.gpu_quotas.values() if quota.vendor == "aws"}

    assert named <= set(QUOTAS)


@pytest.mark.parametrize(("nat", "addresses"), [("one", 1), ("per-zone", 2)])
def test_each_nat_gateway_of_a_new_network_counts_an_address(nat: str, addresses: int) -> None:
    created = {
        "provider": "eks",
        "name": "ml",
        "region": "us-east-2",
        "create": {"admins": ["arn:aws:iam::123456789012:role/admin"], "nat": nat},
    }
    cloud = plan_eks({}, cluster=created).cluster.cloud
    assert isinstance(cloud, EksClusterPlan)

    assert [demand.most for demand in network_demands(cloud)] == [1, addresses]


@pytest.mark.parametrize(("nodes", "asked"), [(450, []), (451, [("Nodes per managed node group", 451)])])
def test_node_groups_above_the_default_quota_are_reported(nodes: int, asked: list[object]) -> None:
    plan = plan_eks({"zones": ["us-east-2a"], "count": {"desired": nodes}}, cluster=EXISTING)
    assert isinstance(plan.cluster.cloud, EksClusterPlan)
    found = group_demands(plan, plan.cluster.cloud, CATALOG)
    assert [(demand.name, demand.most) for demand in found] == asked


def test_karpenter_has_no_quota_of_nodes() -> None:
    grown = {"provisioner": "karpenter", "count": {"desired": 0, "max": 500}}
    plan = plan_eks({"zones": ["us-east-2a"], **grown}, cluster=EXISTING)
    assert isinstance(plan.cluster.cloud, EksClusterPlan)
    assert not list(group_demands(plan, plan.cluster.cloud, CATALOG))

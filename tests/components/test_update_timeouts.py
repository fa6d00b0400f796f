"""The update of a pool may take long enough for all its nodes, which the clouds replace in rounds."""

from __future__ import annotations

from tests.components.aks.aks_recorded import agent_pool, created
from tests.components.gke.gke_forms import gke_pool, record_gke
from tests.support.eks_stacks import record_eks
from tests.support.recorded import record_shipped

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
ADDON = "aws:eks/addon:Addon"
NODE_POOL = "gcp:container/nodePool:NodePool"


def eks_update(nodes: int, at_a_time: int) -> str:
    pool = {"count": {"desired": nodes}, "upgrade": {"max_unavailable": at_a_time}, "zones": ["us-east-2a"]}
    return record_eks({"machine_type": "g6e.12xlarge", **pool}).one("NodeGroup", "train").timeouts["update"]


def test_eks_has_half_an_hour_for_each_round_and_at_least_six_hours() -> None:
    assert [eks_update(2, 1), eks_update(40, 1), eks_update(40, 2)] == ["360m", "1200m", "600m"]


def test_the_update_of_an_addon_has_half_a_minute_for_each_node() -> None:
    def update(nodes: int) -> set[str]:
        pool = {"machine_type": "g6e.12xlarge", "count": {"desired": nodes}, "zones": ["us-east-2a"]}
        return {one.timeouts["update"] for one in record_eks(pool).resources if one.type == ADDON}

    assert [update(10), update(196)] == [{"20m"}, {"100m"}]


def test_gke_has_an_hour_and_a_quarter_for_each_round_and_at_least_a_day() -> None:
    def update(nodes: int) -> str:
        pool = gke_pool("train", machine_type="g2-standard-24", count={"desired": nodes})
        return record_gke(pool).one("NodePool", "train").timeouts["update"]

    assert [update(2), update(40)] == ["1440m", "3000m"]


def test_aks_has_an_hour_and_a_quarter_for_each_round_and_at_least_a_day() -> None:
    def update(nodes: int, **upgrade: int) -> str:
        pool = {"name": "serve", "machine_type": "Standard_NC24ads_A100_v4", "workload": "inference"}
        return agent_pool({**pool, "count": {"desired": nodes}, "upgrade": upgrade}).timeouts["update"]

    assert [update(2), update(40), update(40, max_surge=4)] == ["1440m", "3000m", "1440m"]


def test_the_update_of_an_aks_cluster_has_time_for_its_system_nodes() -> None:
    assert created().timeouts["update"] == "225m"


def test_system_nodes_have_more_time_than_the_default_of_the_provider() -> None:
    found = {
        resource.name: resource.timeouts["update"]
        for stack in ("eks-training", "gke-training")
        for resource in record_shipped(stack).resources
        if resource.type in (NODE_GROUP, NODE_POOL) and resource.name.endswith("system")
    }
    assert sorted(found.values()) == ["1440m", "360m"]

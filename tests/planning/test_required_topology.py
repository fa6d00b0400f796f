"""Jobs whose nodes must be close to each other use a topology level with several nodes, or are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.names import TOPOLOGY_ANNOTATIONS
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
GKE = {"provider": "gke", "name": "prod", "project": "acme-ml", "location": "europe-west1", "kubernetes": "1.35"}
JOB = {"name": "pretrain", "pool": "train", "image": "example.com/t:1", "command": ["t"], "gpus": 8, "replicas": 2}
TWO = {"count": {"desired": 2}}
ON_EKS = {"cluster": EKS, "pool": {**TWO, "zones": ["us-east-2a"]}}
ULTRA = {
    "cluster": {**GKE, "gpu_networks_cidr": "192.168.0.0/16", "create": {"system": {"min": 3, "max": 3}}},
    "pool": {
        **TWO,
        "machine_type": "a3-ultragpu-8g",
        "capacity": {"type": "reservation", "reservation": "r1", "zone": "europe-west1-b"},
        "network": {"via": "networks"},
        "placement": {"type": "compact"},
    },
}
L4 = {
    "cluster": {**GKE, "create": {"system": {"min": 3, "max": 3}}},
    "pool": {**TWO, "machine_type": "g2-standard-96", "zones": ["europe-west1-b"]},
}
G6 = {"cluster": EKS, "pool": {**TWO, "machine_type": "g6.48xlarge", "zones": ["us-east-2a"]}}


def stack(where: dict[str, Any], queueing: dict[str, Any] | None, **job: Any) -> dict[str, Any]:
    jobs = [{**JOB, "topology": "required", **job}]
    members = ["group:ml@example.com" if where.get("cluster", EKS)["provider"] == "gke" else "group:ml"]
    teams = [team(quota={"gpus": 16}, members=members, training_jobs=jobs)]
    queues = {} if queueing is None else {"queueing": queueing}
    found = environment(pool(**where.get("pool", TWO)), teams=teams, **queues)
    return {**found, "cluster": where.get("cluster", found["cluster"])}


def near(where: dict[str, Any], queueing: dict[str, Any], **job: Any) -> dict[str, str]:
    plan = plan_platform(stack(where, queueing, **job), "test")
    assert isinstance(plan, EnvironmentPlan)
    return dict(plan.workloads[0].training_jobs[0].pod.annotations)


def problem(where: dict[str, Any], queueing: dict[str, Any] | None, **job: Any) -> Problem:
    with pytest.raises(BadInput) as caught:
        plan_platform(stack(where, queueing, **job), "test")
    (one,) = caught.value.problems
    assert one.path == "teams[0].training_jobs[0].topology"
    return one


@pytest.mark.parametrize("queueing", [{}, {"topology": True}])
@pytest.mark.parametrize(
    ("where", "level"),
    [(ON_EKS, "topology.k8s.aws/network-node-layer-3"), (ULTRA, "cloud.google.com/gce-topology-subblock")],
)
def test_required_nodes_share_a_level_of_several_nodes(
    where: dict[str, Any], level: str, queueing: dict[str, Any]
) -> None:
    assert near(where, queueing)[TOPOLOGY_ANNOTATIONS["required"]] == level


@pytest.mark.parametrize("where", [L4, G6, {}], ids=["gke", "eks", "sandbox"])
def test_required_is_refused_where_no_level_holds_several_nodes(where: dict[str, Any]) -> None:
    """Kueue would start these pods only on one node, but a node has room for only one of them."""
    found = problem(where, {})
    assert "2 pods" in found.found
    assert "topology: preferred" in found.fix
    assert TOPOLOGY_ANNOTATIONS["preferred"] in near(where, {}, topology="preferred")


def test_required_pods_that_share_a_node_are_accepted() -> None:
    assert near(L4, {}, gpus=4)[TOPOLOGY_ANNOTATIONS["required"]] == "kubernetes.io/hostname"


def test_topology_on_autoscaled_pools_has_a_fix_that_the_queues_accept() -> None:
    found = problem({"pool": {"count": {"desired": 1, "max": 2}}}, {})
    assert found.fix == "remove topology: pool train is autoscaled"


@pytest.mark.parametrize("queueing", [None, {"topology": False}])
def test_topology_needs_queues_that_look_at_nodes(queueing: dict[str, Any] | None) -> None:
    assert "queueing: {topology: true}" in problem(ON_EKS, queueing).fix
    assert near(ON_EKS, {"topology": True})

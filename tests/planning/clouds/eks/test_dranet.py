"""EFA interfaces that pods claim from the EFA DRA driver (DRANET), not from the device plugin."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from tests.planning.clouds.eks.eks_pools import eks, node_group, planned, pool, problems_of
from tests.support.eks_stacks import CREATED, EXISTING, plan_eks, record_eks

DRANET: dict[str, Any] = {"network": {"via": "dranet"}}
NEW: dict[str, Any] = {**EXISTING, "kubernetes": "1.35"}
ZONE = {"zones": ["us-east-2a"]}


def cloud(*pools: dict[str, Any], cluster: dict[str, Any] = NEW) -> EksClusterPlan:
    made = plan_eks(*({**ZONE, **one} for one in pools), cluster=cluster).cluster.cloud
    assert isinstance(made, EksClusterPlan)
    return made


def test_dranet_nodes_differ_from_plugin_nodes_only_in_a_label() -> None:
    plan = node_group(**DRANET)
    assert plan.interfaces == node_group().interfaces
    assert plan.labels["gpu-platform.dev/efa-driver"] == "dranet"
    assert "vpc.amazonaws.com/efa.present" not in plan.labels


def test_dranet_nodes_publish_devices_and_no_extended_resource() -> None:
    expected = planned(**DRANET).node_expectation
    assert expected.allocatable == {"nvidia.com/gpu": 8}
    assert (expected.nic_driver, expected.nic_devices) == ("dra.net", 32)
    of_plugin = planned().node_expectation
    assert (of_plugin.nic_driver, of_plugin.nic_devices) == (None, 0)


def test_the_driver_selects_nodes_by_that_label_and_tolerates_their_taints() -> None:
    plan = cloud({**DRANET, "taints": [{"key": "own", "effect": "NoSchedule"}]})
    assert plan.efa_plugin is None
    assert plan.dranet is not None
    assert (plan.dranet.chart, plan.dranet.namespace) == ("aws-dranet", "kube-system")
    selector = {"keys": ["gpu-platform.dev/efa-driver"], "values": ["dranet"]}
    assert plan.dranet.values["supportedInstanceLabels"] == selector
    assert [one["key"] for one in plan.dranet.values["tolerations"]][:2] == ["nvidia.com/gpu", "own"]


def test_a_cluster_may_have_pools_of_both_kinds_each_with_its_own_nodes() -> None:
    plan = cloud({"name": "plugged"}, {"name": "claimed", **DRANET})
    assert plan.efa_plugin is not None
    assert plan.dranet is not None
    assert plan.efa_plugin.values["supportedInstanceLabels"]["keys"] == ["vpc.amazonaws.com/efa.present"]
    assert [part.name for part in plan.parts] == ["efa_plugin", "dranet"]


def test_an_owner_may_have_installed_the_driver() -> None:
    plan = cloud(DRANET, cluster={**NEW, "parts": {"dranet": "present"}})
    assert plan.dranet is None
    assert [(part.name, part.install) for part in plan.parts] == [("dranet", False)]


@pytest.mark.parametrize(
    ("said", "cluster", "words"),
    [
        ({**DRANET, **ZONE}, {"kubernetes": "1.33"}, "Kubernetes 1.34 or newer"),
        ({"network": {"via": "dranet", "rdma": False}}, {}, "`via` only on a pool with EFA"),
        ({**DRANET, "machine_type": "g6.xlarge", "workload": "inference"}, {}, "`via` only on a pool with EFA"),
        ({"network": {"via": "device-plugin", "rdma": False}}, {}, "`via` only on a pool with EFA"),
        (
            {**DRANET, **ZONE, "provisioner": "karpenter", "count": {"desired": 0, "max": 2}},
            {},
            "Karpenter creates no nodes for claims",
        ),
    ],
)
def test_dranet_is_refused_where_it_does_not_work(
    said: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    found = problems_of(pool(**said), eks(**cluster))
    assert [problem.path for problem in found] == ["pool.network.via"]
    assert words in str(found[0])


def workload_of(gpus: int) -> Any:
    team = {
        "name": "vision",
        "quota": {"gpus": 8},
        "priority": "training",
        "members": ["group:vision"],
        "workloads": [{"name": "work", "pool": "train", "gpus": gpus}],
    }
    (team_plan,) = plan_eks({**DRANET, **ZONE}, cluster=NEW, teams=[team]).teams
    return team_plan


def test_a_pod_with_all_gpus_claims_all_interfaces_and_huge_pages() -> None:
    team = workload_of(8)
    (workload,), (claim,) = team.workloads, team.claims
    assert (claim.name, claim.device_class, claim.count) == ("train-nics", "efa.networking.k8s.aws", 32)
    assert workload.claims == ("train-nics",)
    assert workload.network == {"hugepages-2Mi": "5120Mi"}


def test_a_pod_with_fewer_gpus_claims_no_interface() -> None:
    team = workload_of(4)
    assert (team.workloads[0].claims, team.claims) == ((), ())


@pytest.mark.parametrize("cluster", [NEW, {**CREATED, "kubernetes": "1.35"}])
def test_the_program_registers_the_driver_as_a_release(cluster: dict[str, Any]) -> None:
    recording = record_eks({**DRANET, **ZONE}, cluster=cluster)
    release = recording.one("Release", "aws-dranet").inputs
    assert (release["version"], release["repositoryOpts"]["repo"]) == ("1.0.0", "https://aws.github.io/eks-charts")
    assert not recording.has("EfaDevicePlugin")

"""The real Karpenter, with its KWOK provider, creates nodes for a NodePool that the program plans for EKS.

`make test-karpenter` builds Karpenter and runs these tests, which are skipped otherwise. The KWOK provider has a
different node class and no EC2, so these tests do not cover the EC2NodeClass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from sandbox import build
from sandbox.control_plane import Status
from tests.e2e.conftest import BASE, TOLERATION, Platform
from tests.support.eks_stacks import load_eks
from tests.support.eventually import eventually
from tests.support.karpenter_forms import DEVELOP

pytestmark = [
    pytest.mark.long,
    pytest.mark.sandbox,
    pytest.mark.xdist_group("e2e-karpenter"),
    pytest.mark.skipif(not build.has_karpenter(), reason="Karpenter is not built: make test-karpenter"),
]

POOL = "develop"
NODE_CLASS = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": POOL}}


@pytest.fixture(scope="module")
def e2e_sandbox(start_sandbox: Callable[..., Status]) -> Status:
    return start_sandbox("karpenter", karpenter=True)


def node_pool(most: int, **changed: Any) -> dict[str, Any]:
    """Return the planned NodePool for an EKS pool, with a node class of the KWOK provider.

    Empty nodes are removed after a few seconds, so that a test does not wait for the planned ten minutes.
    """
    plan = load_eks({**DEVELOP, "count": {"desired": 0, "max": most}, **changed}).plan
    assert plan.kind == "environment"
    cloud = plan.pools[0].cloud
    assert isinstance(cloud, KarpenterPoolPlan)
    spec = copy.deepcopy(dict(cloud.node_pool))
    assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"
    spec["disruption"]["consolidateAfter"] = "3s"
    spec["template"]["spec"]["nodeClassRef"] = {
        "group": "karpenter.kwok.sh",
        "kind": "KWOKNodeClass",
        "name": POOL,
    }
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL}, "spec": spec}


@pytest.fixture
def cluster(platform: Platform) -> Iterator[Platform]:
    """A sandbox with the GPU Operator, one node of another pool, and no nodes of the Karpenter pool."""
    pool = {key: value for key, value in DEVELOP.items() if key != "provisioner"} | {"count": {"desired": 0}}
    name = platform.kubeconfig.resolve().parent.name
    stack = {
        **BASE,
        "cluster": {"provider": "sandbox", "name": name},
        "pools": [BASE["pools"][1], pool],
        "teams": [],
    }
    if platform.state.get("shop") != stack:
        ran = platform.up(stack)
        assert ran.code == 0, ran.err
    made: list[dict[str, Any]] = [NODE_CLASS, node_pool(most=2)]
    for one in made:
        platform.client.create(one)
    yield platform
    platform.remove_pods()
    for one in reversed(made):
        live = platform.client.get(one["apiVersion"], one["kind"], one["metadata"]["name"])
        assert live is not None
        platform.client.delete(live)


def nodes(platform: Platform) -> dict[str, dict[str, Any]]:
    """Return the nodes that Karpenter created, by name."""
    selector = f"karpenter.sh/nodepool={POOL}"
    return {one["metadata"]["name"]: one for one in platform.client.objects("v1", "Node", label_selector=selector)}


def running(platform: Platform, *names: str) -> dict[str, str]:
    """Return the node of each running pod."""
    pods = {name: platform.find_pod(name) for name in names}
    return {name: pod["spec"]["nodeName"] for name, pod in pods.items() if pod["status"].get("phase") == "Running"}


def test_pending_gpu_pods_get_nodes_up_to_the_pools_limit(cluster: Platform) -> None:
    assert nodes(cluster) == {}
    wanted = ("one", "two", "three")
    for name in wanted:
        cluster.pod(name, "nvidia.com/gpu", tolerations=[TOLERATION], nodeSelector={"gpu-platform.dev/pool": POOL})
    eventually(lambda: len(set(running(cluster, *wanted).values())) == 2)
    created = nodes(cluster)
    assert set(running(cluster, *wanted).values()) == set(created)
    for node in created.values():
        labels, taints = node["metadata"]["labels"], node["spec"].get("taints", ())
        assert labels["node.kubernetes.io/instance-type"] == "g6.4xlarge"
        assert labels["nvidia.com/gpu.product"] == "NVIDIA-L4"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
        assert {(one["key"], one["effect"]) for one in taints} == {("nvidia.com/gpu", "NoSchedule")}
    (waits,) = set(wanted) - set(running(cluster, *wanted))
    assert "Insufficient nvidia.com/gpu" in cluster.unschedulable(waits)
    cluster.remove_pods()
    eventually(lambda: nodes(cluster), {})


def test_a_burst_on_a_shared_pool_does_not_exceed_the_maximum(cluster: Platform) -> None:
    sharing = {"mode": "time-slicing", "replicas": 4, "rename": False}
    wanted = node_pool(most=2, sharing=sharing)
    assert (
        wanted["spec"]["limits"]["nvidia.com/gpu"] == "8"
    )  # six nodes with one GPU each would be within the limit of eight
    cluster.client.apply(wanted)
    names = [f"burst-{index}" for index in range(6)]
    for name in names:
        cluster.pod(name, "nvidia.com/gpu", tolerations=[TOLERATION], nodeSelector={"gpu-platform.dev/pool": POOL})
    eventually(lambda: len(running(cluster, *names)), 2)
    waiting = [name for name in names if name not in running(cluster, *names)]
    assert all("Insufficient nvidia.com/gpu" in cluster.unschedulable(name) for name in waiting)
    assert len(list(cluster.client.objects("karpenter.sh/v1", "NodeClaim"))) == 2
    cluster.remove_pods()
    eventually(lambda: nodes(cluster), {})


def test_a_burst_does_not_exceed_the_maximum_of_an_autoscaled_pool(
    platform: Platform,
) -> None:
    stack = {
        **BASE,
        "cluster": {"provider": "sandbox", "name": platform.kubeconfig.resolve().parent.name},
        "pools": [{"name": "burst", "machine_type": "g6.4xlarge", "count": {"desired": 0, "max": 2},
                   "workload": "development"}],
        "teams": [],
    }  # fmt: skip
    ran = platform.up(stack)
    assert ran.code == 0, ran.err
    names = [f"burst-{index}" for index in range(6)]
    for name in names:
        cluster_pool = {"gpu-platform.dev/pool": "burst"}
        platform.pod(name, "nvidia.com/gpu", tolerations=[TOLERATION], nodeSelector=cluster_pool)
    eventually(lambda: len(running(platform, *names)), 2)
    assert len(list(platform.client.objects("karpenter.sh/v1", "NodeClaim"))) == 2
    platform.remove_pods()


def test_a_pod_without_the_toleration_of_gpu_nodes_gets_no_node(cluster: Platform) -> None:
    cluster.pod("plain", "cpu", tolerate=False, nodeSelector={"gpu-platform.dev/pool": POOL})

    def event() -> bool:
        return any(
            "did not tolerate" in one.get("note", one.get("message", ""))
            for one in cluster.client.objects("v1", "Event", namespace="default")
            if one["involvedObject"].get("name") == "plain" and one["reason"] == "FailedScheduling"
        )

    eventually(event)
    assert nodes(cluster) == {}


def test_an_autoscaled_pool_adds_validated_nodes_and_removes_them(
    platform: Platform,
) -> None:
    stack = {
        **BASE,
        "cluster": {"provider": "sandbox", "name": platform.kubeconfig.resolve().parent.name},
        "pools": [
            {**BASE["pools"][1], "name": "chat", "count": {"min": 1, "desired": 1, "max": 2}},
            # The nodes of this pool are partitioned before a pod starts on them.
            {**BASE["pools"][2], "name": "slices", "count": {"desired": 0, "max": 1}},
        ],
        "teams": [],
    }
    ran = platform.up(stack)
    assert ran.code == 0, ran.err

    def nodes_of(pool: str) -> dict[str, dict[str, Any]]:
        selector = f"gpu-platform.dev/pool={pool}"
        found = platform.client.objects("v1", "Node", label_selector=selector)
        return {one["metadata"]["name"]: one for one in found}

    assert set(nodes_of("chat")) == {"chat-0"}
    assert not nodes_of("slices")
    shares = [f"share-{number}" for number in range(5)]
    for name in shares:
        platform.pod(name, "nvidia.com/gpu.shared")
    platform.pod("slice", "nvidia.com/mig-1g.10gb")
    eventually(lambda: set(running(platform, *shares, "slice")) == {*shares, "slice"})
    assert len(nodes_of("chat")) == 2
    (slices,) = nodes_of("slices")
    assert platform.allocatable(slices) == {"nvidia.com/mig-1g.10gb": "56"}
    # A node's first report may date from before its GPUs were partitioned.
    eventually(lambda: platform.run("validate", str(platform.write(stack)), "--format", "json").code, 0)
    platform.remove_pods()
    eventually(lambda: (set(nodes_of("chat")), set(nodes_of("slices"))), ({"chat-0"}, set[str]()))

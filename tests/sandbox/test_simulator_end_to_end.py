"""Nodes, sharing, MIG and refused pods of the simulated operator, on the real API server and scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from simulated_cluster import POLICY, Cluster

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.pools.numa import alignable_cpu
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.loaded import plan_platform
from sandbox.control_plane import Status
from sandbox.simulator.kube import query
from tests.support.eventually import eventually

pytestmark = pytest.mark.sandbox

SHARED = (
    "sharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true,"
    " resources: [{name: nvidia.com/gpu, replicas: %d}]}}"
)
MIG = """
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  seven: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  overlapping: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}}]
"""


@pytest.fixture
def cluster(sandbox: Status) -> Iterator[Cluster]:
    """A sandbox with an operator and MIG configs.

    The plugin config `serve` sets 4 replicas. The plugin config `notebooks` sets the MIG strategy `mixed`.
    """
    with Cluster(sandbox) as cluster:
        cluster.operator(MIG, default="version: v1", serve=SHARED % 4, notebooks="flags: {migStrategy: mixed}")
        yield cluster


SERVE = {names.DEVICE_PLUGIN_CONFIG_LABEL: "serve"}
NOTEBOOKS = {names.DEVICE_PLUGIN_CONFIG_LABEL: "notebooks"}


def test_nodes_offer_the_resources_of_their_pools_sharing(cluster: Cluster) -> None:
    whole = cluster.node("p4de.24xlarge")
    shared = cluster.node("g4dn.12xlarge", **SERVE)
    cut = cluster.node("p4de.24xlarge", **NOTEBOOKS, **{names.MIG_CONFIG_LABEL: "seven"})
    eventually(lambda: cluster.gpus(whole), {"gpu": "8"})
    eventually(lambda: cluster.gpus(shared), {"gpu.shared": "16"})
    eventually(lambda: cluster.gpus(cut), {"mig-1g.10gb": "56"})
    assert cluster.labels(cut)[names.MIG_STATE_LABEL] == "success"
    assert cluster.labels(shared)[names.GPU_PRODUCT_LABEL] == "Tesla-T4"
    assert cluster.get_node(whole)["status"]["allocatable"]["cpu"] == "95690m"


def test_the_fifth_pod_on_a_gpu_with_four_replicas_waits(cluster: Cluster) -> None:
    node = cluster.node("g4dn.xlarge", **SERVE)
    eventually(lambda: cluster.gpus(node), {"gpu.shared": "4"})
    pods = [cluster.pod(node, gpu_shared=1) for _ in range(5)]
    eventually(lambda: sorted(cluster.phase(pod) for pod in pods), ["Pending"] + ["Running"] * 4)
    waiting = next(pod for pod in pods if cluster.phase(pod) == "Pending")

    def why() -> bool:
        conditions = cluster.get_pod(waiting)["status"].get("conditions", [])
        return any("Insufficient nvidia.com/gpu.shared" in each.get("message", "") for each in conditions)

    eventually(why, True)


def test_a_pod_without_the_toleration_stays_off_the_node(cluster: Cluster) -> None:
    node = cluster.node("g4dn.xlarge", **SERVE)
    eventually(lambda: cluster.gpus(node), {"gpu.shared": "4"})
    tolerant, other = cluster.pod(node, gpu_shared=1), cluster.pod(node, tolerates=False, gpu_shared=1)
    eventually(lambda: cluster.phase(tolerant), "Running")
    assert cluster.phase(other) == "Pending"


def test_changed_replicas_change_allocatable_by_themselves(cluster: Cluster) -> None:
    nodes = [cluster.node("g4dn.xlarge", **SERVE) for _ in range(2)]
    for node in nodes:
        eventually(lambda node=node: cluster.gpus(node), {"gpu.shared": "4"})
    cluster.config_map("plugin-2", default="version: v1", serve=SHARED % 2)
    change = {"spec": {"devicePlugin": {"config": {"name": "plugin-2"}}}}
    cluster.api.patch(POLICY, change, "merge")
    for node in nodes:
        eventually(lambda node=node: cluster.gpus(node), {"gpu.shared": "2"})
        assert cluster.labels(node)[names.GPU_REPLICAS_LABEL] == "2"


def test_a_config_that_the_plugin_refuses_leaves_a_node_without_gpus(cluster: Cluster) -> None:
    node = cluster.node("g4dn.xlarge", **SERVE)
    eventually(lambda: cluster.gpus(node), {"gpu.shared": "4"})
    cluster.label(node, **{names.DEVICE_PLUGIN_CONFIG_LABEL: "typo"})
    eventually(lambda: cluster.gpus(node), {})
    assert cluster.get_node(node)["status"]["allocatable"]["nvidia.com/gpu.shared"] == "0"
    cluster.label(node, **{names.DEVICE_PLUGIN_CONFIG_LABEL: None})
    eventually(lambda: cluster.gpus(node), {"gpu": "1"})


def test_a_mig_change_goes_through_pending_and_nothing_is_offered_meanwhile(cluster: Cluster) -> None:
    node = cluster.node("p4de.24xlarge", **NOTEBOOKS, **{names.MIG_CONFIG_LABEL: "seven"})
    eventually(lambda: cluster.gpus(node), {"mig-1g.10gb": "56"})
    version = cluster.api.get("/api/v1/nodes")["metadata"]["resourceVersion"]
    cluster.label(node, **{names.MIG_CONFIG_LABEL: "all-disabled"})
    seen: list[tuple[str, tuple[str, ...]]] = []
    for event in cluster.api.watch("/api/v1/nodes", {"fieldSelector": f"metadata.name={node}"}, version):
        state = event["object"]["metadata"]["labels"][names.MIG_STATE_LABEL]
        offered = event["object"]["status"]["allocatable"]
        now = (state, tuple(name for name, count in offered.items() if name.startswith("nvidia") and count != "0"))
        if not seen or seen[-1] != now:
            seen.append(now)
        if now == ("success", ("nvidia.com/gpu",)):
            break
    assert ("pending", ()) in seen
    assert ("success", ()) in seen
    assert cluster.gpus(node) == {"gpu": "8"}


def test_a_layout_that_no_gpu_can_hold_fails_and_a_good_one_heals_it(cluster: Cluster) -> None:
    node = cluster.node("p4de.24xlarge", **NOTEBOOKS, **{names.MIG_CONFIG_LABEL: "overlapping"})
    eventually(lambda: cluster.labels(node).get(names.MIG_STATE_LABEL), "failed")
    eventually(lambda: cluster.gpus(node), {})
    cluster.label(node, **{names.MIG_CONFIG_LABEL: "seven"})
    eventually(lambda: cluster.gpus(node), {"mig-1g.10gb": "56"})
    assert cluster.labels(node)[names.MIG_STATE_LABEL] == "success"


def test_gpus_that_a_pod_holds_are_not_cut_and_the_pod_goes_on(cluster: Cluster) -> None:
    node = cluster.node("p4de.24xlarge", **NOTEBOOKS, **{names.MIG_CONFIG_LABEL: "seven"})
    eventually(lambda: cluster.gpus(node), {"mig-1g.10gb": "56"})
    pod = cluster.pod(node, resources={"nvidia.com/mig-1g.10gb": "1"})
    eventually(lambda: cluster.phase(pod), "Running")
    cluster.label(node, **{names.MIG_CONFIG_LABEL: "all-disabled"})
    eventually(lambda: cluster.labels(node).get(names.MIG_STATE_LABEL), "failed")
    eventually(lambda: cluster.gpus(node), {"mig-1g.10gb": "56"})
    assert cluster.phase(pod) == "Running"


@pytest.mark.parametrize(
    ("fault", "state", "gpus", "seconds"),
    [
        ('{"kind": "mig-change-failed"}', "failed", {"mig-1g.10gb": "49"}, 0),
        ('{"kind": "mig-change-slow", "seconds": 3}', "success", {"gpu": "7"}, 3),
    ],
)
def test_a_change_fails_or_takes_its_time_on_request(
    cluster: Cluster, fault: str, state: str, gpus: dict[str, str], seconds: int
) -> None:
    node = cluster.node("p4de.24xlarge", **NOTEBOOKS, **{names.MIG_CONFIG_LABEL: "seven"})
    eventually(lambda: cluster.gpus(node), {"mig-1g.10gb": "56"})
    # The first fault does not affect the current layout.
    # If the second fault removes a GPU, the simulator has read both faults.
    cluster.faults(**{node: f'[{fault}, {{"kind": "gpu-missing", "index": 7}}]'})
    eventually(lambda: cluster.gpus(node), {"mig-1g.10gb": "49"})
    assert cluster.labels(node)[names.MIG_STATE_LABEL] == "success"
    began = time.monotonic()
    cluster.label(node, **{names.MIG_CONFIG_LABEL: "all-disabled"})
    eventually(lambda: (cluster.gpus(node), cluster.labels(node)[names.MIG_STATE_LABEL]), (gpus, state))
    assert time.monotonic() - began >= seconds


def test_a_pod_that_asks_for_two_shared_replicas_fails_as_on_a_real_node(cluster: Cluster) -> None:
    node = cluster.node("g4dn.xlarge", **SERVE)
    eventually(lambda: cluster.gpus(node), {"gpu.shared": "4"})
    pod = cluster.pod(node, gpu_shared=2)
    eventually(lambda: cluster.phase(pod), "Failed")
    status = cluster.get_pod(pod)["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1; found 2" in status["message"]


def test_faults_show_and_go(cluster: Cluster) -> None:
    node = cluster.node("p4de.24xlarge")
    eventually(lambda: cluster.gpus(node), {"gpu": "8"})
    cluster.faults(**{node: '[{"kind": "gpu-missing", "index": 3}]'})
    eventually(lambda: cluster.gpus(node), {"gpu": "7"})
    assert cluster.labels(node)[names.GPU_COUNT_LABEL] == "7"
    cluster.faults(**{node: None})
    eventually(lambda: cluster.gpus(node), {"gpu": "8"})


def test_the_runtime_class_exists_only_with_the_cluster_policy(cluster: Cluster) -> None:
    classes = "/apis/node.k8s.io/v1/runtimeclasses"

    def present() -> list[str]:
        return [each["metadata"]["name"] for each in cluster.api.get(classes)["items"]]

    eventually(present, ["nvidia"])
    cluster.api.delete_now(POLICY, cluster.api.get(POLICY)["metadata"]["uid"])
    eventually(present, [])


def test_without_the_cluster_policy_a_node_has_neither_gpus_nor_labels(cluster: Cluster) -> None:
    node = cluster.node("g4dn.xlarge", **SERVE)
    eventually(lambda: cluster.gpus(node), {"gpu.shared": "4"})
    cluster.api.delete_now(POLICY, cluster.api.get(POLICY)["metadata"]["uid"])
    eventually(lambda: cluster.gpus(node), {})
    eventually(
        lambda: {key for key in cluster.labels(node) if key.startswith("nvidia.com/")},
        {names.DEVICE_PLUGIN_CONFIG_LABEL},
    )


def test_the_pods_of_a_node_that_is_gone_go_with_it(cluster: Cluster) -> None:
    node = cluster.node("g4dn.xlarge", **SERVE)
    eventually(lambda: cluster.gpus(node), {"gpu.shared": "4"})
    pod = cluster.pod(node, gpu_shared=1)
    eventually(lambda: cluster.phase(pod), "Running")
    cluster.api.delete_now(f"/api/v1/nodes/{node}", cluster.get_node(node)["metadata"]["uid"])
    only_this = query({"fieldSelector": f"metadata.name={pod}"})
    eventually(lambda: cluster.api.get(f"/api/v1/namespaces/default/pods{only_this}")["items"], [])


GPU = "nvidia.com/gpu"
POLICY_OF_KUBELET = {names.TOPOLOGY_POLICY_LABEL: "restricted"}
MISALIGNED = ("Failed", "TopologyAffinityError")
LOCALITY = "Resources cannot be allocated with Topology locality"


@pytest.fixture(scope="module")
def train() -> PoolPlan:
    """A training pool as the planner describes it: 8 GPUs and 96 CPUs on two NUMA nodes."""
    pool = {"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 1}, "workload": "training"}
    document = {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": [pool], "teams": []}
    plan = plan_platform(document, "aligned")
    assert plan.kind == "environment"
    return plan.pools[0]


@pytest.fixture
def aligned(cluster: Cluster) -> str:
    """A node whose kubelet aligns pods to NUMA nodes."""
    node = cluster.node("p4de.24xlarge", **POLICY_OF_KUBELET)
    eventually(lambda: cluster.gpus(node), {"gpu": "8"})
    return node


def outcome(cluster: Cluster, pod: str) -> tuple[str, str]:
    status = cluster.get_pod(pod)["status"]
    return status["phase"], status.get("reason", "")


def events(cluster: Cluster, pod: str) -> list[tuple[str, str, str]]:
    """Return the type, reason and message of the kubelet's Events about a pod."""
    of_pod = query({"fieldSelector": f"involvedObject.uid={cluster.get_pod(pod)['metadata']['uid']}"})
    found = cluster.api.get(f"/api/v1/namespaces/default/events{of_pod}")["items"]
    of_kubelet = [one for one in found if one["source"].get("component") == "kubelet"]
    return [(one["type"], one["reason"], one["message"]) for one in of_kubelet]


@pytest.mark.parametrize(("gpus", "cpu"), [(8, "1"), (8, "48"), (8, "64"), (4, "60"), (4, "48"), (2, "1500m")])
def test_only_pods_that_the_planner_calls_alignable_run(
    cluster: Cluster, aligned: str, train: PoolPlan, gpus: int, cpu: str
) -> None:
    planned = alignable_cpu(cpu, GPU, gpus, train, load_catalog())
    as_written = cluster.pod(aligned, resources={"cpu": cpu, "memory": "1Gi"}, gpu=gpus)
    if planned == cpu:
        eventually(lambda: outcome(cluster, as_written), ("Running", ""))
        return
    eventually(lambda: outcome(cluster, as_written), MISALIGNED)
    assert cluster.get_pod(as_written)["status"]["message"] == f"Pod was rejected: {LOCALITY}"
    eventually(lambda: events(cluster, as_written), [("Warning", "TopologyAffinityError", LOCALITY)])
    as_planned = cluster.pod(aligned, resources={"cpu": planned, "memory": "1Gi"}, gpu=gpus)
    eventually(lambda: outcome(cluster, as_planned), ("Running", ""))


def test_gpus_of_a_pod_that_is_gone_are_free_on_their_numa_node_again(cluster: Cluster, aligned: str) -> None:
    first, second = (cluster.pod(aligned, gpu=3) for _ in range(2))
    eventually(lambda: [outcome(cluster, pod) for pod in (first, second)], [("Running", "")] * 2)
    over_two = cluster.pod(aligned, gpu=2)  # one GPU is free on each NUMA node
    eventually(lambda: outcome(cluster, over_two), MISALIGNED)
    cluster.remove_pod(first)
    on_one = cluster.pod(aligned, gpu=2)
    eventually(lambda: outcome(cluster, on_one), ("Running", ""))

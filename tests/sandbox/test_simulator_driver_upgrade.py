"""Decisions of the driver upgrade controller without a cluster, then node by node on the real API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from simulated_cluster import POLICY, TOLERATION, Cluster

from gpu_platform.base import names
from sandbox.control_plane import Status
from sandbox.simulator.driver_upgrade import (
    DRAIN_SKIP_LABEL,
    Eviction,
    ManagedDriver,
    NodeState,
    State,
    UpgradePolicy,
    available_slots,
    is_waited_for,
    pods_to_delete,
    pods_to_drain,
    read_nvidia_driver,
    read_upgrade_policy,
    starting_nodes,
)
from sandbox.simulator.driver_upgrades import DriverUpgrades
from sandbox.simulator.kube import ApiError, Informer
from tests.support.eventually import eventually


def node(name: str, state: State = State.UPGRADE_REQUIRED, **more: Any) -> NodeState:
    return NodeState(name, state, outdated=True, **more)


FOUR = [node(name) for name in "abcd"]


# -- limits on parallel upgrades -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallel", "unavailable", "slots"),
    [(1, "25%", 1), (2, "50%", 2), (4, "50%", 2), (0, 4, 4), (0, 3, 3), (3, 0, 0)],
)
def test_as_many_nodes_start_as_both_limits_allow(parallel: int, unavailable: int | str, slots: int) -> None:
    assert available_slots(FOUR, UpgradePolicy(parallel, unavailable)) == slots


def test_nodes_in_progress_and_failed_ones_take_slots() -> None:
    nodes = [*FOUR[:2], node("c", State.POD_DELETION_REQUIRED), node("d", State.FAILED)]
    assert available_slots(nodes, UpgradePolicy(2, 4)) == 0
    assert available_slots(nodes, UpgradePolicy(3, 4)) == 1


def test_cordoned_and_unready_nodes_count_as_unavailable() -> None:
    nodes = [*FOUR[:3], node("d", unschedulable=True)]
    assert available_slots(nodes, UpgradePolicy(1, "25%")) == 0
    nodes = [*FOUR[:3], node("d", State.DONE, ready=False)]
    assert available_slots(nodes, UpgradePolicy(1, 2)) == 1


def test_cordoned_nodes_need_no_slot_and_skipped_nodes_never_start() -> None:
    nodes = [node("a", skipped=True), node("b"), node("c", unschedulable=True)]
    assert starting_nodes(nodes, UpgradePolicy(1, 1)) == ("c",)


def test_without_auto_upgrade_there_is_no_policy() -> None:
    assert read_upgrade_policy({}) is None
    assert read_upgrade_policy({"autoUpgrade": False, "maxParallelUpgrades": 3}) is None
    assert read_upgrade_policy({"autoUpgrade": True}) == UpgradePolicy()


# -- pods ------------------------------------------------------------------------------------------------------


def pod(gpus: int = 1, *, owner: str | None = "ReplicaSet", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "controller": True}] if owner else []
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    return {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "ownerReferences": owners,
            "labels": spec.pop("labels", {}),
        },
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}], **spec},
        "status": {"phase": phase},
    }


def test_only_gpu_pods_that_have_not_ended_are_deleted() -> None:
    gpu, mig = pod(), pod(0, containers=[{"resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}])
    others = [pod(0), pod(phase="Succeeded", owner="Job")]
    assert pods_to_delete([gpu, mig, *others], Eviction(), {}).pods == (gpu, mig)


def claim(driver: str = "gpu.nvidia.com", **result: Any) -> dict[str, Any]:
    return {"status": {"allocation": {"devices": {"results": [{"driver": driver, **result}]}}}}


@pytest.mark.parametrize(
    ("found", "deleted"),
    [
        (claim(), True),
        (claim(adminAccess=True), False),
        (claim("dranet"), False),
        ({"status": {}}, False),
        (None, True),
    ],
    ids=["gpu", "admin", "nic", "pending", "gone"],
)
def test_pods_with_a_gpu_claim_are_deleted_even_if_the_claim_is_gone(found: Any, deleted: bool) -> None:
    by_name = pod(0, resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    generated = pod(0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    generated["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    claims = {("n", "mine"): found} if found is not None else {}
    expected = (by_name, generated) if deleted else ()
    assert pods_to_delete([by_name, generated], Eviction(), claims).pods == expected


def test_a_pod_whose_claim_was_not_generated_yet_holds_no_gpu() -> None:
    waiting = pod(0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    assert pods_to_delete([waiting], Eviction(), {}).pods == ()


def test_an_nvidia_driver_has_version_and_policy_and_no_device_plugin() -> None:
    spec = {"version": "580.1", "upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 2}}
    assert read_nvidia_driver(spec) == ManagedDriver("580.1", UpgradePolicy(parallel=2), device_plugin=False)
    assert read_nvidia_driver({}) == ManagedDriver(upgrades=None, device_plugin=False)


@pytest.mark.parametrize(
    ("refused", "eviction", "word"),
    [
        (pod(owner=None), Eviction(), "no controller"),
        (pod(volumes=[{"name": "shm", "emptyDir": {}}]), Eviction(), "emptyDir"),
        (pod(owner="DaemonSet"), Eviction(force=True), "DaemonSet"),
    ],
)
def test_a_gpu_pod_that_kubectl_would_not_delete_stops_the_upgrade(
    refused: dict[str, Any], eviction: Eviction, word: str
) -> None:
    found = pods_to_delete([pod(), refused], eviction, {})
    assert found.pods == ()
    assert found.refused.startswith("pod n/p: ")
    assert word in found.refused


def test_force_and_delete_empty_dir_allow_them() -> None:
    bare, scratch = pod(owner=None), pod(volumes=[{"name": "shm", "emptyDir": {}}])
    assert pods_to_delete([bare, scratch], Eviction(force=True, delete_empty_dir=True), {}).pods == (bare, scratch)


def test_a_drain_evicts_all_but_daemon_sets_and_marked_pods() -> None:
    web = pod(0, labels={"app": "web"})
    rest = [pod(0, owner="DaemonSet"), pod(0, labels={DRAIN_SKIP_LABEL: "true"})]
    assert pods_to_drain([web, *rest], Eviction()).pods == (web,)
    assert pods_to_drain([web], Eviction(selector={"app": "job"})).pods == ()


def test_an_upgrade_waits_for_the_pods_that_the_policy_selects() -> None:
    policy = read_upgrade_policy(
        {"autoUpgrade": True, "waitForCompletion": {"podSelector": "app=train,tier=gpu", "timeoutSeconds": 60}}
    )
    assert policy is not None
    assert policy.wait_seconds == 60
    assert is_waited_for(pod(labels={"app": "train", "tier": "gpu", "x": "y"}), policy)
    assert not is_waited_for(pod(labels={"app": "train"}), policy)
    assert not is_waited_for(pod(labels={"app": "train", "tier": "gpu"}, phase="Succeeded"), policy)


# -- on the real API server ---------------------------------------------------------------------------------------

OLD, NEW = "580.95.05", "595.91.07"  # OLD is the initial driver of a node in simulated_cluster.py


@pytest.fixture
def cluster(sandbox: Status) -> Iterator[Cluster]:
    with Cluster(sandbox) as cluster:
        cluster.operator(default="version: v1")
        driver(cluster, OLD)
        yield cluster


def driver(cluster: Cluster, version: str, **policy: Any) -> None:
    upgrades = {"autoUpgrade": True, "podDeletion": {"timeoutSeconds": 300, "deleteEmptyDir": True}, **policy}
    cluster.api.patch(POLICY, {"spec": {"driver": {"version": version, "upgradePolicy": upgrades}}}, "merge")


def state(cluster: Cluster, name: str) -> str:
    return cluster.labels(name).get(names.DRIVER_UPGRADE_STATE_LABEL, "")


def version(cluster: Cluster, name: str) -> str:
    return cluster.labels(name).get(names.DRIVER_VERSION_LABEL, "")


def replicas(cluster: Cluster, name: str, node: str, **limits: str) -> None:
    """Run a Deployment with one pod on a node."""
    labels = {"app": name}
    spec = {
        "nodeSelector": {names.HOSTNAME_LABEL: node},
        "tolerations": [TOLERATION],
        "containers": [{"name": "main", "image": "none", "resources": {"limits": dict(limits)}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    cluster.make("/apis/apps/v1/namespaces/default/deployments", body)
    eventually(lambda: running(cluster, name))


def running(cluster: Cluster, name: str) -> list[Mapping[str, Any]]:
    pods = cluster.api.get(f"/api/v1/namespaces/default/pods?labelSelector=app%3D{name}")["items"]
    return [one for one in pods if one["status"].get("phase") == "Running"]


class Watched(threading.Thread):
    """Records every upgrade state of the nodes, and the maximum number of nodes cordoned at the same time."""

    def __init__(self, cluster: Cluster, nodes: list[str]) -> None:
        super().__init__(daemon=True)
        self._cluster, self._nodes = cluster, nodes
        self.states: dict[str, list[str]] = {name: [] for name in nodes}
        self.most_cordoned = 0
        self._stop = threading.Event()
        self._from = cluster.api.get("/api/v1/nodes")["metadata"]["resourceVersion"]

    def run(self) -> None:
        with suppress(ApiError):  # the watch fails when the sandbox is stopped
            self._watch()

    def _watch(self) -> None:
        cordoned: set[str] = set()
        for event in self._cluster.api.watch("/api/v1/nodes", {}, self._from):
            seen = event["object"]
            name = seen["metadata"]["name"]
            if name in self.states:
                now = seen["metadata"]["labels"].get(names.DRIVER_UPGRADE_STATE_LABEL, "")
                if self.states[name][-1:] != [now]:
                    self.states[name].append(now)
                (cordoned.add if seen["spec"].get("unschedulable") else cordoned.discard)(name)
                self.most_cordoned = max(self.most_cordoned, len(cordoned))
            if self._stop.is_set():
                return

    def stop(self) -> None:
        self._stop.set()


@pytest.mark.sandbox
def test_a_changed_driver_rolls_node_by_node_through_all_states(cluster: Cluster) -> None:
    nodes = [cluster.node("g4dn.xlarge") for _ in range(2)]
    for name in nodes:
        eventually(lambda name=name: (state(cluster, name), version(cluster, name)), ("upgrade-done", OLD))
    replicas(cluster, "serving", nodes[0], **{"nvidia.com/gpu": "1"})
    replicas(cluster, "web", nodes[0], cpu="100m")
    (gpu_pod,), (cpu_pod,) = running(cluster, "serving"), running(cluster, "web")
    watched = Watched(cluster, nodes)
    watched.start()
    driver(cluster, NEW)
    for name in nodes:
        eventually(lambda name=name: (state(cluster, name), version(cluster, name)), ("upgrade-done", NEW))
        eventually(lambda name=name: cluster.gpus(name), {"gpu": "1"})
    steps = [
        "upgrade-required",
        "cordon-required",
        "wait-for-jobs-required",
        "pod-deletion-required",
        "pod-restart-required",
        "validation-required",
        "uncordon-required",
        "upgrade-done",
    ]
    for name in nodes:  # the watch may lag behind the state that was read above
        eventually(lambda name=name: [one for one in watched.states[name] if one in steps][-len(steps) :], steps)
    watched.stop()
    assert watched.most_cordoned == 1
    for name in nodes:
        assert not cluster.get_node(name)["spec"].get("unschedulable")
    eventually(
        lambda: [one["metadata"]["uid"] != gpu_pod["metadata"]["uid"] for one in running(cluster, "serving")],
        [True],
    )
    assert [one["metadata"]["uid"] for one in running(cluster, "web")] == [cpu_pod["metadata"]["uid"]]


@pytest.mark.sandbox
def test_a_budget_holds_an_upgrade_up_until_it_allows_the_eviction(cluster: Cluster) -> None:
    name = cluster.node("g4dn.xlarge")
    eventually(lambda: state(cluster, name), "upgrade-done")
    replicas(cluster, "guarded", name, **{"nvidia.com/gpu": "1"})
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "guarded"}}
    cluster.make(budgets, {"metadata": {"name": "guard"}, "spec": {"minAvailable": 1, "selector": selector}})
    eventually(lambda: cluster.api.get(f"{budgets}/guard")["status"].get("expectedPods"))
    driver(cluster, NEW)
    eventually(lambda: state(cluster, name), "pod-deletion-required")
    held = running(cluster, "guarded")
    assert [version(cluster, name), len(held)] == [OLD, 1]
    cluster.api.patch(f"{budgets}/guard", {"spec": {"minAvailable": 0}}, "merge")
    eventually(lambda: (state(cluster, name), version(cluster, name)), ("upgrade-done", NEW))
    cluster.api.delete_now(f"{budgets}/guard", cluster.api.get(f"{budgets}/guard")["metadata"]["uid"])


@pytest.mark.sandbox
def test_a_pod_without_a_controller_fails_the_upgrade_and_stays(cluster: Cluster) -> None:
    name = cluster.node("g4dn.xlarge")
    eventually(lambda: cluster.gpus(name), {"gpu": "1"})
    bare = cluster.pod(name, gpu=1)
    eventually(lambda: cluster.phase(bare), "Running")
    driver(cluster, NEW)
    eventually(lambda: state(cluster, name), "upgrade-failed")
    assert cluster.phase(bare) == "Running"
    assert cluster.get_node(name)["spec"]["unschedulable"]
    driver(cluster, OLD)  # undo the upgrade
    eventually(lambda: state(cluster, name), "upgrade-done")
    assert not cluster.get_node(name)["spec"].get("unschedulable")


@pytest.mark.sandbox
def test_a_node_that_somebody_cordoned_is_upgraded_and_stays_cordoned(cluster: Cluster) -> None:
    name = cluster.node("g4dn.xlarge")
    eventually(lambda: state(cluster, name), "upgrade-done")
    cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, "merge")
    driver(cluster, NEW)
    eventually(lambda: (state(cluster, name), version(cluster, name)), ("upgrade-done", NEW))
    assert cluster.get_node(name)["spec"]["unschedulable"]


@pytest.mark.sandbox
def test_a_cordon_that_the_controller_has_not_seen_yet_is_not_overlooked(cluster: Cluster) -> None:
    name = cluster.node("g4dn.xlarge")
    eventually(lambda: state(cluster, name), "upgrade-done")
    seen = cluster.get_node(name)
    cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, "merge")
    nodes = Informer(cluster.api, "/api/v1/nodes", threading.Event())
    DriverUpgrades(cluster.api, nodes, driver_seconds=0).reconcile(
        [seen], {}, {}, ManagedDriver(NEW, UpgradePolicy())
    )
    # With the state "upgrade-required", the node would lack the annotation for the earlier cordon.
    assert state(cluster, name) == "upgrade-done"


@pytest.mark.sandbox
def test_without_auto_upgrade_nodes_keep_their_driver(cluster: Cluster) -> None:
    name = cluster.node("g4dn.xlarge")
    eventually(lambda: state(cluster, name), "upgrade-done")
    driver(cluster, NEW, autoUpgrade=False)
    eventually(lambda: state(cluster, name), "")
    assert version(cluster, name) == OLD


# -- a new operator release ---------------------------------------------------------------------------------------


@pytest.mark.sandbox
def test_another_release_restarts_the_operands_of_one_node_after_the_other(cluster: Cluster) -> None:
    release(cluster, "v26.3.3")
    nodes = [cluster.node("g4dn.xlarge") for _ in range(2)]
    for name in nodes:
        eventually(lambda name=name: (operands(cluster, name), cluster.gpus(name)), ("v26.3.3", {"gpu": "1"}))
    replicas(cluster, "stays", nodes[0], **{"nvidia.com/gpu": "1"})
    (before,) = running(cluster, "stays")
    events: list[tuple[str, str]] = []
    version_before = cluster.api.get("/api/v1/nodes")["metadata"]["resourceVersion"]

    def watch() -> None:
        with suppress(ApiError):  # the watch fails when the sandbox is stopped
            for event in cluster.api.watch("/api/v1/nodes", {}, version_before):
                seen = event["object"]
                count = seen["status"].get("allocatable", {}).get("nvidia.com/gpu", "0")
                events.append((seen["metadata"]["name"], count))

    threading.Thread(target=watch, daemon=True).start()
    release(cluster, "v26.7.0")
    for name in nodes:
        eventually(lambda name=name: (operands(cluster, name), cluster.gpus(name)), ("v26.7.0", {"gpu": "1"}))
    eventually(lambda: {name for name, count in events if count == "0"} >= set(nodes))
    (after,) = running(cluster, "stays")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def release(cluster: Cluster, text: str) -> None:
    cluster.api.patch(POLICY, {"metadata": {"labels": {names.VERSION_LABEL: text}}}, "merge")


def operands(cluster: Cluster, name: str) -> str:
    return cluster.get_node(name)["metadata"]["annotations"].get(names.SANDBOX_OPERANDS_ANNOTATION, "")

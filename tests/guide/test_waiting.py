"""Why a workload waits, derived from conditions of Kueue 0.19.2 (observed on a real API server on 2026-11-25)."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.guide.waiting import why_it_waits, why_pods_are_missing

POOLS = {"train-56c125": "train", "serve-f17c2a": "serve"}
NEVER = (
    "insufficient quota for {} in flavor {}, previously considered podsets requests (0) + current podset request "
    "({}) > maximum capacity ({})"
)
UNTOLERATED = "untolerated taint {nvidia.com/gpu present NoSchedule <nil>} in flavor train-56c125"
POOL_LABEL = "gpu-platform.dev/pool"
CPU_NODES = "nodes-without-gpus.gpu-platform.dev"


def node(pool: str, resource: str, amount: str) -> dict[str, Any]:
    allocatable = {"cpu": "95600m", "memory": "1100Gi", resource: amount, "nvidia.com/empty": "0"}
    return {"metadata": {"labels": {POOL_LABEL: pool}}, "status": {"allocatable": allocatable}}


NODES = [
    node("train", "nvidia.com/gpu", "8"),
    node("serve", "nvidia.com/gpu", "1"),
    node("lab", "nvidia.com/mig-1g.10gb", "56"),
]


def pod_sets(requests: dict[str, str], selector: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the spec of a workload with one pod whose container has equal requests and limits."""
    container = {"name": "main", "resources": {"requests": requests, "limits": requests}}
    return {"podSets": [{"template": {"spec": {"containers": [container], "nodeSelector": selector or {}}}}]}


def workload(*segments: str, **stopped: str) -> dict[str, Any]:
    """Return a workload without reserved quota. `stopped` maps the types of other true conditions to reasons."""
    message = "couldn't assign flavors to pod set main: " + ", ".join(segments)
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    others = [{"type": kind, "status": "True", "reason": reason} for kind, reason in stopped.items()]
    return {"status": {"conditions": [waits, *others]}}


def test_a_resource_in_use_is_named_with_its_pool() -> None:
    found = workload(
        NEVER.format("nvidia.com/gpu", CPU_NODES, 8, 0),
        NEVER.format("nvidia.com/gpu", "serve-f17c2a", 8, 0),
        "insufficient unused quota for nvidia.com/gpu in flavor train-56c125, 8 more needed",
    )
    assert why_it_waits(found, POOLS) == "needs 8 more nvidia.com/gpu of pool train, which is in use"


def test_a_request_above_the_maximum_never_starts() -> None:
    found = workload(
        NEVER.format("nvidia.com/gpu", "serve-f17c2a", 24, 4),
        NEVER.format("nvidia.com/gpu", "train-56c125", 24, 16),
    )
    assert why_it_waits(found, POOLS) == (
        "can never start: it requests 24 nvidia.com/gpu; the team may use at most 16 on one pool"
    )


def test_cpus_above_the_quota_are_reported_instead_of_the_gpu_taint() -> None:
    found = workload(NEVER.format("cpu", CPU_NODES, 70, 64), UNTOLERATED)
    assert why_it_waits(found, POOLS) == (
        "can never start: it requests 70 cpu; the team may use at most 64 on one pool"
    )


def test_gpu_pods_without_the_toleration_are_explained_with_a_fix() -> None:
    found = workload(NEVER.format("nvidia.com/gpu", CPU_NODES, 8, 0), UNTOLERATED)
    found["spec"] = pod_sets({"nvidia.com/gpu": "8"})
    assert "does not tolerate the taint nvidia.com/gpu of the nodes; add the toleration" in why_it_waits(
        found, POOLS
    )


def test_a_workload_without_gpus_is_advised_to_use_a_cpu_pool() -> None:
    found = workload(NEVER.format("cpu", CPU_NODES, 4, 0), UNTOLERATED)
    found["spec"] = pod_sets({"cpu": "4"})
    assert why_it_waits(found, POOLS) == (
        "can never start: the queue has only nodes with GPUs; request a GPU, or ask for a CPU pool"
    )


def test_memory_is_printed_as_users_write_it() -> None:
    found = workload(NEVER.format("memory", "train-56c125", 2 * 2**40, "1756683Mi"))
    assert "it requests 2048Gi memory; the team may use at most 1716Gi" in why_it_waits(found, POOLS)


@pytest.mark.parametrize(
    ("requests", "selector", "why"),
    [
        (
            {"nvidia.com/gpu": "1"},
            {POOL_LABEL: "trian"},
            "its node selector names pool trian, but the pools are lab, serve, train",
        ),
        ({"nvidia.com/gpu": "1"}, {"pool": "train"}, "no node has all labels of its node selector: pool=train"),
        (
            {"nvidia.com/gpu": "1"},
            {POOL_LABEL: "lab"},
            f"it requests nvidia.com/gpu, which the nodes that match its node selector ({POOL_LABEL}=lab) do "
            "not have; "
            "they have nvidia.com/mig-1g.10gb",
        ),
        ({"nvidia.com/gpu": "1", "cpu": "100500m"}, {}, "a pod requests 100.5 cpu, but a node has at most 95.6"),
        (
            {"nvidia.com/gpu": "1", "memory": "1300Gi"},
            {},
            "a pod requests 1300Gi memory, but a node has at most 1100Gi",
        ),
        (
            {"nvidia.com/gpu": "9"},
            {POOL_LABEL: "train"},
            "a pod requests 9 nvidia.com/gpu, but a node has at most 8",
        ),
    ],
)
def test_a_pod_too_large_for_any_node_never_starts(
    requests: dict[str, str], selector: dict[str, str], why: str
) -> None:
    found = workload("insufficient unused quota for nvidia.com/gpu in flavor train-56c125, 1 more needed")
    found["spec"] = pod_sets(requests, selector)
    assert why_it_waits(found, POOLS, nodes=NODES) == f"can never start: {why}"


def test_a_pool_without_nodes_may_get_some_that_fit() -> None:
    found = workload("insufficient unused quota for nvidia.com/gpu in flavor train-56c125, 1 more needed")
    for selector in ({POOL_LABEL: "serve"}, {}):
        found["spec"] = pod_sets({"nvidia.com/gpu": "9"}, selector)
        only_lab = [node for node in NODES if node["metadata"]["labels"][POOL_LABEL] == "lab"]
        assert why_it_waits(found, POOLS, nodes=only_lab).startswith("needs 1 more")


def live_node(pool: str, ready: str = "True", **spec: Any) -> dict[str, Any]:
    found = {**node(pool, "nvidia.com/gpu", "8"), "spec": spec}
    found["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return found


HELD_BACK = [{"key": "status-taint.cluster-autoscaler.kubernetes.io/gpu-failed", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    "closed",
    [
        live_node("train", unschedulable=True),
        live_node("train", taints=HELD_BACK),
        live_node("train", ready="False"),
    ],
    ids=["cordoned", "held back", "not ready"],
)
def test_a_pool_without_a_node_for_pods_is_named_with_the_other_pool(closed: dict[str, Any]) -> None:
    found = workload("no topology domains at level: kubernetes.io/hostname")
    found["spec"] = pod_sets({"nvidia.com/gpu": "8"})
    why = why_it_waits(found, POOLS, nodes=[closed, live_node("serve")])
    assert why.startswith("no node of pool train accepts pods now")
    assert why.endswith("name pool serve in the node selector")


def test_a_workload_that_names_a_closed_pool_or_finds_none_is_explained() -> None:
    found = workload("no topology domains at level: kubernetes.io/hostname")
    closed, other = live_node("train", unschedulable=True), live_node("serve", unschedulable=True)
    found["spec"] = pod_sets({"nvidia.com/gpu": "8"}, {POOL_LABEL: "train"})
    assert why_it_waits(found, POOLS, nodes=[closed, live_node("serve")]).startswith(
        "no node of pool train accepts"
    )
    found["spec"] = pod_sets({"nvidia.com/gpu": "8"})
    why = why_it_waits(found, POOLS, nodes=[closed, other])
    assert why == ("no node of pools serve and train accepts pods now (cordoned, held back, not ready or missing)")
    assert "no topology domains" in why_it_waits(found, POOLS, nodes=[live_node("train"), live_node("serve")])


def test_a_resource_without_a_quota_is_reported_as_the_reason() -> None:
    found = workload("resource networking.gke.io.networks/vpc1 unavailable in ClusterQueue")
    found["spec"] = pod_sets({"networking.gke.io.networks/vpc1": "1"})
    having = node("train", "networking.gke.io.networks/vpc1", "1")
    for nodes in (NODES, [having]):
        why = why_it_waits(found, {"train-56c125": "train"}, nodes=nodes)
        assert why.startswith(
            "can never start: it requests networking.gke.io.networks/vpc1, but no queue has a quota for it"
        )
        assert "resources.excludeResourcePrefixes" in why


def test_unavailable_gpu_resources_are_reported_with_available_ones() -> None:
    found = workload("resource nvidia.com/mig-7g.80gb unavailable in ClusterQueue")
    found["spec"] = pod_sets({"nvidia.com/mig-7g.80gb": "1"})
    why = why_it_waits(found, {"lab-1": "lab"}, nodes=NODES)
    assert "which the nodes do not have; they have nvidia.com/gpu" in why


@pytest.mark.parametrize(
    ("stopped", "told"),
    [
        (
            {"Preempted": "InCohortReclamation", "Evicted": "Preempted"},
            "the team that owns the borrowed quota needed it",
        ),
        (
            {"Preempted": "InClusterQueue", "Evicted": "Preempted"},
            "another workload of the team with a higher priority",
        ),
        ({"Evicted": "PodsReadyTimeout"}, "its pods did not become ready in time"),
        ({"Evicted": "DeactivatedDueToAdmissionCheck"}, "it was deactivated"),
    ],
)
def test_a_stopped_workload_explains_the_stop_and_the_wait(stopped: dict[str, str], told: str) -> None:
    missing = "insufficient unused quota for nvidia.com/gpu in flavor train-56c125, 8 more needed"
    found = why_it_waits(workload(missing, **stopped), POOLS)
    assert found.startswith(f"was stopped, because {told}")
    assert found.endswith("needs 8 more nvidia.com/gpu of pool train, which is in use")


def test_a_refused_request_for_nodes_is_explained_with_its_message() -> None:
    found = workload("anything", Evicted="AdmissionCheck")
    check = 'AdmissionCheck in Retry state: "nodes-of-flex" (Max nodepool size reached)'
    found["status"]["conditions"][1]["message"] = f"Evicted due to {check}"
    assert why_it_waits(found, {}).startswith(f"was stopped, because no nodes were provisioned for it: {check}; ")


def test_other_messages_of_kueue_are_printed_unchanged() -> None:
    condition = {"type": "QuotaReserved", "status": "False", "message": "Workload has failed admission checks"}
    assert why_it_waits({"status": {"conditions": [condition]}}, {}) == "Workload has failed admission checks"
    assert why_it_waits({}, {}) == "Kueue has not processed the workload yet"


def own_queue(cpu: str, used_cpu: str = "0", gpus: str = "8") -> dict[str, Any]:
    """Return a team's queue with a quota on pool train. Its workloads use 4 GPUs and `used_cpu` CPUs."""
    nominal = [{"name": "cpu", "nominalQuota": cpu}, {"name": "nvidia.com/gpu", "nominalQuota": gpus}]
    held = [{"name": "cpu", "total": used_cpu}, {"name": "nvidia.com/gpu", "total": "4"}]
    return {
        "spec": {"resourceGroups": [{"flavors": [{"name": "train-56c125", "resources": nominal}]}]},
        "status": {"flavorsReservation": [{"name": "train-56c125", "resources": held}]},
    }


def requesting(cpu: str, gpus: str) -> dict[str, Any]:
    missing = "insufficient unused quota for nvidia.com/gpu in flavor train-56c125, 2 more needed"
    found = workload(missing)
    found["status"]["resourceRequests"] = [{"name": "main", "resources": {"cpu": cpu, "nvidia.com/gpu": gpus}}]
    return found


def test_gpus_not_reclaimed_because_of_cpu_are_explained() -> None:
    why = why_it_waits(requesting("48500m", "4"), POOLS, own_queue("95", "47"))
    assert why == (
        "needs 2 more nvidia.com/gpu of pool train, which is in use; the team's own nvidia.com/gpu "
        "is not reclaimed from others, because the workload would have to borrow cpu of pool train: "
        "request at most 48 cpu"
    )


@pytest.mark.parametrize(("cpu", "gpus"), [("48", "4"), ("48500m", "5")])
def test_reclaimed_or_borrowed_gpus_need_no_other_reason(cpu: str, gpus: str) -> None:
    why = why_it_waits(requesting(cpu, gpus), POOLS, own_queue("95", "47"))
    assert why == "needs 2 more nvidia.com/gpu of pool train, which is in use"


def started(ready: str, **others: str) -> dict[str, Any]:
    """Return a started workload. `ready` is the status of its PodsReady condition."""
    found = {"Admitted": "True", "PodsReady": ready, **others}
    return {"status": {"conditions": [{"type": kind, "status": status} for kind, status in found.items()]}}


GPUS_STARTED = {"requests.nvidia.com/gpu": "16", "requests.cpu": "64"}
LOWERED = {"requests.nvidia.com/gpu": "12", "requests.cpu": "32"}


def test_a_pod_refused_by_a_lowered_quota_is_explained_with_numbers() -> None:
    why = why_pods_are_missing(started("False"), GPUS_STARTED, LOWERED)
    assert "the team uses 16 nvidia.com/gpu, but only 12 are allowed now" in why
    assert "Delete another workload, or delete this workload and create it again with fewer pods" in why
    assert "cpu" not in why


@pytest.mark.parametrize(
    ("found", "hard"),
    [
        (started("True"), LOWERED),
        (started("False"), {"requests.nvidia.com/gpu": "16"}),
        (started("False", Finished="True"), LOWERED),
        (workload("anything"), LOWERED),
    ],
    ids=["all pods are ready", "the quota allows all pods", "it has ended", "it waits"],
)
def test_a_workload_whose_pods_no_quota_refuses_is_not_named(found: dict[str, Any], hard: dict[str, str]) -> None:
    assert why_pods_are_missing(found, GPUS_STARTED, hard) == ""

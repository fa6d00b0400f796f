"""Why a workload waits, from conditions as Kueue 0.19.2 writes them (seen on a real API server on 2026-11-25)."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.guide.waiting import why_it_waits

POOLS = {"train-56c125": "train", "serve-f17c2a": "serve"}
NEVER = (
    "insufficient quota for {} in flavor {}, previously considered podsets requests (0) + current podset request "
    "({}) > maximum capacity ({})"
)
UNTOLERATED = "untolerated taint {nvidia.com/gpu present NoSchedule <nil>} in flavor train-56c125"
CPU_NODES = "nodes-without-gpus.gpu-platform.dev"


def workload(*segments: str, **stopped: str) -> dict[str, Any]:
    """Return a workload without quota; `stopped`: reasons by condition."""
    message = "couldn't assign flavors to pod set main: " + ", ".join(segments)
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    others = [{"type": kind, "status": "True", "reason": reason} for kind, reason in stopped.items()]
    return {"status": {"conditions": [waits, *others]}}


def test_what_is_in_use_is_named_with_its_pool_and_what_other_pools_never_offer_is_left_out() -> None:
    found = workload(
        NEVER.format("nvidia.com/gpu", CPU_NODES, 8, 0),
        NEVER.format("nvidia.com/gpu", "serve-f17c2a", 8, 0),
        "insufficient unused quota for nvidia.com/gpu in flavor train-56c125, 8 more needed",
    )
    assert why_it_waits(found, POOLS) == "needs 8 more nvidia.com/gpu of pool train, which is in use"


def test_a_request_above_all_that_can_be_had_never_starts_and_the_most_is_told() -> None:
    found = workload(
        NEVER.format("nvidia.com/gpu", "serve-f17c2a", 24, 4),
        NEVER.format("nvidia.com/gpu", "train-56c125", 24, 16),
    )
    assert why_it_waits(found, POOLS) == (
        "can never start: it requests 24 nvidia.com/gpu, and one pool has at most 16"
    )


def test_cpus_beyond_the_quota_are_told_and_not_the_taint_of_gpu_nodes() -> None:
    found = workload(NEVER.format("cpu", CPU_NODES, 70, 64), UNTOLERATED)
    assert why_it_waits(found, POOLS) == "can never start: it requests 70 cpu, and one pool has at most 64"


def test_gpus_without_the_toleration_of_their_nodes_never_start_and_the_fix_is_told() -> None:
    found = workload(NEVER.format("nvidia.com/gpu", CPU_NODES, 8, 0), UNTOLERATED)
    assert "does not tolerate the taint nvidia.com/gpu of the nodes; add the toleration" in why_it_waits(
        found, POOLS
    )


@pytest.mark.parametrize(
    ("stopped", "told"),
    [
        (
            {"Preempted": "InCohortReclamation", "Evicted": "Preempted"},
            "the team that owns the borrowed quota needed it",
        ),
        ({"Preempted": "InClusterQueue", "Evicted": "Preempted"}, "a workload of a higher class of the team"),
        ({"Evicted": "PodsReadyTimeout"}, "its pods did not become ready in time"),
    ],
)
def test_a_workload_that_was_stopped_says_why_beside_what_it_waits_for(stopped: dict[str, str], told: str) -> None:
    missing = "insufficient unused quota for nvidia.com/gpu in flavor train-56c125, 8 more needed"
    found = why_it_waits(workload(missing, **stopped), POOLS)
    assert found.startswith(f"was stopped, because {told}")
    assert found.endswith("needs 8 more nvidia.com/gpu of pool train, which is in use")


def test_other_messages_of_kueue_are_printed_as_they_are() -> None:
    condition = {"type": "QuotaReserved", "status": "False", "message": "Workload has failed admission checks"}
    assert why_it_waits({"status": {"conditions": [condition]}}, {}) == "Workload has failed admission checks"
    assert why_it_waits({}, {}) == "Kueue has not processed it yet"


def own_queue(cpu: str, used_cpu: str = "0", gpus: str = "8") -> dict[str, Any]:
    """Return a team's queue with a quota on pool train, of which its workloads hold some CPUs."""
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


def test_own_gpus_that_are_not_taken_back_because_of_the_cpu_are_explained_by_it() -> None:
    why = why_it_waits(requesting("48500m", "4"), POOLS, own_queue("95", "47"))
    assert why == (
        "needs 2 more nvidia.com/gpu of pool train, which is in use; the team's own nvidia.com/gpu is not taken "
        "back from others, because the workload would borrow cpu of pool train: request at most 48 cpu"
    )


@pytest.mark.parametrize(("cpu", "gpus"), [("48", "4"), ("48500m", "5")])
def test_what_is_taken_back_or_is_not_the_teams_own_needs_no_other_reason(cpu: str, gpus: str) -> None:
    why = why_it_waits(requesting(cpu, gpus), POOLS, own_queue("95", "47"))
    assert why == "needs 2 more nvidia.com/gpu of pool train, which is in use"

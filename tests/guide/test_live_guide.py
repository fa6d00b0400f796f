"""What `gpu-platform guide --live` prints about the Workloads of a team."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from gpu_platform.guide.document import guide_to_markdown
from gpu_platform.guide.live_guide import LiveGuide, read_live_guide
from gpu_platform.live.client import KubernetesClient
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team


class Cluster:
    """A fake cluster whose objects can be read in the same way as with `KubernetesClient`."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self._objects = objects

    def objects(self, _version: str, kind: str, **_: str) -> Iterator[dict[str, Any]]:
        return (one for one in self._objects if one["kind"] == kind)

    def get(self, _version: str, kind: str, name: str, _namespace: str = "") -> dict[str, Any] | None:
        found = (one for one in self._objects if (one["kind"], one["metadata"]["name"]) == (kind, name))
        return next(found, None)


def workload(name: str, spec: dict[str, Any] | None = None, **conditions: dict[str, str]) -> dict[str, Any]:
    """Return the Workload of a Job. `conditions` maps condition types to fields. The default status is True."""
    return {
        "kind": "Workload",
        "metadata": {
            "name": f"job-{name}-1a2b",
            "namespace": "vision",
            "creationTimestamp": "2026-11-30T00:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": name}],
        },
        "spec": spec or {},
        "status": {"conditions": [{"type": kind, "status": "True", **one} for kind, one in conditions.items()]},
    }


def guide_of(*objects: dict[str, Any]) -> LiveGuide:
    return read_live_guide(cast("KubernetesClient", Cluster(*objects)), "vision")


REFUSED = 'AdmissionCheck in Rejected state: "nodes-of-flex" (Max nodepool size reached)'


def test_a_workload_that_kueue_deactivated_is_listed_with_cause_and_fix() -> None:
    evicted = {
        "reason": "DeactivatedDueToAdmissionCheck",
        "message": f"The workload is deactivated due to {REFUSED}",
    }
    guide = guide_of(workload("pretrain", {"active": False}, Evicted=evicted))
    (stopped,) = guide.deactivated
    assert (stopped.name, guide.waiting) == ("pretrain", ())
    assert stopped.why.startswith(f"it was deactivated: {REFUSED}. Delete its object and create it again")
    assert "kubectl -n vision patch workload job-pretrain-1a2b --type merge" in stopped.why


def test_a_workload_deactivated_by_hand_is_listed_unless_it_has_ended() -> None:
    evicted = {"reason": "Deactivated", "message": "The workload is deactivated"}
    ended = workload("ended", {"active": False}, Evicted=evicted, Finished={})
    (stopped,) = guide_of(workload("tune", {"active": False}, Evicted=evicted), ended).deactivated
    assert (stopped.name, stopped.why.split(".")[0]) == ("tune", "it was deactivated")


def one_gpu(selector: dict[str, str], priority: int = 0) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    template = {"spec": {"containers": [container], "nodeSelector": selector}}
    return {"priority": priority, "podSets": [{"name": "main", "count": 1, "template": template}]}


def test_equal_workloads_wait_for_the_reason_of_the_one_that_kueue_tried() -> None:
    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "serve-1"}, "spec": {}}
    message = "insufficient unused quota for nvidia.com/gpu in flavor serve-1, 1 more needed"
    tried = {"status": "False", "message": message}
    found = guide_of(
        flavor,
        workload("first", one_gpu({"zone": "a"}), QuotaReserved=tried),
        workload("equal", one_gpu({"zone": "a"})),
        workload("elsewhere", one_gpu({"zone": "b"})),
        workload("lower", one_gpu({"zone": "a"}, priority=-1)),
    )
    needs = "needs 1 more nvidia.com/gpu of pool serve-1, which is in use"
    new = "Kueue has not processed the workload yet"
    assert {one.name: one.why for one in found.waiting} == {
        "first": needs,
        "equal": needs,
        "elsewhere": new,
        "lower": new,
    }


def test_a_guide_with_deactivated_workloads_does_not_say_that_nothing_waits() -> None:
    plan = plan_platform(environment(pool(), queueing={}, teams=[team()]), "test")
    assert isinstance(plan, EnvironmentPlan)
    assert plan.queues is not None
    parts = plan.guides[0], plan.teams[0], plan.queues.teams[0]
    text = guide_to_markdown(*parts, guide_of(workload("tune", {"active": False})), full=True)
    assert "it was deactivated" in text
    assert "Nothing waits now." not in text
    assert "Nothing waits now." in guide_to_markdown(*parts, guide_of(), full=True)


def gated_pod(number: int) -> dict[str, Any]:
    """Return a pod of a Deployment that requests one GPU and waits for the queue."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"many-5c7b-{number}",
            "namespace": "vision",
            "labels": {"pod-template-hash": "5c7b"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "many-5c7b"}],
        },
        "spec": {
            "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }


def full_quota(hard: str) -> list[dict[str, Any]]:
    """Return a team's quota with 16 GPUs in use, and its queue whose started workloads use 16 GPUs."""
    key = "requests.nvidia.com/gpu"
    usage = [{"name": "train-1", "resources": [{"name": "nvidia.com/gpu", "total": "16"}]}]
    return [
        {"kind": "ClusterQueue", "metadata": {"name": "vision"}, "status": {"flavorsUsage": usage}},
        {
            "kind": "ResourceQuota",
            "metadata": {"name": "gpu-quota"},
            "spec": {"hard": {key: hard}},
            "status": {"used": {key: "16"}},
        },
        workload("pretrain", Admitted={}, QuotaReserved={}, PodsReady={"status": "False"}),
    ]


def test_waiting_pods_that_use_up_the_quota_are_named_with_the_refused_job() -> None:
    guide = guide_of(*full_quota("16"), *(gated_pod(number) for number in range(8)))
    (incomplete,) = guide.incomplete
    assert incomplete.name == "pretrain"
    assert "uses 16 nvidia.com/gpu and its waiting pods hold 8, but only 16 are allowed" in incomplete.why
    assert "Delete waiting pods" in incomplete.why
    assert guide.refused.startswith("Pods that wait for the queue (Deployment many) hold 8 of 16 nvidia.com/gpu")


def test_a_quota_with_room_for_waiting_pods_refuses_nothing() -> None:
    guide = guide_of(*full_quota("24"), *(gated_pod(number) for number in range(8)))
    assert (guide.incomplete, guide.refused) == ((), "")
    assert guide_of(*full_quota("16")).refused == ""


def ending_pod(until: str) -> dict[str, Any]:
    """Return a deleted pod with eight GPUs. Its grace period ends at `until`."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": "old-x2",
            "namespace": "vision",
            "deletionTimestamp": until,
            "deletionGracePeriodSeconds": 3600,
        },
        "spec": {
            "nodeName": "train-0",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        },
        "status": {"phase": "Running"},
    }


def test_deleted_pods_that_still_run_are_named_with_the_refused_job() -> None:
    (incomplete,) = guide_of(*full_quota("16"), ending_pod("2100-01-01T00:00:00Z")).incomplete
    assert (
        "uses 16 nvidia.com/gpu and deleted pods that are still running hold 8, but only 16 are allowed"
        in incomplete.why
    )
    assert "`kubectl delete pod old-x2 --now` ends them within seconds" in incomplete.why


def test_ending_pods_do_not_hide_the_advice_about_waiting_pods() -> None:
    gated = [gated_pod(number) for number in range(8)]
    (incomplete,) = guide_of(*full_quota("16"), *gated, ending_pod("2100-01-01T00:00:00Z")).incomplete
    assert "Delete waiting pods" in incomplete.why


def test_the_quota_does_not_count_deleted_pods_after_their_grace_period() -> None:
    assert guide_of(*full_quota("16"), ending_pod("2026-01-01T00:00:00Z")).incomplete == ()

"""Queues that are being deleted are released, so that the engine can create them again. Kueue stays installed
while workloads run or wait.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_platform.deploy.embedded.queues import kueue_itself, release_deleted, why_kueue_stays
from gpu_platform.live.client import KubernetesClient
from tests.live.test_connection import ANSWERED, answering, kubeconfig

API = "/apis/kueue.x-k8s.io/v1beta2"
IN_USE = "kueue.x-k8s.io/resource-in-use"


def queue(name: str, **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": "7", "finalizers": [IN_USE], **metadata}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": metadata}


def test_only_queues_that_are_being_deleted_are_released_and_named(tmp_path: Path) -> None:
    deleted = "2026-11-28T07:00:00Z"
    live = {
        "used": queue("used"),
        "returning": queue("returning", deletionTimestamp=deleted),
        "released": queue("released", deletionTimestamp=deleted, finalizers=["example.com/other"]),
    }
    patched: list[str] = []

    def answer(method: str, path: str) -> tuple[int, dict[str, Any]]:
        if path == API:
            kinds = {"ClusterQueue": "clusterqueues", "ResourceFlavor": "resourceflavors"}
            return 200, {
                "resources": [
                    {"kind": kind, "name": resource, "namespaced": False} for kind, resource in kinds.items()
                ]
            }
        name = path.partition("?")[0].rpartition("/")[2]
        if method == "PATCH":
            patched.append(name)
        return (200, live[name]) if name in live else (404, {"reason": "NotFound", "message": "not found"})

    with answering(answer) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=ANSWERED)
        declared = [("ClusterQueue", name) for name in (*live, "absent")] + [("ResourceFlavor", "returning")]
        released = [("ClusterQueue", "returning"), ("ResourceFlavor", "returning")]
        assert list(release_deleted(client, declared)) == released
    assert patched == ["returning", "returning"]


def workload(name: str, *conditions: str, **metadata: Any) -> dict[str, Any]:
    owner = {"kind": "Job", "name": name}
    return {
        "metadata": {"name": f"job-{name}", "namespace": "vision", "ownerReferences": [owner], **metadata},
        "status": {"conditions": [{"type": one, "status": "True"} for one in conditions]},
    }


def why(folder: Path, *workloads: dict[str, Any]) -> str:
    def answer(_method: str, path: str) -> tuple[int, dict[str, Any]]:
        if path == API:
            return 200, {"resources": [{"kind": "Workload", "name": "workloads", "namespaced": True}]}
        return 200, {"kind": "WorkloadList", "items": list(workloads), "metadata": {}}

    with answering(answer) as port:
        return why_kueue_stays(KubernetesClient(kubeconfig(folder, port), limits=ANSWERED))


def test_kueue_stays_for_workloads_that_run_or_wait_and_names_them(tmp_path: Path) -> None:
    running, waiting = workload("running", "QuotaReserved", "Admitted"), workload("waiting")
    text = why(tmp_path, running, waiting)
    assert "- is still running: Job running in namespace vision; wait until it ends" in text
    assert "- waits for a deleted queue: Job waiting in namespace vision; delete the workload" in text


def test_kueue_is_removed_once_all_workloads_have_ended_or_are_being_deleted(tmp_path: Path) -> None:
    assert not why(tmp_path)
    ended = workload("ended", "QuotaReserved", "Finished")
    assert not why(tmp_path, ended, workload("deleted", "QuotaReserved", deletionTimestamp="2026-11-29T07:00:00Z"))


def test_kueue_counts_as_its_namespace_without_queues() -> None:
    def live(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}

    own = [live("Namespace", "kueue-system"), live("ConfigMap", "kueue-manager-config", "kueue-system")]
    others = [queue("vision"), live("Namespace", "vision"), live("ConfigMap", "notes", "vision")]
    assert kueue_itself([*own, *others]) == own
    assert kueue_itself(others) == []

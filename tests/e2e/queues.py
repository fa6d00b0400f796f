"""A stack with queues, and members of its teams with their Jobs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from gpu_platform.live.client import Refused
from sandbox.control_plane import Status
from tests.e2e.conftest import VALIDATION_TIMEOUT, Platform
from tests.e2e.impersonation import admitted, member
from tests.support.eventually import eventually
from tests.support.restricted import satisfying

QUEUE = "kueue.x-k8s.io/queue-name"
RUN_SECONDS = "sandbox.gpu-platform.dev/run-seconds"
KUEUE = "kueue.x-k8s.io/v1beta2"

# The stack has two nodes with eight GPUs each.
# Each team's quota equals one node, and the team may borrow the quota of the other team.
STACK: dict[str, Any] = {
    "kind": "environment",
    "pools": [{"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 2}, "workload": "training"}],
    "queueing": {},
    "teams": [
        {
            "name": "vision",
            "quota": {"gpus": 8},
            "priority": "training",
            "members": ["group:vision", "serviceaccount:ci/deployer"],
        },
        {"name": "search", "quota": {"gpus": 8}, "priority": "inference", "members": ["group:search"]},
    ],
    "validation": {"timeout": VALIDATION_TIMEOUT},
}


class Team:
    """A team member, and the Jobs that the member created."""

    def __init__(self, kubeconfig: Path, name: str) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self.client = member(kubeconfig, name)
        self._jobs: list[str] = []

    def job(self, name: str, gpus: int, pods: int = 1, **labels: str) -> dict[str, Any]:
        """Create a Job that runs until `end` is called. `labels` are the queue and the priority class."""
        return self.create(job(self.name, name, gpus, pods, **labels))

    def create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Create a Job exactly as written."""
        live = self.client.create(wanted)
        self._jobs.append(wanted["metadata"]["name"])
        return live

    def refusal(self, name: str) -> str:
        """Return why a Job without a queue would be refused, or an empty string."""
        try:
            self.client.create(job(self.name, name, 1), dry_run=True)
        except Refused as refusal:
            return refusal.message
        return ""

    def live(self, name: str) -> dict[str, Any]:
        found = self.client.get("batch/v1", "Job", name, self.name)
        assert found is not None
        return found

    def pods(self, job: str) -> list[dict[str, Any]]:
        selector = f"batch.kubernetes.io/job-name={job}"
        return list(self.client.objects("v1", "Pod", namespace=self.name, label_selector=selector))

    def running(self, job: str) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self.pods(job))

    def workload(self, job: str) -> dict[str, Any] | None:
        """Return the Workload that Kueue keeps for a Job."""
        for one in self.client.objects(KUEUE, "Workload", namespace=self.name):
            if any(owner["name"] == job for owner in one["metadata"].get("ownerReferences", ())):
                return one
        return None

    def waits(self, job: str) -> str:
        """Return why a Job waits, once Kueue has tried to start it."""

        def why() -> str:
            workload = self.workload(job) or {}
            for condition in workload.get("status", {}).get("conditions", ()):
                if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                    return str(condition["message"])
            return ""

        return eventually(why)

    def end(self, job: str) -> None:
        """Make the containers of a Job exit until the Job has ended. This includes containers of pods that replace
        lost pods.
        """

        def state() -> str:
            for pod in self.pods(job):
                self._end_containers(pod)
            return self._state(job)

        eventually(state, "Complete")

    def _state(self, job: str) -> str:
        """Return `Complete` for a Job that has ended, or else a description of what it is waiting for."""
        live = self.live(job)
        if "completionTime" in live["status"]:
            return "Complete"
        pods = [
            {key: pod["metadata"].get(key) for key in ("name", "annotations", "deletionTimestamp", "finalizers")}
            | {"status": pod["status"], "node": pod["spec"].get("nodeName")}
            for pod in self.pods(job)
        ]
        workload = (self.workload(job) or {}).get("status")
        return json.dumps(
            {"suspend": live["spec"]["suspend"], "status": live["status"], "pods": pods, "workload": workload}
        )

    def _end_containers(self, pod: dict[str, Any]) -> None:
        metadata = {
            "name": pod["metadata"]["name"],
            "namespace": self.name,
            "annotations": {RUN_SECONDS: "0"},
        }
        try:
            self.client.merge_if_unchanged({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
        except Refused as refusal:
            if refusal.status != 404:  # the pod was deleted after the list was read
                raise

    def remove(self) -> None:
        """Delete the Jobs and wait until they are gone, because the next test may use the same names."""
        for name in self._jobs:
            live = self.client.get("batch/v1", "Job", name, self.name)
            if live is not None:
                self.client.delete(live)
        eventually(self._is_empty)
        self._jobs.clear()

    def _is_empty(self) -> bool:
        if any(self.client.get("batch/v1", "Job", name, self.name) for name in self._jobs):
            return False
        return not list(self.client.objects(KUEUE, "Workload", namespace=self.name))


def job(
    namespace: str, name: str, gpus: int, pods: int = 1, queue: str = "", priority: str = "", **spec: Any
) -> dict[str, Any]:
    amount = {"cpu": "900m", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "infinity"],
        "resources": {"requests": amount, "limits": amount},
    }
    labels = {QUEUE: queue, "kueue.x-k8s.io/priority-class": priority}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {key: value for key, value in labels.items() if value},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": satisfying({"restartPolicy": "Never", "containers": [container], **spec})},
        },
    }


def stack(status: Status, **rest: Any) -> dict[str, Any]:
    return {**copy.deepcopy(STACK), "cluster": {"provider": "sandbox", "name": status.name}, **rest}


def bring(platform: Platform, wanted: dict[str, Any]) -> None:
    """Deploy a stack, and wait until its policies assign the team's priority class to Jobs that set none.

    The API server reads new policies within a second or two. A Job that is created earlier has priority 0, so the
    team's next Job with the class preempts it.
    """
    if platform.state.get("shop") == wanted:
        return
    ran = platform.up(wanted)
    assert ran.code == 0, ran.err
    queueing = wanted.get("queueing")
    if queueing is None or queueing.get("without_queue") == "refuse":
        return
    for team in wanted["teams"]:
        client = member(platform.kubeconfig, team["name"])
        probe = job(team["name"], "probe", 1)
        eventually(lambda client=client, probe=probe: _priority_class(admitted(client, probe)))


def _priority_class(live: dict[str, Any]) -> str | None:
    return live.get("metadata", {}).get("labels", {}).get("kueue.x-k8s.io/priority-class")

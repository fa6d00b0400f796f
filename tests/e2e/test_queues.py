"""Queues on the real control plane with Kueue's own controller, as members of the teams."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.engine.client import KubernetesClient, Refused
from gpu_platform.engine.team_stacks import deployed_quotas
from gpu_platform.errors import Finding
from sandbox import control_plane
from sandbox.control_plane import Status
from tests.e2e.conftest import VALIDATION_TIMEOUT, Platform
from tests.e2e.impersonation import member
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queues")]

QUEUE = "kueue.x-k8s.io/queue-name"
RUN_SECONDS = "sandbox.gpu-platform.dev/run-seconds"
KUEUE = "kueue.x-k8s.io/v1beta2"

# Two nodes of eight GPUs; each team has the quota of one and may borrow the other.
STACK: dict[str, Any] = {
    "kind": "environment",
    "pools": [{"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 2}, "workload": "training"}],
    "queueing": {},
    "teams": [
        {"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["group:vision"]},
        {"name": "search", "quota": {"gpus": 8}, "priority": "inference", "members": ["group:search"]},
    ],
    "validation": {"timeout": VALIDATION_TIMEOUT},
}


class Team:
    """A member of a team, and the Jobs that it made."""

    def __init__(self, kubeconfig: Path, name: str) -> None:
        self.name = name
        self.client = member(kubeconfig, name)
        self._jobs: list[str] = []

    def job(self, name: str, gpus: int, pods: int = 1, **labels: str) -> dict[str, Any]:
        """Create a Job that runs until it is told to end; `labels`: queue, priority."""
        live = self.client.create(job(self.name, name, gpus, pods, **labels))
        self._jobs.append(name)
        return live

    def refusal(self, name: str) -> str:
        """Return why a Job without a queue would be refused, or an empty text."""
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
        """Return the Workload that Kueue keeps of a Job."""
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
        """Let the containers of a Job end."""
        for pod in self.pods(job):
            metadata = {
                "name": pod["metadata"]["name"],
                "namespace": self.name,
                "annotations": {RUN_SECONDS: "0"},
            }
            self.client.merge({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    def remove(self) -> None:
        for name in self._jobs:
            live = self.client.get("batch/v1", "Job", name, self.name)
            if live is not None:
                self.client.delete(live)
        eventually(lambda: not list(self.client.objects(KUEUE, "Workload", namespace=self.name)))
        self._jobs.clear()


def job(
    namespace: str, name: str, gpus: int, pods: int = 1, queue: str = "", priority: str = "", **spec: Any
) -> dict[str, Any]:
    amount = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
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
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], **spec}},
        },
    }


@pytest.fixture(scope="module")
def kueue_sandbox(start_sandbox: Callable[[str], Status]) -> Status:
    return start_sandbox("queues")


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


def stack(status: control_plane.Status, **rest: Any) -> dict[str, Any]:
    return {**copy.deepcopy(STACK), "cluster": {"provider": "sandbox", "name": status.name}, **rest}


def bring(platform: Platform, wanted: dict[str, Any]) -> None:
    if platform.state.get("shop") != wanted:
        ran = platform.up(wanted)
        assert ran.code == 0, ran.err


@pytest.fixture
def queues(platform: Platform, kueue_sandbox: Status) -> Platform:
    bring(platform, stack(kueue_sandbox))
    return platform


@pytest.fixture
def vision(queues: Platform) -> Iterator[Team]:
    team = Team(queues.kubeconfig, "vision")
    yield team
    team.remove()


@pytest.fixture
def search(queues: Platform) -> Iterator[Team]:
    team = Team(queues.kubeconfig, "search")
    yield team
    team.remove()


def test_a_job_beyond_the_quota_waits_and_starts_when_another_ends(vision: Team) -> None:
    vision.job("large", gpus=8, pods=2)
    eventually(lambda: vision.running("large") == 2)
    vision.job("next", gpus=1)
    assert "insufficient unused quota" in vision.waits("next")
    assert vision.live("next")["spec"]["suspend"] is True
    assert vision.pods("next") == []
    vision.end("large")
    eventually(lambda: vision.running("next") == 1)


def test_a_job_without_a_queue_gets_the_teams_and_runs_on_its_pool(vision: Team) -> None:
    live = vision.job("plain", gpus=1)
    assert live["metadata"]["labels"][QUEUE] == "default"
    eventually(lambda: vision.running("plain") == 1)
    (pod,) = vision.pods("plain")
    assert pod["spec"]["nodeSelector"]["gpu-platform.dev/pool"] == "train"


def test_a_gang_of_four_starts_whole_or_not_at_all(vision: Team, search: Team) -> None:
    search.job("small", gpus=4)
    eventually(lambda: search.running("small") == 1)
    vision.job("gang", gpus=4, pods=4)
    assert vision.waits("gang")
    assert vision.pods("gang") == []
    search.end("small")
    eventually(lambda: vision.running("gang") == 4)


def test_a_gang_does_not_start_on_gpus_that_are_free_on_different_nodes(vision: Team, search: Team) -> None:
    search.job("one", gpus=5)
    search.job("two", gpus=5)
    eventually(lambda: search.running("one") + search.running("two") == 2)
    vision.job("four", gpus=4)
    why = vision.waits("four")
    assert "topology" in why, why
    assert vision.pods("four") == []


def test_a_higher_class_stops_a_lower_one_of_the_same_team(search: Team) -> None:
    search.job("low", gpus=8, pods=2, priority="training")
    eventually(lambda: search.running("low") == 2)
    search.job("high", gpus=8, pods=2, priority="inference")
    eventually(lambda: search.running("high") == 2)
    assert search.live("low")["spec"]["suspend"] is True
    eventually(lambda: search.running("low") == 0)


def test_a_team_gets_its_quota_back_from_one_that_borrows_it(vision: Team, search: Team) -> None:
    vision.job("own", gpus=8)
    vision.job("borrowed", gpus=8)
    eventually(lambda: vision.running("own") + vision.running("borrowed") == 2)
    search.job("claims", gpus=8)
    eventually(lambda: search.running("claims") == 1)
    eventually(lambda: vision.running("own") + vision.running("borrowed") == 1)
    search.end("claims")
    eventually(lambda: vision.running("own") + vision.running("borrowed") == 2)


def test_pods_without_a_job_wait_in_the_queue_too(queues: Platform, vision: Team, search: Team) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    queues.pod("alone", "nvidia.com/gpu", 9, namespace="vision", tolerate=False)
    pod = queues.find_pod("alone", "vision")
    gates = [gate["name"] for gate in pod["spec"]["schedulingGates"]]
    assert "kueue.x-k8s.io/admission" in gates
    queues.remove_pods()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"queue": "other"}, "the queue of this namespace is default"),
        ({"priority": "inference"}, "no class above the team's own"),
        ({"priorityClassName": "inference"}, "no class above the team's own"),
        ({"priorityClassName": "system-cluster-critical"}, "no class above the team's own"),
    ],
)
def test_a_member_enters_no_other_queue_and_no_higher_class(vision: Team, changes: Any, words: str) -> None:
    with pytest.raises(Refused, match=words):
        vision.client.create(job("vision", "trick", 1, **changes))


def test_a_member_cannot_pretend_that_a_queued_job_owns_a_pod(vision: Team) -> None:
    owner = vision.job("owner", gpus=1)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "stray",
            "namespace": "vision",
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "owner",
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    with pytest.raises(Refused, match="controllers set ownerReferences"):
        vision.client.create(pod)


def test_a_member_cannot_remove_the_gate_of_a_waiting_pod(queues: Platform, vision: Team, search: Team) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    queues.pod("alone", "nvidia.com/gpu", 8, namespace="vision", tolerate=False)
    ungated = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone", "namespace": "vision"},
        "spec": {"schedulingGates": None},
    }
    with pytest.raises(Refused, match="Kueue removes the scheduling gates"):
        vision.client.merge(ungated)
    queues.remove_pods()


def test_a_job_that_a_member_starts_by_hand_is_stopped_again(vision: Team, search: Team) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    vision.job("hasty", gpus=9)
    assert vision.waits("hasty")
    metadata = {"name": "hasty", "namespace": "vision"}
    vision.client.merge(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"suspend": False}}
    )
    eventually(lambda: vision.live("hasty")["spec"]["suspend"] is True)
    eventually(lambda: vision.pods("hasty") == [])


@pytest.fixture
def job_sets(queues: Platform) -> Iterator[None]:
    """The kind JobSet, with any content; nobody but Kueue reads it here."""
    version = {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "subresources": {"status": {}},
    }
    names = {"kind": "JobSet", "plural": "jobsets", "singular": "jobset", "listKind": "JobSetList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": {"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    live = queues.client.create(definition)
    yield
    queues.client.delete(live)


def test_the_class_of_every_pod_of_a_job_set_is_checked(queues: Platform, job_sets: None) -> None:
    def refusal(*priorities: str) -> str:
        parts = [
            {
                "name": f"part-{number}",
                "template": {"spec": job("vision", "part", 1, priorityClassName=priority)["spec"]},
            }
            for number, priority in enumerate(priorities)
        ]
        metadata = {"name": "whole", "namespace": "vision"}
        wanted = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": {"replicatedJobs": parts},
        }
        try:
            KubernetesClient(queues.kubeconfig).create(wanted, dry_run=True)
        except (Refused, Finding) as refused:  # Finding: the kind is not served yet
            return str(refused)
        return ""

    # The kind is served, and Kueue and the policy know it, a moment after it is created.
    eventually(lambda: "no class above" in refusal("training", "inference"))
    eventually(lambda: refusal("training", "training"), expected="")


def test_members_see_their_queue_and_change_nothing_of_it(vision: Team) -> None:
    queue = vision.client.get(KUEUE, "LocalQueue", "default", "vision")
    assert queue is not None
    metadata = {"name": "default", "namespace": "vision"}
    with pytest.raises(Refused, match="forbidden"):
        vision.client.merge({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {}})
    vision.job("mine", gpus=1)
    workload = eventually(lambda: vision.workload("mine"))
    assert workload is not None
    with pytest.raises(Refused, match="forbidden"):
        vision.client.merge(
            {
                "apiVersion": KUEUE,
                "kind": "Workload",
                "metadata": {"name": workload["metadata"]["name"], "namespace": "vision"},
                "spec": {"priority": 10000},
            }
        )
    with pytest.raises(Refused, match="forbidden"):
        list(vision.client.objects(KUEUE, "Workload", namespace="search"))


def test_jobs_outside_the_namespaces_of_teams_do_not_wait(queues: Platform) -> None:
    outside = job("default", "outside", 1)
    outside["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    live = queues.client.create(outside)
    assert live["spec"].get("suspend") is False
    assert QUEUE not in live["metadata"].get("labels", {})
    queues.client.delete(live)


def test_a_resource_quota_allows_what_is_borrowed_and_stacks_add_up_what_is_granted(queues: Platform) -> None:
    resource = "requests.nvidia.com/gpu"
    quota = queues.client.get("v1", "ResourceQuota", "gpu-quota", "vision")
    assert quota is not None
    assert quota["spec"]["hard"][resource] == "16"
    assert deployed_quotas(queues.client)["vision"].hard[resource] == "8"


def test_a_team_with_a_stack_of_its_own_gets_its_queue_from_it(platform: Platform, kueue_sandbox: Status) -> None:
    environment = stack(kueue_sandbox)
    environment["teams"] = environment["teams"][:1]
    bring(platform, environment)
    platform.write(environment)
    own = {"name": "speech", "quota": {"gpus": 4}, "priority": "training", "members": ["group:speech"]}
    ran = platform.up({"kind": "team", "environment": {"stack": "shop"}, "team": own}, "speech")
    assert ran.code == 0, ran.err
    speech = Team(platform.kubeconfig, "speech")
    speech.job("own", gpus=4)
    eventually(lambda: speech.running("own") == 1)
    speech.remove()
    file = platform.folder / "Pulumi.speech.yaml"
    assert platform.run("destroy", str(file), "--engine", platform.engine, "--yes").code == 0
    platform.state.clear()
    assert platform.client.get(KUEUE, "ClusterQueue", "speech") is None
    assert platform.client.get(KUEUE, "ClusterQueue", "vision") is not None


def test_what_runs_of_a_team_that_leaves_runs_on_and_its_queue_goes_with_the_last_workload(
    platform: Platform, kueue_sandbox: Status
) -> None:
    bring(platform, stack(kueue_sandbox))
    search = Team(platform.kubeconfig, "search")
    search.job("last", gpus=1)
    eventually(lambda: search.running("last") == 1)
    without = stack(kueue_sandbox)
    without["teams"] = without["teams"][:1]
    bring(platform, without)
    queue = platform.client.get(KUEUE, "ClusterQueue", "search")
    assert queue is not None
    assert queue["metadata"]["deletionTimestamp"]
    pods = list(platform.client.objects("v1", "Pod", namespace="search"))
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    live = platform.client.get("batch/v1", "Job", "last", "search")
    assert live is not None
    platform.client.delete(live)
    eventually(lambda: platform.client.get(KUEUE, "ClusterQueue", "search") is None)


def test_where_a_queue_must_be_named_a_job_without_one_is_refused(
    platform: Platform, kueue_sandbox: Status
) -> None:
    bring(platform, stack(kueue_sandbox, queueing={"without_queue": "refuse"}))
    vision = Team(platform.kubeconfig, "vision")
    # The API server reads a changed policy a moment after it is written.
    eventually(lambda: "name the queue: write the label" in vision.refusal("unnamed"))
    vision.job("named", gpus=1, queue="vision")
    eventually(lambda: vision.running("named") == 1)
    vision.remove()


def test_without_queueing_kueue_stops_and_its_webhooks_are_gone(platform: Platform, kueue_sandbox: Status) -> None:
    bring(platform, stack(kueue_sandbox, queueing=None))
    client: KubernetesClient = platform.client

    def webhooks() -> list[str]:
        api, kind = "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"
        return [one["metadata"]["name"] for one in client.objects(api, kind)]

    eventually(lambda: not [name for name in webhooks() if name.startswith("kueue-")])
    vision = Team(platform.kubeconfig, "vision")
    live = vision.client.create(job("vision", "free", 1, tolerations=[{"operator": "Exists"}]))
    assert live["spec"].get("suspend") is False
    eventually(lambda: vision.running("free") == 1)
    vision.client.delete(live)

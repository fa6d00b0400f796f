"""How changes to the stack affect queues, on the real control plane with Kueue's controller.

This file runs last in its group, because the other files share one deployed stack.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpu_platform.guide.live_guide import read_live_guide
from gpu_platform.live.client import KubernetesClient, Refused
from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.e2e.queues import KUEUE, Team, bring, job, stack
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queues")]


CPU_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "cpu-0",
        "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": "cpu-0"},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    },
    "status": {
        "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
        "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
    },
}


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


def test_a_leaving_teams_queue_is_deleted_after_its_last_workload(
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
    # The team returns while its last workload is running, as it does when a rename is undone.
    bring(platform, stack(kueue_sandbox))
    queue = platform.client.get(KUEUE, "ClusterQueue", "search")
    assert queue is not None
    assert "deletionTimestamp" not in queue["metadata"]
    after = list(platform.client.objects("v1", "Pod", namespace="search"))
    assert [pod["metadata"]["uid"] for pod in after] == [pod["metadata"]["uid"] for pod in pods]
    search.job("many", gpus=8, pods=2)  # all GPUs except one are free, and the queue counts the GPU in use
    assert "insufficient unused quota" in search.waits("many")
    search.client.delete(search.live("many"))
    bring(platform, without)
    live = platform.client.get("batch/v1", "Job", "last", "search")
    assert live is not None
    platform.client.delete(live)
    eventually(lambda: platform.client.get(KUEUE, "ClusterQueue", "search") is None)


def test_a_team_with_a_separate_stack_gets_its_queue_from_it(platform: Platform, kueue_sandbox: Status) -> None:
    environment = stack(kueue_sandbox, queueing={"reserve": {"gpus": 4}})
    environment["teams"] = environment["teams"][:1]  # the previous test leaves only the first team
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


@pytest.mark.parametrize(("seconds", "state"), [("3600", "active"), ("0", "completionTime")])
def test_a_declared_job_gets_the_queue_of_a_changed_stack(
    platform: Platform, kueue_sandbox: Status, seconds: str, state: str
) -> None:
    first = stack(kueue_sandbox)
    image = f"registry.example.com/once@sha256:{'0' * 64}"
    entry = {"name": "once", "pool": "train", "gpus": 1, "image": image, "run_as_user": 1000}
    first["teams"][0]["batch_jobs"] = [{**entry, "command": ["sleep", seconds]}]
    bring(platform, first)
    vision = Team(platform.kubeconfig, "vision")
    eventually(lambda: vision.live("once").get("status", {}).get(state))
    vision.job("of-a-member", gpus=1)  # the Job keeps the name of a deleted queue
    eventually(lambda: vision.running("of-a-member") == 1)
    changed = {**first, "queueing": {"without_queue": "refuse"}}
    preview = platform.run("preview", str(platform.write(changed)), "--fail-on", "restarts-pods")
    assert (preview.code, "Job vision/once" in preview.out) == (1, True), preview.out + preview.err
    ran = platform.up(changed)
    assert ran.code == 0, ran.err
    assert vision.live("once")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "vision"
    vision.client.delete(vision.live("of-a-member"))
    eventually(lambda: vision.client.get("batch/v1", "Job", "of-a-member", "vision") is None)


def test_required_queue_names_are_enforced_and_cpu_quotas_make_jobs_wait(
    platform: Platform, kueue_sandbox: Status
) -> None:
    wanted = stack(kueue_sandbox, queueing={"without_queue": "refuse"})
    wanted["teams"][0]["quota"]["cpu"] = 4
    bring(platform, wanted)
    vision = Team(platform.kubeconfig, "vision")
    # The API server reads a changed policy a moment after it is written.
    eventually(lambda: "name the queue: write the label" in vision.refusal("unnamed"))
    vision.job("named", gpus=1, queue="vision")
    eventually(lambda: vision.running("named") == 1)
    # A Job without GPUs that exceeds the CPU quota waits.
    # If Kueue did not count CPUs, the pods of such a Job would be created but could not be scheduled.
    many = job("vision", "many", 1, queue="vision")
    many["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "5"},
        "limits": {"cpu": "5"},
    }
    vision.create(many)
    assert "untolerated taint" in vision.waits("many")
    # A Job within the quota runs on a node without GPUs, and the next Job waits for it.
    node = platform.client.create(CPU_NODE)
    try:
        for name in ("first", "next"):
            few = copy.deepcopy(many) | {"metadata": {**many["metadata"], "name": name}}
            few["spec"]["template"]["spec"]["containers"][0]["resources"] = {
                "requests": {"cpu": "3"},
                "limits": {"cpu": "3"},
            }
            vision.create(few)
            if name == "first":
                eventually(lambda: vision.running("first") == 1)
        assert "insufficient unused quota for cpu in flavor nodes-without-gpus" in vision.waits("next")
        vision.end("first")
        eventually(lambda: vision.running("next") == 1)
        vision.end("next")
    finally:
        platform.client.delete(node)
    guide = platform.run("guide", str(platform.write(wanted)), "vision", "--live").out
    assert "| 1 | many | can never start: it requests 5 cpu; the team may use at most 4 on one pool |" in guide
    assert "| nvidia.com/gpu | 8 | 1 |" in guide
    vision.remove()


def test_without_queueing_kueue_is_removed_after_its_workloads_end(
    platform: Platform, kueue_sandbox: Status
) -> None:
    bring(platform, stack(kueue_sandbox))
    vision, without = Team(platform.kubeconfig, "vision"), stack(kueue_sandbox, queueing=None)
    vision.job("long", gpus=8)
    eventually(lambda: vision.running("long") == 1)
    (before,) = vision.pods("long")
    ran = platform.up(without, "shop")
    assert ran.code == 1
    assert "is still running: Job long in namespace vision; wait until it ends, or delete it" in ran.err
    (pod,) = vision.pods("long")
    assert (pod["metadata"]["uid"], pod["status"]["phase"]) == (before["metadata"]["uid"], "Running")
    vision.end("long")
    bring(platform, without)
    for kind in ("ClusterQueue", "ResourceFlavor", "Topology"):
        eventually(lambda kind=kind: not list(platform.client.objects(KUEUE, kind)))  # type: ignore[misc]
    vision.remove()


def test_without_queueing_kueue_stops_and_its_webhooks_are_gone(platform: Platform, kueue_sandbox: Status) -> None:
    bring(platform, stack(kueue_sandbox, queueing=None))
    client: KubernetesClient = platform.client

    def webhooks() -> list[str]:
        api, kind = "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"
        return [one["metadata"]["name"] for one in client.objects(api, kind)]

    eventually(lambda: not [name for name in webhooks() if name.startswith("kueue-")])
    vision = Team(platform.kubeconfig, "vision")
    free = job("vision", "free", 1, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])

    def suspended() -> object:
        try:
            return vision.client.create(free, dry_run=True)["spec"].get("suspend")
        except Refused as refused:
            return refused.message

    # The API server still calls deleted webhooks for a moment.
    eventually(suspended, expected=False)
    vision.client.create(free)
    eventually(lambda: vision.running("free") == 1)
    vision.client.delete(vision.live("free"))
    eventually(lambda: client.get("batch/v1", "Job", "free", "vision") is None)


def test_a_held_queue_stays_held_when_its_quota_changes(platform: Platform, kueue_sandbox: Status) -> None:
    bring(platform, stack(kueue_sandbox))
    hold = {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "search"}}
    platform.client.merge({**hold, "spec": {"stopPolicy": "Hold"}})
    changed = stack(kueue_sandbox)
    changed["teams"][1]["quota"] = {"gpus": 4}
    ran = platform.up(changed, "shop", "--timeout", "60s")
    assert ran.code == 0, ran.err
    assert "ClusterQueue search is held (spec.stopPolicy: Hold" in ran.err
    queue = platform.client.get(KUEUE, "ClusterQueue", "search")
    assert queue is not None
    assert queue["spec"]["stopPolicy"] == "Hold"
    assert read_live_guide(platform.client, "search").held == "Hold"
    platform.client.merge({**hold, "spec": {"stopPolicy": "None"}})


def test_the_guide_explains_pods_refused_by_a_lower_borrowing_limit(
    platform: Platform, kueue_sandbox: Status
) -> None:
    bring(platform, stack(kueue_sandbox))
    vision = Team(platform.kubeconfig, "vision")
    vision.job("gang", gpus=8, pods=2)
    eventually(lambda: vision.running("gang") == 2)
    assert read_live_guide(platform.client, "vision").incomplete == ()
    lowered = stack(kueue_sandbox)
    lowered["teams"][0]["queue"] = {"borrow": {}}
    bring(platform, lowered)
    assert vision.running("gang") == 2
    platform.client.delete(vision.pods("gang")[0])
    (incomplete,) = eventually(lambda: read_live_guide(platform.client, "vision").incomplete)
    assert incomplete.name == "gang"
    assert "the team uses 16 nvidia.com/gpu, but only 8 are allowed now" in incomplete.why
    vision.remove()


def test_queues_lose_their_topology_and_get_it_again_while_a_job_runs(
    platform: Platform, kueue_sandbox: Status
) -> None:
    bring(platform, stack(kueue_sandbox))
    vision = Team(platform.kubeconfig, "vision")
    vision.job("before", gpus=8)
    eventually(lambda: vision.running("before") == 1)
    with_topology = _flavors(platform)
    # The flavor is not deleted until another stack is deployed, because the current stack's queue still uses it.
    kept = next(name for name in with_topology if name.startswith("train"))
    platform.client.create(_queue_on(kept))
    bring(platform, stack(kueue_sandbox, queueing={"topology": False}))
    eventually(lambda: with_topology & _flavors(platform), {kept})
    vision.job("between", gpus=8)
    eventually(lambda: vision.running("between") == 1)
    bring(platform, stack(kueue_sandbox))
    assert _flavors(platform) == with_topology
    (flavor,) = [
        one for one in platform.client.objects(KUEUE, "ResourceFlavor") if one["metadata"]["name"] == kept
    ]
    assert "deletionTimestamp" not in flavor["metadata"]
    assert (vision.running("before"), vision.running("between")) == (1, 1)
    vision.remove()
    other = platform.client.get(KUEUE, "ClusterQueue", "of-another-stack")
    assert other is not None
    platform.client.delete(other)


def _queue_on(flavor: str) -> dict[str, Any]:
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": "0"}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": resources}]}
    metadata = {"name": "of-another-stack"}
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": metadata, "spec": {"resourceGroups": [group]}}


def _flavors(platform: Platform) -> set[str]:
    return {one["metadata"]["name"] for one in platform.client.objects(KUEUE, "ResourceFlavor")}

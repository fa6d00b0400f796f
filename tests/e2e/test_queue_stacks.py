"""What a change of the stack does to queues, on the real control plane with Kueue's own controller."""

from __future__ import annotations

import pytest

from gpu_platform.engine.client import KubernetesClient
from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.e2e.queues import KUEUE, Team, bring, job, stack
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queues")]


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


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

"""A member follows only the output of `gpu-platform guide`, on the real API server with Kueue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
import yaml

from gpu_platform.live.client import KubernetesClient, Refused
from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.e2e.impersonation import member
from tests.e2e.queues import Team, bring, stack
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queues")]


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


class Ada:
    """A member of team vision, who follows the guide and creates its objects."""

    def __init__(self, platform: Platform, file: str) -> None:
        self._platform, self._file = platform, file
        self.client: KubernetesClient = member(platform.kubeconfig, "vision")
        self.others = Team(platform.kubeconfig, "vision")
        self._made: list[dict[str, Any]] = []

    def guide(self, *options: str) -> str:
        ran = self._platform.run("guide", self._file, "vision", *options)
        assert ran.code == 0, ran.err
        return ran.out

    def apply(self, kind: str) -> dict[str, Any]:
        """Create the objects in a manifest of the guide, and return its workload."""
        for manifest in yaml.safe_load_all(self.guide("--manifest", kind)):
            self._made.append(self.client.create(manifest))
        return self._made[-1]

    def waiting(self) -> list[tuple[str, ...]]:
        """Return the queue position and the name of each waiting workload, as `--live` prints them."""
        told = self.guide("--live").partition("| place | workload |")[2].splitlines()[2:]
        rows = takewhile(lambda line: line.startswith("|"), told)
        return [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in rows]

    def stop(self, job: str, *, active: bool) -> None:
        """Stop a job or resume it, as an administrator of the cluster may."""
        workload = self.others.workload(job)
        assert workload is not None
        named = {key: workload["metadata"][key] for key in ("name", "namespace")}
        head = {key: workload[key] for key in ("apiVersion", "kind")}
        self._platform.client.merge({**head, "metadata": named, "spec": {"active": active}})

    def status(self, workload: dict[str, Any]) -> dict[str, Any]:
        found = self.client.get(workload["apiVersion"], workload["kind"], workload["metadata"]["name"], "vision")
        assert found is not None
        return found.get("status", {})

    def clean(self) -> None:
        for made in reversed(self._made):
            self.client.delete(made)
        self.others.remove()
        eventually(lambda: not list(self.client.objects("v1", "Pod", namespace="vision")))


@pytest.fixture
def ada(platform: Platform, kueue_sandbox: Status) -> Iterator[Ada]:
    wanted = stack(kueue_sandbox)
    bring(platform, wanted)
    ada = Ada(platform, str(platform.write(wanted)))
    yield ada
    ada.clean()


@pytest.mark.parametrize(("kind", "parts"), [("training", 1), ("notebook", 1), ("batch", 4)])
def test_a_job_of_the_guide_runs_unchanged(ada: Ada, kind: str, parts: int) -> None:
    workload = ada.apply(kind)
    eventually(lambda: ada.status(workload).get("succeeded", 0) == parts or None)


def test_the_inference_service_of_the_guide_runs_unchanged(ada: Ada) -> None:
    workload = ada.apply("inference")
    eventually(lambda: ada.status(workload).get("availableReplicas") == 1)

    def ports() -> list[int]:  # EndpointSlices may appear after the replicas
        slices = ada.client.objects("discovery.k8s.io/v1", "EndpointSlice", namespace="vision")
        return [port["port"] for one in slices for port in one.get("ports") or ()]

    eventually(lambda: 8080 in ports())


def test_a_manifest_over_the_quota_waits_in_its_place_and_starts_when_another_ends(ada: Ada) -> None:
    # The job `first` uses the GPUs of both teams.
    # The guide's job cannot preempt the job `first`, because both jobs have the same priority class.
    ada.others.job("first", gpus=8, pods=2, priority="training")
    eventually(lambda: ada.others.running("first") == 2)
    workload = ada.apply("training")
    assert ada.others.waits("training")
    # Kueue publishes the positions in its queues a moment after it suspends the job.
    eventually(ada.waiting, [("1", "training")])
    ada.stop("training", active=False)
    eventually(ada.waiting, [])
    ada.stop("training", active=True)
    eventually(ada.waiting, [("1", "training")])
    # Pods stop counting against the quota a moment after they have terminated.
    eventually(lambda: "| nvidia.com/gpu | 8 | 16 (8 borrowed) |" in ada.guide("--live"))
    ada.others.end("first")
    eventually(lambda: ada.status(workload).get("succeeded") == 1)


def test_members_read_the_same_guide_in_their_namespace(ada: Ada) -> None:
    found = ada.client.get("v1", "ConfigMap", "gpu-platform-guide", "vision")
    assert found is not None
    assert found["data"]["guide.md"] == ada.guide()
    assert found["data"]["training.yaml"] == ada.guide("--manifest", "training")


def test_what_is_free_now_is_what_pods_leave_on_ready_nodes(ada: Ada, platform: Platform) -> None:
    def free() -> Any:
        return json.loads(ada.guide("--live", "--format", "json"))["live"]["free"]

    ada.others.job("five", gpus=5, priority="training")
    eventually(lambda: ada.others.running("five"), 1)
    eventually(free, {"train": {"nvidia.com/gpu": 11}})  # two nodes have 16 GPUs
    row = "| 11 nvidia.com/gpu |"
    assert any(line.startswith("| `train` |") and line.endswith(row) for line in ada.guide("--live").splitlines())
    assert "<td>11 nvidia.com/gpu</td>" in ada.guide("--live", "--format", "html")
    (pod,) = ada.others.pods("five")
    other = next(
        node["metadata"]["name"]
        for node in platform.client.objects("v1", "Node", label_selector="gpu-platform.dev/pool=train")
        if node["metadata"]["name"] != pod["spec"]["nodeName"]
    )
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": other}}
    platform.client.merge({**node, "spec": {"unschedulable": True}})
    try:
        eventually(free, {"train": {"nvidia.com/gpu": 3}})
    finally:
        platform.client.merge({**node, "spec": {"unschedulable": None}})
        eventually(free, {"train": {"nvidia.com/gpu": 11}})


def test_what_is_refused_is_what_the_api_server_refuses_with_these_messages(ada: Ada, platform: Platform) -> None:
    told = {f"{one['id']}: {one['message']}" for one in json.loads(ada.guide("--format", "json"))["refused"]}
    policies = [
        one
        for one in platform.client.objects("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
        if one["metadata"]["name"].endswith("-of-vision")
    ]
    enforced = {rule["message"] for one in policies for rule in one["spec"]["validations"]}
    assert told
    assert told <= enforced
    # Rules for pod templates have the same ids as the rules for pods, with different messages.
    assert {one.partition(":")[0] for one in enforced} == {one.partition(":")[0] for one in told}
    markdown, page = ada.guide(), ada.guide("--format", "html")
    for line in told:
        name, _, message = line.partition(": ")
        assert f"- `{name}`: {message}" in markdown
        assert f"<code>{name}</code>" in page
    (pod,) = [one for one in yaml.safe_load_all(ada.guide("--manifest", "notebook")) if one["kind"] == "Job"]
    template = pod["spec"]["template"]
    template["spec"]["containers"][0].setdefault("env", []).append(
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    )
    with pytest.raises(Refused) as refused:
        ada.client.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "greedy", "namespace": "vision", "labels": template["metadata"]["labels"]},
                "spec": template["spec"],
            }
        )
    (bypass,) = [one for one in told if one.startswith("gpu-visible-devices-bypass: ")]
    assert bypass in refused.value.message


def test_the_state_of_a_team_that_is_not_deployed_is_unknown_and_not_empty(ada: Ada, platform: Platform) -> None:
    wanted = platform.state["shop"]
    edited = {**wanted, "teams": [*wanted["teams"], {**wanted["teams"][0], "name": "later", "quota": {"gpus": 0}}]}
    ran = platform.run("guide", str(platform.write(edited, "later")), "later", "--live")
    assert (ran.code, ran.out) == (3, ""), ran.err
    assert "team later is not deployed on this cluster: run `gpu-platform up" in ran.err

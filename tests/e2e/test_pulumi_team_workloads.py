"""Workloads that a stack file declares for a team, deployed to the sandbox by the real Pulumi CLI.

The test runs if `pulumi` and its Kubernetes provider are on PATH.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.progress import Progress
from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.e2e.conftest import TOLERATION, Platform, platform_of_the_cli
from tests.e2e.impersonation import member
from tests.support.eventually import eventually
from tests.support.pulumi_cli import NEEDS_PULUMI
from tests.support.restricted import satisfying

SANDBOX = "e2e-pulumi-jobs"
IMAGE = "registry.example.com/train:1.0"
RUN: dict[str, Any] = {"pool": "train", "image": IMAGE, "command": ["sleep", "infinity"], "run_as_user": 1000}
JOB: dict[str, Any] = {
    **RUN,
    "name": "fit",
    "checkpoints": {"directory": "/kept", "storage_class": "fast", "size": "10Gi"},
}

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(5400),
    pytest.mark.xdist_group("e2e-pulumi-jobs"),
]


@pytest.fixture
def pulumi(tmp_path: Path) -> Iterator[Platform]:
    running = control_plane.up(SANDBOX, progress=Progress(quiet=True))
    yield platform_of_the_cli(running, tmp_path / "stacks", tmp_path / "backend")
    control_plane.down(SANDBOX)


def seconds_from_policies_to_rights(client: KubernetesClient) -> float:
    """Return the seconds between the creation of a team's last policy and of its members' RoleBinding."""

    def created(live: dict[str, Any]) -> datetime.datetime:
        return datetime.datetime.fromisoformat(live["metadata"]["creationTimestamp"])

    rights = client.get("rbac.authorization.k8s.io/v1", "RoleBinding", "team-members", "vision")
    assert rights is not None
    kinds = ("MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding")
    policies = [one for kind in kinds for one in client.objects("admissionregistration.k8s.io/v1", kind)]
    of_team = [created(one) for one in policies if one["metadata"]["name"].endswith("vision")]
    return (created(rights) - max(of_team)).total_seconds()


def test_changed_jobs_are_replaced_without_waiting_and_keep_their_claim(
    pulumi: Platform, base: dict[str, Any]
) -> None:
    base["cluster"]["name"] = SANDBOX
    base["validation"]["timeout"] = "10m"
    # The stack is as small as the jobs allow, because the CLI reads and compares every object in each update.
    base["pools"], base["teams"] = base["pools"][:1], base["teams"][:1]
    base["teams"][0]["quota"].pop("mig")
    service = {"name": "chat", "pool": "train", "image": IMAGE, "run_as_user": 1000}
    notebook = {"name": "lab", "pool": "train", "run_as_user": 1000}
    base["teams"][0] |= {
        "training_jobs": [JOB],
        "batch_jobs": [{**RUN, "name": "embed"}],
        "inference_services": [service],
        "notebooks": [notebook],
        "workloads": [],
    }

    def find(api_version: str, kind: str, name: str) -> dict[str, Any]:
        found = pulumi.client.get(api_version, kind, name, "vision")
        assert found is not None, f"{kind} {name} is gone"
        return found

    # No volume is ever created for the claim. Neither the claim nor the job that needs it blocks the deployment.
    ran = pulumi.up(base)
    assert ran.code == 0, ran.err
    assert seconds_from_policies_to_rights(pulumi.client) >= 2
    short = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "first", "namespace": "vision"},
        "spec": satisfying({"containers": [short]}),
    }
    live = member(pulumi.kubeconfig, "vision").create(pod, dry_run=True)
    assert TOLERATION in live["spec"]["tolerations"]
    job = find("batch/v1", "Job", "fit")
    claim = find("v1", "PersistentVolumeClaim", "fit-checkpoints")
    eventually(lambda: find("batch/v1", "Job", "embed")["status"].get("active") == 1)

    changed = copy.deepcopy(base)
    changed["teams"][0]["training_jobs"] = [{**JOB, "image": "registry.example.com/train:2.0"}]
    ran = pulumi.up(changed)
    assert ran.code == 0, ran.err
    told = {(one["action"], one["kind"], one["name"]) for one in ran.json["changes"]["changes"]}
    assert ("replace", "Job.batch", "fit") in told
    again = find("batch/v1", "Job", "fit")
    assert again["metadata"]["uid"] != job["metadata"]["uid"]
    assert again["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/train:2.0"

    without = copy.deepcopy(changed)
    without["teams"][0]["training_jobs"] = []
    ran = pulumi.up(without)
    assert ran.code == 0, ran.err
    told = {(one["action"], one["kind"], one["name"]) for one in ran.json["changes"]["changes"]}
    assert {("delete", "Job.batch", "fit"), ("retain", "PersistentVolumeClaim", "fit-checkpoints")} <= told
    assert find("v1", "PersistentVolumeClaim", "fit-checkpoints")["metadata"]["uid"] == claim["metadata"]["uid"]

    ran = pulumi.up(changed)
    assert ran.code == 0, ran.err
    assert find("v1", "PersistentVolumeClaim", "fit-checkpoints")["metadata"]["uid"] == claim["metadata"]["uid"]
    ran = pulumi.up(changed)
    assert (ran.code, ran.json["changes"]["changes"]) == (0, []), ran.err

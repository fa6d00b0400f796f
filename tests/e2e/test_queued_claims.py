"""Device claims in a queue, on the real control plane with Kueue's controller.

The tests use a separate sandbox, because no cluster can return from DRA to the device plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.e2e.queues import Team, job, stack
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queued-claims")]


@pytest.fixture(scope="module")
def kueue_sandbox(start_sandbox: Callable[..., Status]) -> Status:
    return start_sandbox("queued-claims")


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


CHANNEL = "compute-domain-default-channel.nvidia.com"
"""The device class that NVIDIA's DRA driver provides for pods in a ComputeDomain. Sandboxes do not have this
class.
"""


@pytest.fixture
def vision(platform: Platform, kueue_sandbox: Status) -> Iterator[Team]:
    wanted = stack(kueue_sandbox)
    machine = {"machine_type": "p6e-gb200.36xlarge", "count": {"desired": 1}}
    wanted["pools"] = [{**wanted["pools"][0], **machine, "sharing": {"mode": "dra"}}]
    wanted["teams"] = [
        {
            **wanted["teams"][0],
            "quota": {"devices": {"gpu.nvidia.com": 4}},
            "queue": {"borrow": {}},
            "claims": [{"name": "two-gpus", "count": 2}],
        }
    ]
    ran = platform.up(wanted)
    assert ran.code == 0, ran.err
    team = Team(platform.kubeconfig, "vision")
    yield team
    team.remove()


def claiming(name: str, *templates: str) -> dict[str, Any]:
    """Return a Job whose pod claims a device through each template."""
    wanted = job("vision", name, 0)
    spec = wanted["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": one, "resourceClaimTemplateName": one} for one in templates]
    resources = spec["containers"][0]["resources"]
    resources["claims"] = [{"name": one} for one in templates]
    for amounts in (resources["requests"], resources["limits"]):
        amounts.pop("nvidia.com/gpu", None)  # requests and limits may be the same dictionary
    return wanted


def test_the_queue_counts_claims_and_a_job_above_the_quota_waits(platform: Platform, vision: Team) -> None:
    for name in ("first", "second", "third"):
        vision.create(claiming(name, "two-gpus"))
        if name != "third":
            eventually(lambda name=name: vision.running(name) == 1)
    assert "insufficient unused quota for gpu.nvidia.com" in vision.waits("third")
    claims = platform.client.objects("resource.k8s.io/v1", "ResourceClaim", namespace="vision")
    assert [len(one["status"]["allocation"]["devices"]["results"]) for one in claims] == [2, 2]
    vision.end("first")
    eventually(lambda: vision.running("third") == 1)
    vision.remove()


def test_a_job_that_claims_a_channel_and_gpus_gets_both_from_the_queue(platform: Platform, vision: Team) -> None:
    made = [platform.client.create(_device_class(CHANNEL)), platform.client.create(_template("channel", CHANNEL))]
    vision.create(claiming("domain", "two-gpus", "channel"))

    def usage() -> Any:
        workload = vision.workload("domain")
        admission = workload and workload.get("status", {}).get("admission")
        used = admission["podSetAssignments"][0]["resourceUsage"] if admission else {}
        return used.get("gpu.nvidia.com"), used.get(CHANNEL)

    eventually(usage, ("2", "1"))
    for one in made:
        platform.client.delete(one)


def _device_class(name: str) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}


def _template(name: str, device_class: str) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {"spec": {"devices": {"requests": [{"name": "channel", "exactly": exactly}]}}},
    }

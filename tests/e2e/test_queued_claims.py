"""Claims of devices in a queue, on the real control plane with Kueue's own controller.

In a sandbox of its own: no cluster goes back from DRA to the device plugin.
"""

from __future__ import annotations

from collections.abc import Callable

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


def test_jobs_with_claims_are_counted_by_the_queue_and_the_one_beyond_the_quota_waits(
    platform: Platform, kueue_sandbox: Status
) -> None:
    wanted = stack(kueue_sandbox)
    wanted["pools"][0] |= {"count": {"desired": 1}, "sharing": {"mode": "dra"}}
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
    vision = Team(platform.kubeconfig, "vision")
    for name in ("first", "second", "third"):
        claiming = job("vision", name, 0)
        spec = claiming["spec"]["template"]["spec"]
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]
        resources = spec["containers"][0]["resources"]
        resources["claims"] = [{"name": "gpus"}]
        for amounts in (resources["requests"], resources["limits"]):
            amounts.pop("nvidia.com/gpu", None)  # the two are one object
        vision.create(claiming)
        if name != "third":
            eventually(lambda name=name: vision.running(name) == 1)
    assert "insufficient unused quota for gpu.nvidia.com" in vision.waits("third")
    claims = platform.client.objects("resource.k8s.io/v1", "ResourceClaim", namespace="vision")
    assert [len(one["status"]["allocation"]["devices"]["results"]) for one in claims] == [2, 2]
    vision.end("first")
    eventually(lambda: vision.running("third") == 1)
    vision.remove()

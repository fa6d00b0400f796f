"""The shipped training stack with both teams at their limits, on the real control plane with Kueue."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpu_platform.live.client import Refused
from gpu_platform.stack.loaded import load_stack
from sandbox.control_plane import Status
from tests.e2e.conftest import VALIDATION_TIMEOUT, Platform
from tests.e2e.queues import Team, bring, job
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queues")]


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


def on_sandbox(status: Status) -> dict[str, Any]:
    """Return the pools, teams and queues of the shipped stack, with the autoscaled pool at its maximum size."""
    shipped = cast("dict[str, Any]", load_stack("eks-training").platform)
    pools = [
        {key: one[key] for key in ("name", "machine_type", "count", "workload")}
        for one in shipped["pools"]
        if one["name"] in ("train", "develop")
    ]
    pools[1]["count"] = {"desired": pools[1]["count"]["max"]}
    teams = [
        {**one, "quota": {"gpus": one["quota"]["gpus"]}}
        for one in shipped["teams"]
    ]  # fmt: skip
    return {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": status.name},
        "pools": pools,
        "queueing": shipped["queueing"],
        "teams": teams,
        "validation": {"timeout": VALIDATION_TIMEOUT},
    }


def test_each_teams_largest_job_starts_although_others_borrowed_all(
    platform: Platform, kueue_sandbox: Status
) -> None:
    bring(platform, on_sandbox(kueue_sandbox))
    vision, assistants = Team(platform.kubeconfig, "vision"), Team(platform.kubeconfig, "assistants")
    for node in range(4):
        of_train = {"gpu-platform.dev/pool": "train"}
        assistants.create(job("assistants", f"borrowed-{node}", 8, nodeSelector=of_train))
    for node in range(8):
        vision.job(f"borrowed-{node}", gpus=1)
    eventually(lambda: sum(assistants.running(f"borrowed-{node}") for node in range(4)), 4)
    eventually(lambda: sum(vision.running(f"borrowed-{node}") for node in range(8)), 8)
    vision.create(job("vision", "pretrain", 8, 4, nodeSelector={"gpu-platform.dev/pool": "train"}))
    assistants.job("evaluate", gpus=1, pods=8)
    eventually(lambda: (vision.running("pretrain"), assistants.running("evaluate")), (4, 8))
    vision.remove()
    assistants.remove()


def test_a_pod_that_some_nodes_are_too_small_for_names_its_pool(platform: Platform, kueue_sandbox: Status) -> None:
    bring(platform, on_sandbox(kueue_sandbox))
    assistants = Team(platform.kubeconfig, "assistants")

    def refusal(gpus: int, **spec: Any) -> str:
        try:
            assistants.client.create(job("assistants", "any", gpus, **spec), dry_run=True)
        except Refused as refused:
            return refused.message
        return ""

    assert "queue-pool: pods with more than 1 nvidia.com/gpu do not fit on any node of develop" in refusal(2)
    assert "nodeSelector: {gpu-platform.dev/pool: train}" in refusal(2)
    assert refusal(1) == ""
    assert refusal(2, nodeSelector={"gpu-platform.dev/pool": "train"}) == ""
    assert "queue-pool" in refusal(2, nodeSelector={"gpu-platform.dev/pool": "develop"})
    assert refusal(2, affinity=near("In", "train")) == ""
    for other in (near("In", "train", "develop"), near("NotIn", "develop"), near("Exists")):
        assert "queue-pool" in refusal(2, affinity=other)
    prepare = {"name": "prepare", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    assert "queue-pool" in refusal(1, initContainers=[prepare])


def near(operator: str, *pools: str) -> dict[str, Any]:
    """Return a required node affinity for the pool label."""
    expression = {"key": "gpu-platform.dev/pool", "operator": operator, "values": list(pools) or None}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

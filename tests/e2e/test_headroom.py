"""Headroom as planned for EKS, on the real scheduler of a sandbox. Team pods use it immediately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.base import names
from tests.e2e.conftest import Platform
from tests.support.eks_stacks import eks_environment
from tests.support.eventually import eventually
from tests.support.recorded import record_platform

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-base")]

POOL = {
    "machine_type": "p4de.24xlarge",
    "count": {"min": 0, "desired": 1, "max": 2},
    "zones": ["us-east-2a"],
    "headroom": 4,
}
KINDS = {"Namespace": "v1", "PriorityClass": "scheduling.k8s.io/v1", "Deployment": "apps/v1"}


def planned() -> list[dict[str, Any]]:
    """Return the namespace, the priority class and the Deployment of the headroom, as sent to Kubernetes."""
    recorded = record_platform(eks_environment(POOL))
    wanted = {"Namespace": names.HEADROOM_NAMESPACE, "PriorityClass": "gpu-headroom", "Deployment": "train"}
    return [
        {"apiVersion": KINDS[kind], "kind": kind, **recorded.one(kind, name).inputs}
        for kind, name in wanted.items()
    ]


@pytest.fixture
def kept_free(deployed: Platform) -> Iterator[Platform]:
    """The base stack. Its job uses four GPUs of the training node, and the headroom pods use the other four."""
    made = [deployed.client.create(one) for one in planned()]
    eventually(lambda: phases(deployed) == ["Running"])
    yield deployed
    for one in reversed(made):
        deployed.client.delete(one)
    gone = ("v1", "Namespace", names.HEADROOM_NAMESPACE)
    eventually(lambda: deployed.client.get(*gone) is None)


def phases(platform: Platform) -> list[str]:
    pods = platform.client.objects("v1", "Pod", namespace=names.HEADROOM_NAMESPACE)
    return [pod["status"].get("phase", "") for pod in pods if "deletionTimestamp" not in pod["metadata"]]


@pytest.mark.long
def test_team_pods_of_the_lowest_class_displace_the_headroom(
    kept_free: Platform,
) -> None:
    # All GPUs of the node are in use, so this pod would wait without preemption.
    kept_free.pod("urgent", "nvidia.com/gpu", 4)
    eventually(lambda: kept_free.find_pod("urgent")["status"].get("phase") == "Running")
    assert kept_free.find_pod("urgent")["spec"]["nodeName"] == "train-0"
    assert kept_free.find_pod("urgent")["spec"].get("priority", 0) == 0
    eventually(lambda: phases(kept_free) == ["Pending"])
    kept_free.remove_pods()
    eventually(lambda: phases(kept_free) == ["Running"])

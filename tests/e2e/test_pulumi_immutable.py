"""The real Pulumi CLI deploys changes to fields that are immutable on the API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.progress import Progress
from sandbox import control_plane
from tests.e2e.conftest import Platform, platform_of_the_cli
from tests.e2e.queues import KUEUE, stack
from tests.support.eventually import eventually
from tests.support.pulumi_cli import NEEDS_PULUMI

SANDBOX = "e2e-pulumi-queues"

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("e2e-pulumi-queues"),
]


@pytest.fixture
def kueue_sandbox() -> Iterator[control_plane.Status]:
    """A separate sandbox for each test, because each deployment is recorded only in the backend of its test."""
    yield control_plane.up(SANDBOX, progress=Progress(quiet=True))
    control_plane.down(SANDBOX)


@pytest.fixture
def pulumi(kueue_sandbox: control_plane.Status, tmp_path: Path) -> Platform:
    return platform_of_the_cli(kueue_sandbox, tmp_path / "stacks", tmp_path / "backend")


def flavors(platform: Platform) -> set[str]:
    return {one["metadata"]["name"] for one in platform.client.objects(KUEUE, "ResourceFlavor")}


def priority(platform: Platform) -> int:
    live = platform.client.get("scheduling.k8s.io/v1", "PriorityClass", "training")
    assert live is not None
    return int(live["value"])


def test_queues_lose_their_topology_and_get_it_again(
    pulumi: Platform, kueue_sandbox: control_plane.Status
) -> None:
    first: dict[str, Any] = stack(kueue_sandbox, validation={"timeout": "10m"})
    ran = pulumi.up(first)
    assert ran.code == 0, ran.err
    with_topology = flavors(pulumi)
    ran = pulumi.up({**first, "queueing": {"topology": False}})
    assert ran.code == 0, ran.err
    eventually(lambda: not with_topology & flavors(pulumi))
    ran = pulumi.up(first)
    assert ran.code == 0, ran.err
    eventually(lambda: flavors(pulumi), with_topology)
    again = pulumi.up(first)
    assert again.json["changes"]["changes"] == []


def test_the_refusal_of_another_priority_names_what_to_do(
    pulumi: Platform, kueue_sandbox: control_plane.Status
) -> None:
    first: dict[str, Any] = stack(kueue_sandbox, validation={"timeout": "10m"})
    ran = pulumi.up(first)
    assert ran.code == 0, ran.err
    changed = {**first, "priorities": {"training": 200}}
    refused = pulumi.up(changed)
    assert refused.code == 1
    assert "kubectl delete priorityclass training" in refused.err
    live = pulumi.client.get("scheduling.k8s.io/v1", "PriorityClass", "training")
    assert live is not None
    pulumi.client.delete(live)
    ran = pulumi.up(changed)
    assert ran.code == 0, ran.err
    assert priority(pulumi) == 200

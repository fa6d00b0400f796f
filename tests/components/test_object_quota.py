"""`quota.objects` must not be lower than the number of objects that a stack file declares."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import parse_quantity
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import Recorded, record_platform

CLUSTERS: dict[str, dict[str, Any]] = {
    "eks": {"provider": "eks", "name": "prod", "region": "us-east-2"},
    "gke": {"provider": "gke", "name": "prod", "project": "acme-prod", "location": "us-central1"},
}
POOLS: dict[str, dict[str, Any]] = {
    "eks": pool(count={"desired": 4}, zones=["us-east-2a"]),
    "gke": pool(machine_type="a2-highgpu-8g", count={"desired": 4}, zones=["us-central1-a"]),
}
POD = {"pool": "train", "image": "registry.example.com/app:1.0", "cpu": "1", "memory": "1Gi"}
KEPT = {"storage_class": "disks", "size": "2Ti"}
ENTRIES: dict[str, Any] = {
    "training_jobs": [
        {**POD, "name": "single", "command": ["train"], "checkpoints": {"directory": "/kept", **KEPT}},
        {**POD, "name": "gang", "command": ["train"], "replicas": 2},
    ],
    "inference_services": [{**POD, "name": "chat"}],
    "notebooks": [{**POD, "name": "lab", "home": {"directory": "/home/me", **KEPT}}],
    "batch_jobs": [{**POD, "name": "sweep", "command": ["sweep"]}],
}


def stack(provider: str, objects: dict[str, Any], **rest: Any) -> dict[str, Any]:
    declared = team(
        members=["group:a@acme.com"],
        quota={"gpus": 16, "objects": objects},
        **{**ENTRIES, **rest.pop("entries", {})},
    )
    storage = {
        "disks": {"type": "disk"},
        "data": {"type": "bucket", "bucket": "acme-data", "purpose": "datasets"},
    }
    return environment(POOLS[provider], cluster=CLUSTERS[provider], storage=storage, teams=[declared], **rest)


def refused(platform: dict[str, Any]) -> dict[str, str]:
    """Return the fix for each refused field of `quota.objects`."""
    with pytest.raises(BadInput) as caught:
        record_platform(platform)
    place = "teams[0].quota.objects."
    return {one.path.removeprefix(place): one.fix for one in caught.value.problems}


def of_team(found: Recorded, kind: str) -> list[dict[str, Any]]:
    return [dict(one.inputs) for one in found.of(kind) if one.inputs["metadata"].get("namespace") == "vision"]


@pytest.mark.parametrize("provider", ["eks", "gke"])
def test_limits_below_the_declared_objects_are_refused_with_their_number(provider: str) -> None:
    none = {"claims": 0, "services": 0, "jobs": 0, "other_kinds": 0, "storage": "10Gi"}
    assert refused(stack(provider, none)) == {
        "claims": "write quota.objects.claims: 3",
        "services": "write quota.objects.services: 2",
        "jobs": "write quota.objects.jobs: 3",
        "other_kinds": "write quota.objects.other_kinds: 2",
        "storage": "write quota.objects.storage: 4097Gi",
    }


@pytest.mark.parametrize("provider", ["eks", "gke"])
def test_the_printed_numbers_match_the_created_objects(provider: str) -> None:
    enough = {"claims": 3, "services": 2, "jobs": 3, "storage": "4097Gi"}
    found = record_platform(stack(provider, enough))
    claims = of_team(found, "PersistentVolumeClaim")
    counts = [len(of_team(found, kind)) for kind in ("PersistentVolumeClaim", "Service", "Job")]
    assert counts == [enough["claims"], enough["services"], enough["jobs"]]
    sizes = [parse_quantity(one["spec"]["resources"]["requests"]["storage"]) for one in claims]
    assert sum(sizes, Decimal(0)) == parse_quantity("4097Gi")


def test_services_that_controllers_make_count_too() -> None:
    ray = {
        "name": "ray",
        "image": "registry.example.com/ray:1.0",
        "version": "2.49.0",
        "head": {},
        "workers": [{"name": "w", "pool": "train", "cpu": "1", "memory": "1Gi"}],
    }
    addons = {"kuberay": "install", "jobset": "install"}
    few = stack("eks", {"services": 1}, addons=addons, entries={"ray_clusters": [ray]})
    assert refused(few) == {
        "services": "write quota.objects.services: 4"
    }  # two JobSets, the Ray head and the service chat have one Service each

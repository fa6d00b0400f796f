"""Check that a team's object quota has room for the objects of the workloads in the stack file.

Without this check, the API server would reject these objects only after the cluster exists. A JobSet creates a
headless Service, a RayCluster creates a Service for its head, and a LeaderWorkerSet uses the declared Service,
which has the same name (kubernetes-sigs/jobset, createHeadlessSvcIfNecessary; ray-project/kuberay,
raycluster_controller.go; kubernetes-sigs/lws, CreateHeadlessServiceIfNotExists; read 2026-11-28).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Final

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.workloads.plans import api_of
from gpu_platform.stack.addons import Addons
from gpu_platform.stack.team import Team

_OF_A_VOLUME: Final = "1Gi"
"""Storage size that each claim requests for a bucket or an existing file system."""


def check_object_quota(team: Team, volumes: Collection[str], addons: Addons, problems: Problems) -> None:
    """Record a problem for each limit in `quota.objects` that is too low. `volumes` are the volumes that `storage`
    provides for the team.
    """
    sizes = [*(_OF_A_VOLUME for _ in volumes), *_sizes(team)]
    limits = team.quota.objects
    here = problems.at("quota").at("objects")
    jobs = len(team.training_jobs) + len(team.batch_jobs)
    counts = {
        "claims": len(sizes),
        "services": _services(team, addons),
        "jobs": jobs,
        "other_kinds": _of_other_kinds(team),
    }
    for field, count in counts.items():
        allowed: int = getattr(limits, field)
        if count > allowed:
            _add(field, str(allowed), str(count), here)
    storage = sum((parse_quantity(size) for size in sizes), Decimal(0))
    if storage > parse_quantity(limits.storage):
        _add("storage", limits.storage, f"{-(-storage // 2**30):f}Gi", here)


def _add(field: str, allowed: str, needed: str, here: Problems) -> None:
    here.at(field).add(
        allowed,
        f"{needed} or more, for the team's volumes and declared workloads",
        f"write quota.objects.{field}: {needed}",
    )


def _sizes(team: Team) -> Iterator[str]:
    """Yield the sizes of the claims that declared workloads create."""
    kept = (*(one.checkpoints for one in team.training_jobs), *(one.home for one in team.notebooks))
    for one in kept:
        if one is not None and one.volume is None and one.size is not None:
            yield str(one.size)


def _of_other_kinds(team: Team) -> int:
    """Return the largest number of objects of one kind, among the kinds that have no separate limit."""
    deployments = len(team.workloads) + len(team.inference_services)
    cron_jobs = len(team.notebooks) + sum(one.schedule is not None for one in team.batch_jobs)
    return max(deployments, cron_jobs, len(team.training_jobs), len(team.ray_clusters), len(team.claims))


def _services(team: Team, addons: Addons) -> int:
    training = sum(one.replicas > 1 or api_of(one, addons) != "job" for one in team.training_jobs)
    return len(team.inference_services) + training + len(team.ray_clusters)

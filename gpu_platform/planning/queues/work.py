"""GPU workloads that the stack file declares for each team, with the resources that their pods request from the
team's queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpu_platform.base.quantity import amount_of
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.declared_pods import declared_pods
from gpu_platform.planning.teams.quota_of_pods import gpu_pods
from gpu_platform.stack.team import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJob:
    """The GPU pods of one declared workload, such as a job or a service.

    `path` is the workload's path below the team in the stack file. `requests` contains the amounts of all its pods
    by resource. `ends` indicates whether the workload finishes. It can then wait in the queue until quota is free.
    A workload that does not finish uses its quota at all times.
    """

    path: str
    name: str
    pool: str
    resource: str
    requests: Mapping[str, int]
    """Units of the GPU resource, CPU in millicores, and memory in bytes."""
    always: Mapping[str, int]
    """The part of `requests` that the minimum number of replicas uses at all times."""
    ends: bool


def declared_work(team: Team, available: Available) -> tuple[DeclaredJob, ...]:
    """Return a team's declared workloads that need GPUs."""
    found: list[DeclaredJob] = []
    for one, resource, units in gpu_pods(team, declared_pods(team, available), available.pools):
        of_pod = {
            resource: units,
            "cpu": amount_of("cpu", one.spec.cpu),
            "memory": amount_of("memory", one.spec.memory),
        }
        least = 0 if one.runs != "always" else one.spec.replicas if one.least is None else one.least
        found.append(
            DeclaredJob(
                path=one.path,
                name=one.spec.name,
                pool=one.spec.pool,
                resource=resource,
                requests={name: amount * one.spec.replicas for name, amount in of_pod.items()},
                always={name: amount * least for name, amount in of_pod.items()},
                ends=one.runs != "always",
            )
        )
    return tuple(found)


def units_of_work(resource: str, work: Iterable[DeclaredJob]) -> dict[str, int]:
    """Return how many units of a resource a team's workloads need, by pool. The units are enough for all workloads
    that always run, plus the largest job that finishes.
    """
    always: dict[str, int] = {}
    largest: dict[str, int] = {}
    for job in work:
        units = job.requests[job.resource] if job.resource == resource else 0
        if job.ends:
            largest[job.pool] = max(largest.get(job.pool, 0), units)
        else:
            always[job.pool] = always.get(job.pool, 0) + units
    return {pool: always.get(pool, 0) + largest.get(pool, 0) for pool in {**always, **largest}}

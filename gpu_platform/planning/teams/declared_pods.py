"""Collect all pods that a stack file declares for a team, from workloads of every kind. The checks for individual
pods use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.admission_defaults import share_of_node
from gpu_platform.planning.teams.available import Available
from gpu_platform.stack.team import Team, Workload
from gpu_platform.stack.team_workloads import RayHead, RequestedResources

_CPU_ONLY = ("1", "4Gi")  # CPU and memory of a pod without GPUs if the stack file sets neither


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPods:
    """Identical pods of one declared workload.

    `path` is the workload's path below the team in the stack file. `runs` indicates whether the pods always run,
    run until they finish, or run while a member uses them. `together` indicates whether all of the pods must run
    at the same time.
    """

    path: str
    spec: Workload
    runs: Literal["always", "to-the-end", "on-demand"] = "always"
    together: bool = False
    nodes: int = 1
    """Number of pods in each replica. Each pod runs on a different node. `spec.replicas` counts all pods."""
    least: int | None = None
    """Minimum number of pods that an autoscaler keeps. `spec.replicas` is the maximum."""


def declared_pods(team: Team, available: Available) -> list[DeclaredPods]:
    """Return the pods of a team's declared workloads. Ray heads without a pool are left out."""
    return list(_declared(team, available))


def _declared(team: Team, available: Available) -> Iterator[DeclaredPods]:
    for index, workload in enumerate(team.workloads):
        yield DeclaredPods(path=f"workloads[{index}]", spec=workload)
    for index, job in enumerate(team.training_jobs):
        yield DeclaredPods(
            path=f"training_jobs[{index}]",
            spec=as_workload(job.name, job, job.replicas, available, team),
            runs="to-the-end",
            together=True,
        )
    for index, service in enumerate(team.inference_services):
        most = service.replicas if service.autoscaling is None else service.autoscaling.max_replicas
        yield DeclaredPods(
            path=f"inference_services[{index}]",
            spec=as_workload(service.name, service, most * service.nodes, available, team),
            nodes=service.nodes,
            least=service.replicas * service.nodes,
        )
    for index, cluster in enumerate(team.ray_clusters):
        path = f"ray_clusters[{index}]"
        if cluster.head.pool is not None:
            yield DeclaredPods(path=f"{path}.head", spec=head_as_workload(cluster.name, cluster.head))
        for place, workers in enumerate(cluster.workers):
            name = f"{cluster.name}-{workers.name}"
            yield DeclaredPods(
                path=f"{path}.workers[{place}]",
                spec=as_workload(name, workers, workers.replicas, available, team),
            )
    for index, notebook in enumerate(team.notebooks):
        yield DeclaredPods(
            path=f"notebooks[{index}]",
            spec=as_workload(notebook.name, notebook, 1, available, team),
            runs="on-demand",
        )
    for index, batch in enumerate(team.batch_jobs):
        yield DeclaredPods(
            path=f"batch_jobs[{index}]",
            spec=as_workload(batch.name, batch, batch.at_once, available, team),
            runs="to-the-end",
        )


def head_as_workload(name: str, head: RayHead) -> Workload:
    """Return the head of a Ray cluster as a workload. The head must have a pool."""
    pool = cast("str", head.pool)
    return Workload.model_construct(name=f"{name}-head", pool=pool, gpus=0, cpu=head.cpu, memory=head.memory)


def as_workload(name: str, requested: RequestedResources, pods: int, available: Available, team: Team) -> Workload:
    """Return pods as a workload. CPU and memory that are not set depend on the pods' share of the node's GPUs."""
    pool = next((one for one in available.pools if one.name == requested.pool), None)
    cpu, memory = _CPU_ONLY if pool is None else _default_size(requested, pool, team)
    given: dict[str, Any] = {
        field: getattr(requested, field)
        for field in ("gpus", "profile", "claim", "gpu_memory")
        if field in requested.model_fields_set
    }
    # Skip the validation, because the values have already been validated.
    # The number of pods over all replicas may exceed the maximum for one declared workload.
    return Workload.model_construct(
        name=name,
        pool=requested.pool,
        replicas=pods,
        cpu=requested.cpu or cpu,
        memory=requested.memory or memory,
        **given,
    )


def _default_size(requested: RequestedResources, pool: PoolPlan, team: Team) -> tuple[str, str]:
    """Return the CPU and memory that a pod gets if the stack file sets neither."""
    if not pool.has_gpus:
        return _CPU_ONLY
    if pool.devices:
        claim = next((one for one in team.claims if one.name == requested.claim), None)
        most = max(device.per_node for device in pool.devices)
        part = Fraction(claim.count if claim is not None else 1, most)
    else:
        part = Fraction(requested.gpus, 1) * _unit(requested, pool)
    share = share_of_node(pool, min(part, Fraction(1)))
    return f"{max(share.cpu_millicores, 100)}m", f"{max(share.memory_mib, 256)}Mi"


def _unit(requested: RequestedResources, pool: PoolPlan) -> Fraction:
    """Return the fraction of a node that one GPU, one share, or one MIG instance of the requested profile uses."""
    offers = [offer for offer in pool.resources if offer.per_node]
    named = [offer for offer in offers if requested.profile is not None and requested.profile in offer.name]
    gpus = sum((Fraction(offer.gpus) for offer in offers), Fraction(0))
    one = next(iter(named or offers), None)
    return Fraction(1) if one is None else Fraction(one.gpus) / gpus / one.per_node

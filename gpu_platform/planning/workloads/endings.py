"""Compare the deadlines and grace periods of declared workloads with the events that terminate pods on their
pool's nodes.

A pod may run for a shorter time than calculated here, because its node may be older than the pod. Kueue writes the
node selector of a ProvisioningRequest into a RayCluster only once. Kueue never requeues a RayCluster that has been
ready, because KubeRay does not reset the state of the RayCluster (kubernetes-sigs/kueue v0.19.2,
pkg/controller/jobs/raycluster/raycluster_controller.go; ray-project/kuberay v1.6.2,
ray-operator/controllers/ray/raycluster_controller.go; read 2026-11-29). Each pod of a service is queued
separately, so a new pod has a new ProvisioningRequest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gpu_platform.base.quantity import duration_text, parse_duration
from gpu_platform.planning.clouds.endings import PodEnding
from gpu_platform.planning.clouds.schedules import DRAIN_SECONDS
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.available import Available
from gpu_platform.stack.team import Team
from gpu_platform.stack.team_workloads import RayCluster

_JOB_BEGINS_AGAIN: Final = "without checkpoints, the job starts over; set `checkpoints`, or reduce `deadline`"
_PART_BEGINS_AGAIN: Final = "a part that takes longer starts over; make the parts shorter, or reduce `deadline`"
_FILES_ARE_LOST: Final = "the notebook's files are lost; set `home`, or reduce `deadline`"

_WAITS: Final = (
    "its pods then wait for new capacity; for workloads that always run, use a pool whose nodes have no time limit"
)
_WAITS_FOR_EVER: Final = (
    "a Ray cluster has only one ProvisioningRequest, so its pods then wait forever and keep their quota; delete "
    "the cluster before that, or use a pool without queued: true"
)


def notice_seconds(pool: PoolPlan, grace: int) -> int:
    """Return the guaranteed number of seconds between SIGTERM and SIGKILL for a pod with grace period `grace`."""
    return min([grace, *(one.notice for one in _endings(pool) if one.notice is not None)])


def ending_decisions(team: Team, available: Available) -> Iterator[Decision]:
    """Yield warnings about deadlines and grace periods that are longer than the nodes allow.

    A workload that resumes from saved state may be stopped at any time, so only its grace period matters.
    """
    pools = {pool.name: pool for pool in available.pools}
    for workload in team.workloads:
        subject, pool = f"workload {team.name}/{workload.name}", pools[workload.pool]
        yield from _left_without_nodes(subject, pool, _WAITS)
    for job in team.training_jobs:
        subject, pool = f"training job {team.name}/{job.name}", pools[job.pool]
        if job.checkpoints is None:
            yield from _deadline(subject, job.deadline, pool, _JOB_BEGINS_AGAIN)
        yield from _grace(subject, job.grace, pool)
    for service in team.inference_services:
        subject = f"inference service {team.name}/{service.name}"
        yield from _grace(subject, service.grace, pools[service.pool])
        yield from _left_without_nodes(subject, pools[service.pool], _WAITS)
    for cluster in team.ray_clusters:
        of_cluster = dict.fromkeys(one.pool for one in (cluster.head, *cluster.workers) if one.pool is not None)
        for pool in (pools[name] for name in of_cluster):
            queued = pool.cloud_nodes.nodes_by_request
            then = _WAITS_FOR_EVER if queued else _WAITS
            yield from _left_without_nodes(f"Ray cluster {team.name}/{cluster.name}", pool, then)
        yield from _moved(team, cluster, available)
    for batch in team.batch_jobs:
        subject, pool = f"batch job {team.name}/{batch.name}", pools[batch.pool]
        rounds = -(-(batch.parts or batch.replicas) // batch.at_once)
        yield from _deadline(subject, batch.deadline, pool, _PART_BEGINS_AGAIN, rounds=rounds)
    for notebook in team.notebooks:
        if notebook.home is None:
            subject = f"notebook {team.name}/{notebook.name}"
            yield from _deadline(subject, notebook.deadline, pools[notebook.pool], _FILES_ARE_LOST)


def _deadline(subject: str, declared: str, pool: PoolPlan, then: str, *, rounds: int = 1) -> Iterator[Decision]:
    """Yield a warning if a deadline exceeds the lifetime of a node. If pods run in several `rounds`, the deadline
    is first divided by the number of rounds.
    """
    endings = ((one.after, one.why) for one in _endings(pool))
    if limit := _below(parse_duration(declared) // rounds, endings):
        several = f" for {rounds} parts one after another" if rounds > 1 else ""
        yield Decision(
            subject=subject,
            what="warning: deadline",
            chosen=f"{declared}{several}; a pod on pool {pool.name} runs at most {duration_text(limit[0])}",
            why=f"{limit[1]}; {then}",
        )


def _left_without_nodes(subject: str, pool: PoolPlan, then: str) -> Iterator[Decision]:
    """Yield a warning if a workload that always runs loses its nodes after a time limit and might not get new
    nodes.
    """
    if pool.capacity["type"] != "flex-start":
        return
    for ending in _endings(pool):
        if ending.after is not None:
            yield Decision(
                subject=subject,
                what="warning: node lifetime",
                chosen=f"a pod on pool {pool.name} runs at most {duration_text(ending.after)}",
                why=f"{ending.why}; {then}",
            )


def _moved(team: Team, cluster: RayCluster, available: Available) -> Iterator[Decision]:
    """Yield a warning if an autoscaler may terminate pods of a Ray cluster to remove or replace their nodes.

    The pods have no annotation that keeps their nodes, because a Ray cluster has no deadline. With the annotation,
    the nodes would stay underused and outdated for as long as the cluster exists. A head without a pool may run on
    every pool without GPUs and taints. The Cluster Autoscaler on EKS spares pods whose controller it does not
    know, such as KubeRay's (kubernetes/autoscaler, simulator/drainability/rules/replicated,
    skip-nodes-with-custom-controller-pods; read 2026-11-30).
    """
    anywhere = [pool.name for pool in available.pools if not pool.has_gpus and not pool.taints]
    heads = anywhere if cluster.head.pool is None else [cluster.head.pool]
    placed = [(pool, "the head") for pool in heads]
    placed += [(workers.pool, f"workers {workers.name}") for workers in cluster.workers]
    pools = {pool.name: pool for pool in available.pools}
    texts: dict[str, list[str]] = {}
    for pool, pods in placed:
        if pools[pool].cloud_nodes.moves_pods:
            texts.setdefault(pool, []).append(pods)
    if texts:
        may_run = " (it may run there)" if cluster.head.pool is None and any(one in texts for one in heads) else ""
        yield Decision(
            subject=f"Ray cluster {team.name}/{cluster.name}",
            what="warning: moved pods",
            chosen="; ".join(
                f"{pools[pool].cloud_nodes.moves_pods} of pool {pool}, with {' and '.join(pods)}"
                for pool, pods in texts.items()
            )
            + may_run,
            why="if the head stops, all tasks, actors and objects of the cluster are lost; if a worker stops, the "
            "tasks, actors and objects on this worker are lost; for pods that must keep running, name a pool of "
            "fixed size (for the head, in head.pool)",
        )


def _grace(subject: str, declared: str, pool: PoolPlan) -> Iterator[Decision]:
    if limit := _below(parse_duration(declared), ((one.notice, one.why) for one in _endings(pool))):
        yield Decision(
            subject=subject,
            what="warning: grace",
            chosen=f"{declared}; a pod on pool {pool.name} may get only {duration_text(limit[0])}",
            why=f"{limit[1]}; work that takes longer is lost",
        )


def _below(declared: int, limits: Iterable[tuple[int | None, str]]) -> tuple[int, str] | None:
    """Return the lowest limit in seconds and its reason, or None if no limit is below the declared duration."""
    least = min(((seconds, why) for seconds, why in limits if seconds is not None), default=None)
    return least if least is not None and least[0] < declared else None


def _endings(pool: PoolPlan) -> Iterator[PodEnding]:
    if pool.schedule is not None:
        hours = pool.schedule.hours / len(pool.schedule.days)
        why = f"its nodes stop at the end of the schedule, {pool.schedule}"
        yield PodEnding(why=why, after=int(hours * 3600), notice=DRAIN_SECONDS)
    yield from pool.cloud_nodes.pod_endings

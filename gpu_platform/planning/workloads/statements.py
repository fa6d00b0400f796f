"""Decisions that `check` prints about each workload of a team: its pods, queue, topology and storage, and the
available capacity of its pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import counted, duration_text
from gpu_platform.planning.clouds.storage import StoragePlan, VolumePlan
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.queues.work import declared_work
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.declared_pods import DeclaredPods, declared_pods
from gpu_platform.planning.teams.quota_of_pods import quota_use
from gpu_platform.planning.workloads.pool_capacity import max_nodes, pods_at_once, pool_capacity
from gpu_platform.planning.workloads.section import (
    BatchJobPlan,
    InferenceServicePlan,
    KeptClaimPlan,
    MountPlan,
    NotebookPlan,
    PodPlan,
    RayClusterPlan,
    TeamWorkloadsPlan,
    TrainingJobPlan,
)
from gpu_platform.stack.addons import Addons
from gpu_platform.stack.team import Team

_LAUNCHER: Final = "gpu_platform_training.train"  # this launcher writes checkpoints without renaming files
_APART: Final = "different zones and nodes where possible: replicas do not fail together"
_TRAINING: Final = {"job": "an indexed Job", "jobset": "a JobSet", "trainjob": "a TrainJob"}
# A JobSet has no deadline. The deadline of its Job starts over when the JobSet recreates the Job.
# Source: kubernetes-sigs/jobset#1186; read 2026-11-30.
_EACH_ATTEMPT: Final = "; the deadline applies to each attempt, because a JobSet has no deadline"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """Inputs for the decisions about a team's workloads.

    `levels` contains the topology levels of each pool's nodes.
    """

    team: Team
    available: Available
    addons: Addons
    volumes: Mapping[str, VolumePlan]
    levels: Mapping[str, tuple[str, ...]]
    queue: TeamQueuePlan | None
    disks: frozenset[str | None] = frozenset()
    """Storage classes whose volumes are created in the zone of the first pod that mounts them. Contains None if
    the default class is one of these classes.
    """


def disk_classes(storage: StoragePlan) -> frozenset[str | None]:
    """Return the storage classes whose volumes are created in the zone of the first pod that mounts them.

    The result contains None if the default class is one of these classes.
    """
    default = {one.name: one.default for one in storage.classes if not one.shared and not one.zones}
    default.update({name: one.default for name, one in storage.cloud_disks.items()})
    return frozenset([*default, *(None for is_default in default.values() if is_default)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """Strings for the decisions about one workload.

    `pods` contains the pods by their name in the workload. The name is empty if the workload has only one kind of
    pod. `start` describes how Kueue starts the pods.
    """

    subject: str
    field: str
    pods: Mapping[str, PodPlan]
    how: str
    why: str
    start: str
    most: int | None = None
    """Maximum number of pods, if an autoscaler changes the number."""
    spread: str = ""
    """Where the workload's pods run, followed by a colon and the reason. Ignored if a topology places the pods."""
    claim: KeptClaimPlan | None = None
    is_notebook: bool = False
    health: str = ""
    """The health check of a service without `health_path`."""


def entry_decisions(plan: TeamWorkloadsPlan, asked: StatementContext) -> tuple[Decision, ...]:
    """Return the decisions about all workloads of a team: their pods, queue, topology and storage, and the
    available capacity.
    """
    declared = declared_pods(asked.team, asked.available)
    return tuple(
        decision
        for entry in _entries(plan, asked)
        for decision in (
            Decision(subject=entry.subject, what="pods", chosen=f"{_pods(entry)}, as {entry.how}", why=entry.why),
            _queue(entry, declared, asked),
            _topology(entry, asked),
            _storage(entry),
            *_health(entry),
            *_left_volume(entry, asked),
            *_home_of_one_node(entry, asked),
            _room(entry, declared, asked),
        )
    )


def _entries(plan: TeamWorkloadsPlan, asked: StatementContext) -> Iterator[_Entry]:
    for index, job in enumerate(plan.training_jobs):
        yield _training(f"training_jobs[{index}]", job, asked)
    for index, service in enumerate(plan.inference_services):
        yield _service(f"inference_services[{index}]", service, asked)
    for index, cluster in enumerate(plan.ray_clusters):
        yield _ray(f"ray_clusters[{index}]", cluster, asked)
    for index, notebook in enumerate(plan.notebooks):
        yield _notebook(f"notebooks[{index}]", notebook, asked)
    for index, batch in enumerate(plan.batch_jobs):
        yield _batch(f"batch_jobs[{index}]", batch, asked)


def _training(field: str, job: TrainingJobPlan, asked: StatementContext) -> _Entry:
    has = (
        "addons contains trainer"
        if asked.addons.trainer
        else "addons contains jobset"
        if asked.addons.jobset
        else "no add-on"
    )
    workload = job.pod.workload
    declared = next(one for one in asked.team.training_jobs if one.name == workload.name)
    warning = ""
    kept = declared.checkpoints.volume if declared.checkpoints is not None else None
    if kept is not None and not asked.volumes[kept].renames and _LAUNCHER not in workload.command:
        warning = (
            f"; files in {kept} cannot be renamed, but torch.distributed.checkpoint renames files; start the "
            f"program with {_LAUNCHER}, which works there, or use lustre or nfs"
        )
    return _Entry(
        subject=f"training job {asked.team.name}/{workload.name}",
        field=field,
        pods={"": job.pod},
        how=_TRAINING[job.api],
        why=("declared" if declared.api else has) + (_EACH_ATTEMPT if job.api == "jobset" else "") + warning,
        start=_whole(workload.replicas, "pod"),
        claim=job.claim,
    )


def _service(field: str, service: InferenceServicePlan, asked: StatementContext) -> _Entry:
    several = service.nodes > 1
    scaling = service.autoscaling
    most = service.replicas if scaling is None else scaling.max_replicas
    declared = next(one for one in asked.team.inference_services if one.name == service.pod.workload.name)
    health = f"GET {service.health_path} on port {service.port}, within {duration_text(service.startup_seconds)}"
    return _Entry(
        subject=f"inference service {asked.team.name}/{service.pod.workload.name}",
        field=field,
        pods={"": service.pod},
        how="a LeaderWorkerSet" if several else "a Deployment",
        why=f"each replica is {service.nodes} pods" if several else "each replica is one pod",
        start=f"Kueue starts all {service.nodes} pods of a replica or none"
        if several
        else "Kueue starts each pod",
        most=None if scaling is None else most * service.nodes,
        spread=_APART if most > 1 and not several else "",
        health="" if "health_path" in declared.model_fields_set else health,
    )


def _ray(field: str, cluster: RayClusterPlan, asked: StatementContext) -> _Entry:
    pods = {"head": cluster.head, **{workers.name: workers.pod for workers in cluster.workers}}
    return _Entry(
        subject=f"Ray cluster {asked.team.name}/{cluster.name}",
        field=field,
        pods=pods,
        how="a RayCluster",
        why="addons contains kuberay",
        start=_whole(sum(pod.workload.replicas for pod in pods.values()), "pod"),
    )


def _notebook(field: str, notebook: NotebookPlan, asked: StatementContext) -> _Entry:
    return _Entry(
        subject=f"notebook {asked.team.name}/{notebook.pod.workload.name}",
        field=field,
        pods={"": notebook.pod},
        how="a suspended CronJob, from which members create Jobs",
        why="a Job releases its GPU when it finishes",
        start="Kueue starts each notebook",
        claim=notebook.claim,
        is_notebook=True,
    )


def _batch(field: str, batch: BatchJobPlan, asked: StatementContext) -> _Entry:
    workload = batch.pod.workload
    return _Entry(
        subject=f"batch job {asked.team.name}/{workload.name}",
        field=field,
        pods={"": batch.pod},
        how="an indexed Job"
        if batch.schedule is None
        else f"a CronJob that creates an indexed Job, {batch.schedule} UTC",
        why=f"{counted(batch.parts, 'part')}, {workload.replicas} at a time",
        start=_whole(workload.replicas, "part") + (" at first" if workload.replicas > 1 else ""),
        spread="" if workload.replicas == 1 else "any nodes of the pool: parts do not communicate",
    )


def _whole(count: int, noun: str) -> str:
    return f"Kueue starts all {counted(count, noun)} or none" if count > 1 else f"Kueue starts its {noun}"


def _pods(entry: _Entry) -> str:
    texts: list[str] = []
    for name, pod in entry.pods.items():
        workload = pod.workload
        least, most = workload.replicas, workload.replicas if entry.most is None else entry.most
        count = counted(most, "pod") if least == most else f"{least} to {counted(most, 'pod')}"
        parts = [f"{workload.cpu} CPU", f"{workload.memory} of memory"]
        if workload.units:
            parts.append(f"{workload.units} {workload.resource}")
        texts.append(
            (f"{name}: " if name else "")
            + f"{count}{' with' if most == 1 else ', each with'} {', '.join(parts[:-1])} and {parts[-1]}"
        )
    return "; ".join(texts)


def _queue(entry: _Entry, declared: Sequence[DeclaredPods], asked: StatementContext) -> Decision:
    queue = asked.queue
    texts = _of_quota(entry, declared, asked) if queue is None else _of_queue(entry, queue, asked)
    texts = texts or ["no GPUs"]
    requested = [pod.node_seconds for pod in entry.pods.values() if pod.node_seconds is not None]
    texts += [f"nodes are requested first, for at most {duration_text(seconds)}" for seconds in requested]
    start = entry.start if queue is not None else "without `queueing`, pods start as soon as nodes have room"
    return Decision(
        subject=entry.subject,
        what="queue",
        chosen="none" if queue is None else queue.local_queue,
        why="; ".join([start, *texts]),
    )


def _of_quota(entry: _Entry, declared: Sequence[DeclaredPods], asked: StatementContext) -> list[str]:
    """Return strings that compare the GPU resources of a workload with the limit of the team's ResourceQuota."""
    own = [one for one in declared if one.path.startswith(entry.field)]
    return [
        _units(units, in_all, name) + f" of the {allowed} that the team's quota allows"
        for name, (units, in_all, allowed) in quota_use(asked.team, own, declared, asked.available).items()
    ]


def _of_queue(entry: _Entry, queue: TeamQueuePlan, asked: StatementContext) -> list[str]:
    """Return strings that compare the GPU resources of a workload with the queue's limit on its pool."""
    work, texts = declared_work(asked.team, asked.available), list[str]()
    for job in (one for one in work if one.path.startswith(entry.field)):
        name, units = job.resource, job.requests[job.resource]
        beside = (one for one in work if one is not job and not one.ends and one.pool == job.pool)
        in_all = units + sum(one.requests.get(name, 0) for one in beside)
        limit = queue.limits(job.pool).get(name)
        allowed = 0 if limit is None else int(limit.nominal) + (int(limit.borrow) if job.ends else 0)
        lent = " with borrowing" if job.ends else ""
        texts.append(
            _units(units, in_all, name) + f" of the {allowed} that the team's quota{lent} allows on {job.pool}"
        )
    return texts


def _units(units: int, in_all: int, resource: str) -> str:
    return f"the pods use {units} {resource}" + (
        f" ({in_all} with always-on workloads)" if in_all != units else ""
    )


def _topology(entry: _Entry, asked: StatementContext) -> Decision:
    near: list[str] = []
    for name, pod in entry.pods.items():
        for choice in ("required", "preferred"):
            if (level := pod.annotations.get(names.TOPOLOGY_ANNOTATIONS[choice])) is not None:
                near.append((f"{name}: " if name else "") + f"{choice} {level}")
    if near:
        why = "Kueue starts the pods on nodes that are close to each other"
        return Decision(subject=entry.subject, what="topology", chosen="; ".join(near), why=why)
    chosen, _, why = entry.spread.partition(": ")
    if chosen and why:
        return Decision(subject=entry.subject, what="topology", chosen=chosen, why=why)
    several = any(pod.workload.replicas > 1 for pod in entry.pods.values())
    reason = "one pod" if not several else "no `queueing`" if asked.queue is None else "the queues use no topology"
    return Decision(subject=entry.subject, what="topology", chosen="none", why=reason)


def _storage(entry: _Entry) -> Decision:
    found: dict[str, None] = {}
    claim = entry.claim
    for pod in entry.pods.values():
        for mount in pod.mounts:
            found[_mount(mount, claim)] = None
        if pod.workload.shared_memory is not None:
            found[f"/dev/shm: {pod.workload.shared_memory} of the pod's memory"] = None  # noqa: S108
    kept = [
        one for pod in entry.pods.values() for one in pod.mounts if one.claim is not None and not one.read_only
    ]
    return Decision(
        subject=entry.subject,
        what="storage",
        chosen="; ".join(found) or "none",
        why="claims outlive the pods" if kept else "files are deleted with the pods",
    )


def _health(entry: _Entry) -> Iterator[Decision]:
    """Yield the health check of a service that declares no path, because few servers answer on the default path.

    Sources: vLLM docs, Using Kubernetes; Triton Inference Server docs, HTTP/REST and GRPC Protocol; read
    2026-11-30.
    """
    if entry.health:
        yield Decision(
            subject=entry.subject,
            what="health check",
            chosen=entry.health,
            why="health_path is not set, so the server must answer on the default path; vLLM serves /health, and "
            "Triton /v2/health/ready, both on port 8000",
        )


def _left_volume(entry: _Entry, asked: StatementContext) -> Iterator[Decision]:
    """Yield a warning if a claim's disk is in one zone but the pod's next node may be in another zone.

    With a topology, Kueue assigns each pod to a node and does not look at the pod's volumes. Sources:
    kubernetes-sigs/kueue#14708, and release v0.19.2, which reads no PersistentVolume; read 2026-11-30.
    """
    claim = entry.claim
    if claim is None or claim.shared or claim.storage_class not in asked.disks:
        return
    named = {pod.workload.pool for pod in entry.pods.values()}
    for pool in asked.available.pools:
        nodes = pool.cloud_nodes
        zones = ", ".join(nodes.zones) or "the zones of the cluster"
        disk = f"the disk of claim {claim.name} is in one zone, and"
        fixes = "name a storage_class of type nfs, or write only one zone in the pool's zones"
        if pool.name in named and nodes.leaves_zones:
            yield Decision(
                subject=entry.subject,
                what="warning: storage",
                chosen=f"{disk} nodes of pool {pool.name} start in any of {zones}",
                why=f"the pod waits until a node starts in the zone of its disk; {fixes}",
            )
        elif pool.name in named and nodes.several_zones and pool.nodes.max > 1 and asked.levels.get(pool.name):
            yield Decision(
                subject=entry.subject,
                what="warning: storage",
                chosen=f"{disk} the queue may choose a node of pool {pool.name} in any of {zones}",
                why="with topology-aware scheduling Kueue chooses the node without looking at the disk, and in "
                f"another zone the pod does not start; {fixes}, or write queueing.topology: false",
            )


def _home_of_one_node(entry: _Entry, asked: StatementContext) -> Iterator[Decision]:
    """Yield a warning if several notebooks of an entry would mount a disk, which only one node can attach.

    A notebook on a second node then waits in ContainerCreating until its deadline, and holds its GPU. The
    concurrencyPolicy of a CronJob does not limit the Jobs that members create from it.

    Source: Kubernetes docs, Persistent Volumes (access modes) and CronJob; kubeflow/dashboard#60; read 2026-11-30.
    """
    claim = entry.claim
    if not entry.is_notebook or claim is None or claim.shared:
        return
    if claim.storage_class is not None and claim.storage_class not in asked.disks:
        return
    (pod,) = entry.pods.values()
    pool = next(pool for pool in asked.available.pools if pool.name == pod.workload.pool)
    if max_nodes(pool) > 1:
        yield Decision(
            subject=entry.subject,
            what="warning: home",
            chosen=f"only one node at a time can attach the disk of claim {claim.name}, and pool {pool.name} may "
            f"have {max_nodes(pool)} nodes",
            why="a second notebook on another node holds a GPU while it waits for the first notebook to end; "
            "write an entry for each member, who must start one notebook at a time, "
            "or write a new entry whose home has a storage_class of type nfs; an existing claim keeps its class",
        )


def _mount(mount: MountPlan, claim: KeptClaimPlan | None) -> str:
    if claim is not None and mount.claim == claim.name:
        of_class = "the cluster's default class" if claim.storage_class is None else f"class {claim.storage_class}"
        return f"{mount.path}: new claim {claim.name}, {claim.size} of {of_class}"
    if mount.claim is not None:
        return f"{mount.path}: volume {mount.claim}" + (", read-only" if mount.read_only else "")
    if mount.config_map is not None:
        return f"{mount.path}: ConfigMap {mount.config_map}"
    return f"{mount.path}: disk of the node"


def _room(entry: _Entry, declared: Sequence[DeclaredPods], asked: StatementContext) -> Decision:
    chosen: list[str] = []
    why: list[str] = []
    names = [name for name, pod in entry.pods.items() if pod.workload.pool]
    for name, one in zip(names, (one for one in declared if one.path.startswith(entry.field)), strict=True):
        pool = next(pool for pool in asked.available.pools if pool.name == one.spec.pool)
        room = pool_capacity(one, asked.team, pool, asked.available)
        prefix = f"{name}: " if name else ""
        chosen.append(
            f"{prefix}{counted(pods_at_once(one, queues=asked.queue is not None), 'pod')} at once "
            f"(at most {room.most} fit)"
        )
        nodes, each = counted(room.nodes, "node"), "" if room.nodes == 1 else "each "
        why.append(f"{prefix}pool {pool.name} has {nodes}, {each}with capacity for {counted(room.on_node, 'pod')}")
    if len(names) < len(entry.pods):
        why.append("head: runs on any node without GPUs; the plan does not count these nodes")
    return Decision(subject=entry.subject, what="fits", chosen="; ".join(chosen), why="; ".join(why))

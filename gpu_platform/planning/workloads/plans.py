"""Plan the declared workloads of teams. The workloads must have no problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_duration, parse_quantity
from gpu_platform.catalog.scaling_triggers import PROMETHEUS
from gpu_platform.planning.clouds.storage import StoragePlan, VolumePlan
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues import queue_of
from gpu_platform.planning.queues.section import QueuesPlan, TeamQueuePlan
from gpu_platform.planning.queues.topology import closest_level
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.compute_domains import channel_of
from gpu_platform.planning.teams.declared_pods import as_workload, head_as_workload
from gpu_platform.planning.teams.section import NODE_START_SECONDS, WorkloadPlan
from gpu_platform.planning.teams.team_plans import plan_workload
from gpu_platform.planning.workloads.alignment import cpu_decisions
from gpu_platform.planning.workloads.disks import disk_decisions
from gpu_platform.planning.workloads.endings import ending_decisions, notice_seconds
from gpu_platform.planning.workloads.fabric import plan_pod_fabric
from gpu_platform.planning.workloads.granted import (
    GRACE_VARIABLE,
    SCRATCH_VARIABLE,
    granted_environment,
    scratch_of,
)
from gpu_platform.planning.workloads.networks import network_decisions
from gpu_platform.planning.workloads.scaling_metrics import metric_decisions
from gpu_platform.planning.workloads.section import (
    AutoscalingPlan,
    BatchJobPlan,
    InferenceServicePlan,
    KeptClaimPlan,
    MountPlan,
    NotebookPlan,
    PodPlan,
    RayClusterPlan,
    RayWorkersPlan,
    RoutePlan,
    TeamWorkloadsPlan,
    TrainingApi,
    TrainingJobPlan,
)
from gpu_platform.planning.workloads.statements import StatementContext, disk_classes, entry_decisions
from gpu_platform.stack.addons import Addons
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.team import Team
from gpu_platform.stack.team_workloads import (
    BatchJob,
    ContainerSettings,
    InferenceService,
    KafkaLag,
    KeptDirectory,
    Notebook,
    RayCluster,
    RayWorkers,
    RequestedResources,
    Route,
    TrainingJob,
)

NOTEBOOK_IMAGE: Final = "guide-pytorch"  # name of an image in the catalogue
_HOME: Final = "/home/member"
# Envoy Gateway cuts off a response after 15 s by default.
# GKE's Gateway rejects a route with a timeout.
# Sources: gateway.envoyproxy.io/latest/tasks/traffic/http-timeouts/ and kserve/kserve#5311; read 2026-11-28.
_LONGEST_ANSWER: Final = "1h"
_CHECKPOINTS_VARIABLE: Final = "CHECKPOINTS"
_NOT_KEPT: Final = "none: what the job writes ends with its pods"
"""Annotation of pods without checkpoints. A new text would replace running Jobs, which would begin again."""
_POD_GROUP_ANNOTATION: Final = "kueue.x-k8s.io/podset-group-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class _TeamContext:
    """Inputs for planning one team's workloads. `levels` contains the topology levels of nodes by pool."""

    team: Team
    available: Available
    addons: Addons
    volumes: Mapping[str, VolumePlan]
    levels: Mapping[str, tuple[str, ...]]
    classes: Mapping[str, bool]
    provisioned: Mapping[str, int]
    """Lifetime in seconds of nodes that are provisioned for one queued workload, by pool."""
    compute_domains: bool
    """Whether the DRA driver is installed on nodes that are connected by NVLink."""


def plan(
    context: CompleteContext,
    available: Available,
    queues: QueuesPlan | None,
    storage: StoragePlan,
) -> Decided[tuple[TeamWorkloadsPlan, ...]]:
    """Return the workloads of each team in a valid environment. Teams that declare no workloads are left out."""
    environment = context.environment
    planned = [
        _plan(team, available, environment, queue_of(team.name, queues.teams if queues else ()), queues, storage)
        for team in environment.teams
    ]
    return _together(planned, available, storage)


def plan_one(
    team: Team,
    environment: Environment,
    available: Available,
    queued: Sequence[TeamQueuePlan],
    queues: QueuesPlan | None,
    storage: StoragePlan,
    volumes: tuple[VolumePlan, ...],
) -> Decided[tuple[TeamWorkloadsPlan, ...]]:
    """Return the workloads of a team with a separate stack. `queues` and `storage` belong to its environment."""
    own = replace(storage, volumes=volumes)
    planned = [_plan(team, available, environment, queue_of(team.name, queued), queues, own)]
    return _together(planned, available, own)


def workloads_of(namespace: str, workloads: Iterable[TeamWorkloadsPlan]) -> TeamWorkloadsPlan | None:
    """Return the workloads that the team of a namespace runs in addition to its Deployments, or None."""
    return next((one for one in workloads if one.namespace == namespace), None)


def _together(
    planned: Sequence[Decided[TeamWorkloadsPlan]], available: Available, storage: StoragePlan
) -> Decided[tuple[TeamWorkloadsPlan, ...]]:
    kept = tuple(one.value for one in planned if any(True for _ in one.value.all_pods))
    of_teams = (one for each in planned for one in each.decisions)
    return Decided(kept, (*of_teams, *disk_decisions(kept, available.pools, disk_classes(storage))))


def _plan(
    team: Team,
    available: Available,
    environment: Environment,
    queue: TeamQueuePlan | None,
    queues: QueuesPlan | None,
    storage: StoragePlan,
) -> Decided[TeamWorkloadsPlan]:
    of = _TeamContext(
        team=team,
        available=available,
        addons=environment.addons,
        volumes={one.name: one for one in storage.volumes if one.namespace == team.name},
        levels=levels_of(queues if queue is not None else None),
        classes={one.name: one.shared for one in storage.classes},
        provisioned=provisioned_by(queues if queue is not None else None),
        compute_domains=environment.operator.compute_domains is not False,
    )
    plan = TeamWorkloadsPlan(
        namespace=team.name,
        training_jobs=tuple(_training(job, of) for job in team.training_jobs),
        inference_services=tuple(_service(service, of) for service in team.inference_services),
        ray_clusters=tuple(_ray(cluster, of) for cluster in team.ray_clusters),
        notebooks=tuple(_notebook(notebook, of) for notebook in team.notebooks),
        batch_jobs=tuple(_batch(batch, of) for batch in team.batch_jobs),
    )
    asked = StatementContext(
        team=team,
        available=available,
        addons=environment.addons,
        volumes=of.volumes,
        levels=of.levels,
        queue=queue,
        disks=disk_classes(storage),
    )
    decisions = (
        *entry_decisions(plan, asked),
        *cpu_decisions(team, available),
        *ending_decisions(team, available),
        *metric_decisions(team),
        *_mps_users(plan, team, available),
        *network_decisions(plan, environment, available),
    )
    return Decided(plan, decisions)


def _mps_users(plan: TeamWorkloadsPlan, team: Team, available: Available) -> Iterator[Decision]:
    """Yield a warning for each pool where pods of several users could share a GPU's MPS server, although the
    server serves only one user at a time.

    Source: NVIDIA, Multi-Process Service, Client-Server Architecture (other users wait); read 2026-11-29.
    """
    entries = [(one.pool, one.run_as_user, one.name) for one in team.workloads]
    entries += [(one.workload.pool, one.workload.run_as_user, one.workload.name) for one in plan.all_pods]
    for pool in available.pools:
        users: dict[int, list[str]] = {}
        for _, user, name in (one for one in entries if one[0] == pool.name and pool.sharing.mode == "mps"):
            if user is not None:
                users.setdefault(user, []).append(name)
        if len(users) > 1:
            yield Decision(
                subject=f"team {team.name}",
                what=f"warning: users on pool {pool.name}",
                chosen="; ".join(f"{user}: {', '.join(sorted(names))}" for user, names in sorted(users.items())),
                why="the MPS server of a GPU serves only one user; pods of a second user on the GPU wait until "
                "the first user's pods have finished, and failing probes stop them; write the same "
                "run_as_user for all of the team's workloads on the pool",
            )


def provisioned_by(queues: QueuesPlan | None) -> Mapping[str, int]:
    """Return the lifetime in seconds of nodes that are provisioned for one workload, by pool."""
    return {} if queues is None else {one.pool: one.request.node_seconds for one in queues.provisioning}


def node_seconds(deadline: int, most: int | None) -> int | None:
    """Return how long the nodes must live for a workload that ends after `deadline` seconds.

    They must live longer than the workload runs, because the nodes first boot and pull its image. `most` is the
    maximum lifetime of the nodes, or None if they are not provisioned for the workload.
    """
    return None if most is None else min(deadline + NODE_START_SECONDS, most)


def levels_of(queues: QueuesPlan | None) -> Mapping[str, tuple[str, ...]]:
    """Return the topology levels of nodes by pool, from the widest to the narrowest level."""
    if queues is None:
        return {}
    topologies = {one.name: one.levels for one in queues.topologies}
    return {
        flavor.pool: topologies[flavor.topology]
        for flavor in queues.flavors
        if flavor.pool is not None and flavor.topology is not None
    }


# -- pods -------------------------------------------------------------------------------------------------


def _pod(
    name: str,
    requested: RequestedResources,
    settings: ContainerSettings,
    image: str,
    command: tuple[str, ...],
    pods: int,
    of: _TeamContext,
    *,
    together: bool = False,
) -> PodPlan:
    """Return the pods of a declared workload. `together` means that the pods communicate between nodes."""
    spec = as_workload(name, requested, pods, of.available, of.team)
    planned = plan_workload(spec, of.team, of.available, image)
    pool = next(one for one in of.available.pools if one.name == planned.pool)
    workload = replace(
        planned,
        image=image,
        command=command,
        run_as_user=settings.run_as_user,
        shared_memory=requested.shared_memory or _shared_memory(planned, pool),
        compute_domain=channel_of(name) if together and _shares_nvlink(planned, pool, of) else None,
    )
    fabric = plan_pod_fabric(workload, pool, of.available.catalog) if together else None
    granted = granted_environment(workload, pool, of.available.catalog, fabric, together=together)
    if fabric is not None and pool.cloud_nodes.node_fabric is None:
        # Keep the order of the variables of 0.2.0, because another order would replace running Jobs.
        granted, fabric = {**granted, **fabric.env}, replace(fabric, env={})
    return PodPlan(
        workload=workload,
        env={**granted, **settings.env},
        secrets=settings.secrets,
        mounts=_mounts(settings.volumes, of),
        fabric=fabric,
    )


def _shares_nvlink(workload: WorkloadPlan, pool: PoolPlan, of: _TeamContext) -> bool:
    """Return whether NVLink connects the nodes of a pool and the pods use whole nodes."""
    return (
        of.compute_domains
        and pool.nvlink_domain is not None
        and pool.nodes.ownership != "created"
        and workload.units == pool.gpus_per_node
    )


def _shared_memory(workload: WorkloadPlan, pool: PoolPlan) -> str | None:
    """Return the size of /dev/shm in a pod with GPUs. It is a quarter of the pod's memory, for data loaders and
    NCCL.
    """
    if not workload.units or pool.mounts_shared_memory:
        return None
    return f"{int(parse_quantity(workload.memory)) // (4 * 2**20)}Mi"


def _mounts(volumes: Mapping[str, str], of: _TeamContext) -> tuple[MountPlan, ...]:
    return tuple(
        MountPlan(
            name=name,
            path=path,
            claim=name,
            read_only=of.volumes[name].read_only,
            sidecar=of.volumes[name].sidecar,
        )
        for name, path in volumes.items()
    )


def _with_kept(
    pod: PodPlan, kept: KeptDirectory | None, claim: str, of: _TeamContext, *, shared: bool
) -> tuple[PodPlan, KeptClaimPlan | None]:
    """Return a pod that mounts its directory for checkpoints or notebook files. If the workload creates a claim
    for this directory, also return the claim.
    """
    if kept is None:
        return pod, None
    if kept.volume is not None:
        mounts = [one for one in pod.mounts if one.claim != kept.volume]
        sidecar = of.volumes[kept.volume].sidecar
        mount = MountPlan(name=kept.volume, path=kept.directory, claim=kept.volume, sidecar=sidecar)
        return replace(pod, mounts=(*mounts, mount)), None
    mount = MountPlan(name=claim, path=kept.directory, claim=claim)
    made = KeptClaimPlan(
        name=claim,
        storage_class=kept.storage_class,
        size=str(kept.size),
        shared=shared or of.classes.get(kept.storage_class or "", False),
    )
    return replace(pod, mounts=(*pod.mounts, mount)), made


def _with_scratch(pod: PodPlan, of: _TeamContext) -> PodPlan:
    """Return a pod that mounts a directory on its node's local NVMe disks, if there are any."""
    pool = next(one for one in of.available.pools if one.name == pod.workload.pool)
    scratch = scratch_of(pod, pool)
    if scratch is None:
        return pod
    return replace(pod, mounts=(*pod.mounts, scratch), env={SCRATCH_VARIABLE: scratch.path, **pod.env})


def _until(pod: PodPlan, deadline: int, of: _TeamContext) -> PodPlan:
    """Return a pod that is terminated after `deadline` seconds, with annotations that keep its nodes until
    then.
    """
    pool = next(one for one in of.available.pools if one.name == pod.workload.pool)
    return replace(
        pod,
        annotations={**pod.annotations, **pool.keeping_annotations},
        node_seconds=node_seconds(deadline, of.provisioned.get(pool.name)),
    )


def _seconds(duration: str) -> int:
    return int(parse_duration(duration))


# -- entries ----------------------------------------------------------------------------------------------


def checkpoints_claim(job: TrainingJob) -> str:
    """Return the name of the claim that a training job creates for its checkpoints."""
    return f"{job.name}-checkpoints"


def home_claim(notebook: Notebook) -> str:
    """Return the name of the claim that a notebook creates for its files."""
    return f"{notebook.name}-home"


def _training(job: TrainingJob, of: _TeamContext) -> TrainingJobPlan:
    several = job.replicas > 1
    pod = _pod(job.name, job, job, job.image, job.command, job.replicas, of, together=several)
    pod, claim = _with_kept(pod, job.checkpoints, checkpoints_claim(job), of, shared=several)
    env, kept = dict(pod.env), _NOT_KEPT
    if job.checkpoints is not None:
        env[_CHECKPOINTS_VARIABLE] = job.checkpoints.directory
        kept = f"claim {job.checkpoints.volume or checkpoints_claim(job)}, {job.checkpoints.directory}"
    annotations = {names.CHECKPOINTS_ANNOTATION: kept, **_topology(job, pod, of)}
    grace = _seconds(job.grace)
    pool = next(one for one in of.available.pools if one.name == pod.workload.pool)
    env = {GRACE_VARIABLE: str(notice_seconds(pool, grace)), **env}
    pod = _with_scratch(replace(pod, env=env, annotations=annotations, grace_seconds=grace), of)
    return TrainingJobPlan(
        pod=_until(pod, _seconds(job.deadline), of),
        api=api_of(job, of.addons),
        processes=job.processes or processes_of(pod.workload),
        retries=job.retries,
        stop_on=tuple(sorted(set(job.stop_on))),
        interrupted_on=tuple(sorted(set(job.interrupted_on))),
        deadline_seconds=_seconds(job.deadline),
        claim=claim,
    )


def processes_of(workload: WorkloadPlan) -> int:
    """Return the number of processes in a training pod: one per GPU, or a single process if the pod has a MIG
    instance or a share.
    """
    return workload.units if workload.resource in (names.GPU_RESOURCE, names.GPU_DEVICE_CLASS) else 1


def api_of(job: TrainingJob, addons: Addons) -> TrainingApi:
    """Return the kind of Kubernetes object that runs a job."""
    if job.api is not None:
        return job.api
    return "trainjob" if addons.trainer else "jobset" if addons.jobset else "job"


def _topology(job: TrainingJob, pod: PodPlan, of: _TeamContext) -> Mapping[str, str]:
    """Return the annotation that makes Kueue start the pods on nodes that are close to each other.

    It names the narrowest level that contains several nodes. If no domain of a preferred level has enough free
    capacity, Kueue uses a wider level.
    """
    return topology_annotation(of.levels.get(pod.workload.pool, ()), job.replicas, job.topology or "preferred")


def topology_annotation(
    levels: Sequence[str], pods: int, choice: Literal["required", "preferred", "unconstrained"] = "preferred"
) -> Mapping[str, str]:
    """Return the annotation for pods that start together on nodes with a topology. `levels` starts with the widest
    level.
    """
    if pods == 1 or not levels:
        return {}
    if choice == "unconstrained":
        return {names.TOPOLOGY_ANNOTATIONS[choice]: "true"}
    return {names.TOPOLOGY_ANNOTATIONS[choice]: closest_level(levels) or levels[-1]}


def _service(service: InferenceService, of: _TeamContext) -> InferenceServicePlan:
    pods, several = service.replicas * service.nodes, service.nodes > 1
    pod = _pod(service.name, service, service, service.image, service.command, pods, of, together=several)
    near = topology_annotation(of.levels.get(service.pool, ()), service.nodes)
    if near:  # otherwise Kueue might place the leader far from the workers of a replica
        near = {**near, _POD_GROUP_ANNOTATION: service.name}
    scaling = service.autoscaling
    return InferenceServicePlan(
        pod=replace(pod, grace_seconds=_seconds(service.grace), annotations=near),
        replicas=service.replicas,
        nodes=service.nodes,
        port=service.port,
        health_path=service.health_path,
        startup_seconds=_seconds(service.startup),
        autoscaling=None
        if scaling is None
        else AutoscalingPlan(
            min_replicas=service.replicas,
            max_replicas=scaling.max_replicas,
            server=scaling.server or PROMETHEUS,
            query=scaling.query or "",
            threshold=f"{scaling.threshold:g}" if scaling.threshold is not None else "",
            cool_down_seconds=_seconds(scaling.cool_down),
            kafka=_kafka(scaling.kafka) if scaling.kafka is not None else {},
            kafka_authentication=(scaling.kafka.authentication if scaling.kafka is not None else None) or "",
        ),
        route=None if service.route is None else _route(service.route, of),
    )


def _route(route: Route, of: _TeamContext) -> RoutePlan:
    namespace, _, gateway = route.gateway.partition("/")
    timeout = route.timeout or (_LONGEST_ANSWER if of.addons.gateway == "install" else None)
    return RoutePlan(
        gateway_namespace=namespace,
        gateway=gateway,
        hostname=route.hostname,
        path=route.path,
        timeout_seconds=None if timeout is None else _seconds(timeout),
    )


def _kafka(lag: KafkaLag) -> dict[str, str]:
    """Return the metadata of KEDA's Kafka trigger. If the lag is unknown, KEDA reports an error instead of a lag
    of 0.
    """
    return {
        "bootstrapServers": ",".join(lag.servers),
        "consumerGroup": lag.consumer_group,
        "topic": lag.topic,
        "lagThreshold": str(lag.lag),
        # A consumer group cannot use more replicas than the topic has partitions.
        "allowIdleConsumers": "false",
    }


def _notebook(notebook: Notebook, of: _TeamContext) -> NotebookPlan:
    image = notebook.image or of.available.catalog.images[NOTEBOOK_IMAGE].reference
    pod = _pod(notebook.name, notebook, notebook, image, notebook.command, 1, of)
    if notebook.home is None:
        pod = replace(pod, mounts=(*pod.mounts, MountPlan(name="home", path=_HOME)))
    pod, claim = _with_kept(pod, notebook.home, home_claim(notebook), of, shared=False)
    kept = "none: files end with the pod" if notebook.home is None else f"files in {notebook.home.directory}"
    return NotebookPlan(
        pod=_until(
            replace(pod, annotations={names.CHECKPOINTS_ANNOTATION: kept}), _seconds(notebook.deadline), of
        ),
        home=_HOME if notebook.home is None else notebook.home.directory,
        idle_seconds=_seconds(notebook.idle),
        deadline_seconds=_seconds(notebook.deadline),
        claim=claim,
    )


def _batch(batch: BatchJob, of: _TeamContext) -> BatchJobPlan:
    pod = _pod(batch.name, batch, batch, batch.image, batch.command, batch.at_once, of)
    levels = of.levels.get(batch.pool, ())
    anywhere = topology_annotation(levels, batch.at_once, "unconstrained")
    pod = replace(pod, annotations={names.CHECKPOINTS_ANNOTATION: "none: each part begins anew", **anywhere})
    return BatchJobPlan(
        pod=_until(_with_scratch(pod, of), _seconds(batch.deadline), of),
        parts=batch.parts or batch.replicas,
        retries=batch.retries,
        stop_on=tuple(sorted(set(batch.stop_on))),
        deadline_seconds=_seconds(batch.deadline),
        schedule=None if batch.schedule is None else re.sub(r"\s+", " ", batch.schedule),
    )


def _ray(cluster: RayCluster, of: _TeamContext) -> RayClusterPlan:
    mounts = _mounts(cluster.volumes, of)
    return RayClusterPlan(
        name=cluster.name,
        recreates=of.addons.kuberay == "install",
        version=cluster.version,
        head=PodPlan(workload=_head(cluster, of), env=cluster.env, secrets=cluster.secrets, mounts=mounts),
        workers=tuple(
            RayWorkersPlan(
                name=workers.name,
                pod=_ray_workers(cluster, workers, of),
                gpus=workers.gpus,
                object_store=_object_store(workers, of),
            )
            for workers in cluster.workers
        ),
    )


def _ray_workers(cluster: RayCluster, workers: RayWorkers, of: _TeamContext) -> PodPlan:
    pods, name = workers.replicas, f"{cluster.name}-{workers.name}"
    pod = _pod(name, workers, cluster, cluster.image, (), pods, of, together=pods > 1)
    if workers.shared_memory is None and pod.workload.shared_memory is not None:
        # Ray's object store uses 30 % of the memory. If /dev/shm is smaller, the object store is on the disk.
        # Source: ray-project/ray, determine_plasma_store_config in ray/_private/services.py; read 2026-11-30.
        pod = replace(pod, workload=replace(pod.workload, shared_memory=pod.workload.memory))
    levels = of.levels.get(workers.pool, ()) if pod.workload.units else ()
    return replace(pod, annotations=topology_annotation(levels, pods))


def _object_store(workers: RayWorkers, of: _TeamContext) -> str | None:
    """Return the directory of Ray's object store, or None for /dev/shm.

    KubeRay mounts /dev/shm unless the directory is set. On a pool with MPS, this mount would hide the /dev/shm of
    the MPS daemon. Source: ray-project/kuberay v1.7.0, BuildPod in ray-operator/controllers/ray/common/pod.go.
    """
    pool = next(one for one in of.available.pools if one.name == workers.pool)
    return "/tmp" if pool.mounts_shared_memory else None  # noqa: S108 - a directory of the container


def _head(cluster: RayCluster, of: _TeamContext) -> WorkloadPlan:
    head = cluster.head
    if head.pool is not None:
        planned = plan_workload(head_as_workload(cluster.name, head), of.team, of.available, cluster.image)
        return replace(planned, image=cluster.image, run_as_user=cluster.run_as_user)
    return WorkloadPlan(
        name=f"{cluster.name}-head",
        pool="",
        replicas=1,
        image=cluster.image,
        command=(),
        resource="",
        units=0,
        cpu=head.cpu,
        memory=head.memory,
        priority_class=of.team.priority,
        node_selector={},
        tolerations=(),
        run_as_user=cluster.run_as_user,
    )

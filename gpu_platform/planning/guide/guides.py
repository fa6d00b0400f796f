"""Plans the guides for the teams of an environment, and for one team with a separate stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_platform.base import names
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.clouds.storage import StorageClassPlan, StoragePlan, VolumePlan
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.guide.examples import plan_examples
from gpu_platform.planning.guide.section import ExamplePlan, GuideCleanup, GuidePlan, GuidePool, GuideVolume
from gpu_platform.planning.pools import numa
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues import queue_of
from gpu_platform.planning.queues.section import QueuesPlan, TeamQueuePlan
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.workloads import (
    TeamWorkloadsPlan,
    levels_of,
    plan_pod_fabric,
    provisioned_by,
    topology_annotation,
    workloads_of,
)
from gpu_platform.stack.operations import Cleanup
from gpu_platform.stack.team import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedPlatform:
    """Facts about the platform for the team guides. `queues` are the environment's queues, and `volumes` are the
    volumes of all teams.
    """

    cloud: Cloud
    available: Available
    queues: QueuesPlan | None
    classes: Sequence[StorageClassPlan]
    volumes: Sequence[VolumePlan]


def plan(
    context: CompleteContext,
    available: Available,
    teams: Sequence[TeamPlan],
    queues: QueuesPlan | None,
    storage: StoragePlan,
    run: Sequence[TeamWorkloadsPlan] = (),
) -> tuple[GuidePlan, ...]:
    """Return the guides for the teams of a valid environment."""
    cleanup = _cleanup(context.environment.cleanup)
    platform = GuidedPlatform(
        cloud=context.cloud, available=available, queues=queues, classes=storage.classes, volumes=storage.volumes
    )
    return tuple(
        replace(
            _plan(
                team,
                team_plan,
                queue_of(team.name, queues.teams) if queues is not None else None,
                workloads_of(team.name, run),
                platform,
            ),
            cleanup=cleanup,
        )
        for team, team_plan in zip(context.environment.teams, teams, strict=True)
    )


def plan_one(
    team: Team,
    team_plan: TeamPlan,
    queues: Sequence[TeamQueuePlan],
    run: Sequence[TeamWorkloadsPlan],
    platform: GuidedPlatform,
) -> GuidePlan:
    """Return the guide for the team of a separate stack. `queues` and `run` contain only this team's plans."""
    return _plan(team, team_plan, queue_of(team.name, queues), workloads_of(team.name, run), platform)


def _cleanup(cleanup: Cleanup | None) -> GuideCleanup | None:
    if cleanup is None:
        return None
    return GuideCleanup(
        delete=cleanup.delete, finished_after=cleanup.finished_after, idle_after=cleanup.idle_after
    )


def guide_of(namespace: str, guides: Sequence[GuidePlan]) -> GuidePlan | None:
    """Return the guide for a namespace, or None if the namespace has no guide."""
    return next((guide for guide in guides if guide.namespace == namespace), None)


def _pool_by_flavor(queues: QueuesPlan | None) -> Mapping[str, str]:
    return {one.name: one.pool for one in queues.flavors if one.pool is not None} if queues is not None else {}


def _plan(
    team: Team,
    team_plan: TeamPlan,
    queue: TeamQueuePlan | None,
    run: TeamWorkloadsPlan | None,
    platform: GuidedPlatform,
) -> GuidePlan:
    queues, available, classes = platform.queues, platform.available, platform.classes
    pods = run.all_pods if run is not None else ()
    declared = replace(team_plan, workloads=(*team_plan.workloads, *(pod.workload for pod in pods)))
    examples, missing = plan_examples(team, declared, queue, _pool_by_flavor(queues), available)
    own_queues = queues if queue is not None else None
    levels, provisioned = levels_of(own_queues), provisioned_by(own_queues)
    examples = [replace(one, node_seconds=provisioned.get(one.workload.pool)) for one in examples]
    own = [one for one in platform.volumes if one.namespace == team.name]
    return GuidePlan(
        namespace=team.name,
        cluster=platform.cloud.cluster.name,
        login=platform.cloud.logins.commands(team.everybody),
        simulated=platform.cloud.access == "sandbox",
        priority=team.priority,
        pools=tuple(
            _pool(pool, team_plan, queue, available)
            for pool in available.pools
            if _granted(pool, team_plan, queue)
        ),
        examples=tuple(_with_checkpoints(_together(one, levels, available), classes, own) for one in examples),
        missing=missing,
        volumes=tuple(
            GuideVolume(
                claim=one.name,
                source=one.source,
                read_only=one.read_only,
                annotations={} if one.sidecar is None else one.sidecar.pod_annotations,
            )
            for one in own
        ),
        storage_classes=tuple(one.name for one in classes),
    )


def _granted(pool: PoolPlan, team: TeamPlan, queue: TeamQueuePlan | None) -> bool:
    """Return whether the team may use at least one resource of a pool. CPU pools are open to all teams."""
    if pool.has_gpus and queue is not None:
        return any(flavor.pool == pool.name for flavor in queue.flavors)
    devices = any(
        key.endswith(names.DEVICE_QUOTA_SUFFIX) and quantity != "0" for key, quantity in team.quota.items()
    )
    return (
        not pool.has_gpus
        or (bool(pool.devices) and devices)
        or any(_may_use(offer.name, pool, team, queue) for offer in pool.resources)
    )


def _may_use(resource: str, pool: PoolPlan, team: TeamPlan, queue: TeamQueuePlan | None) -> bool:
    """Return whether the team has quota for a resource, or may borrow quota for it. If the team uses queues, the
    answer depends on the pool.
    """
    if queue is not None:
        return any(flavor.pool == pool.name and flavor.serves(resource) for flavor in queue.flavors)
    return team.quota.get(names.quota_key(resource), "0") != "0"


def _pool(pool: PoolPlan, team: TeamPlan, queue: TeamQueuePlan | None, available: Available) -> GuidePool:
    nodes = numa.of_pool(pool, available.catalog)
    single = pool.sharing.mode in ("time-slicing", "mps", "mig")
    return GuidePool(
        name=pool.name,
        workload=pool.workload,
        machine_type=pool.machine_type,
        gpu=pool.gpu_product,
        gpu_memory_mib=pool.gpu_memory_mib,
        nodes_max=pool.nodes.max,
        capacity=str(pool.capacity.get("type", "on-demand")),
        resources={
            offer.name: 1 if single else offer.per_node
            for offer in pool.resources
            if _may_use(offer.name, pool, team, queue)
        },
        node_selector=pool.node_selector,
        tolerations=pool.all_taints,
        schedule=pool.schedule,
        aligned=None if nodes is None or single else (max(nodes.gpus), nodes.cpus),
    )


def _together(example: ExamplePlan, levels: Mapping[str, tuple[str, ...]], available: Available) -> ExamplePlan:
    """Return an example with its pod annotations. A training job also gets the network settings of its pods."""
    workload = example.workload
    if example.kind == "inference":
        return example
    pool = next(one for one in available.pools if one.name == workload.pool)
    training = example.kind == "training"
    near = topology_annotation(
        levels.get(workload.pool, ()), workload.replicas, "preferred" if training else "unconstrained"
    )
    several = training and workload.replicas > 1
    return replace(
        example,
        annotations={**near, **pool.keeping_annotations},
        fabric=plan_pod_fabric(workload, pool, available.catalog) if several else None,
    )


def _with_checkpoints(
    example: ExamplePlan, classes: Sequence[StorageClassPlan], volumes: Sequence[VolumePlan]
) -> ExamplePlan:
    """Return a training job with storage for its checkpoints: one of the team's volumes, or else a new claim."""
    if example.kind != "training":
        return example
    # A pod needs more than the claim to use a volume that a sidecar mounts.
    mounted = [one for one in volumes if example.workload.pool not in one.unable and not one.in_pod]
    volume = next((one.name for one in mounted if not one.read_only), None)
    if volume is not None:
        return replace(example, volume=volume)
    several = example.workload.replicas > 1
    made = [one for one in classes if example.workload.pool not in one.unable]
    fitting = [one for one in made if one.shared or not several]
    chosen = next((one for one in fitting if one.default), next(iter(fitting), None))
    if chosen is None:
        return example
    return replace(example, storage_class=chosen.name, shared=several, smallest_claim=chosen.smallest)

"""Check the declared workloads of teams, with their pods and requirements."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from gpu_platform.base.errors import did_you_mean
from gpu_platform.base.quantity import parse_duration, parse_quantity
from gpu_platform.catalog.pod_limits import LONGEST_PIN_SECONDS
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.clouds.storage import MountProblem
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.queues.topology import closest_level, is_topology_aware, unsuitable
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.declared_pods import DeclaredPods, declared_pods
from gpu_platform.planning.workloads.alignment import check_alignment
from gpu_platform.planning.workloads.cron_times import cron_in, cron_times
from gpu_platform.planning.workloads.object_quota import check_object_quota
from gpu_platform.planning.workloads.plans import api_of
from gpu_platform.planning.workloads.pool_capacity import pods_at_once, pool_capacity
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.queueing import Queueing
from gpu_platform.stack.storage import BucketStorage, ClaimableStorage, DiskStorage, TeamStorage
from gpu_platform.stack.team import Team
from gpu_platform.stack.team_workloads import (
    BatchJob,
    ContainerSettings,
    InferenceService,
    KeptDirectory,
    Notebook,
    RayCluster,
    RequestedResources,
    TrainingJob,
)

_Entry: TypeAlias = TrainingJob | InferenceService | RayCluster | Notebook | BatchJob

_LONGEST_NAME = 48
_RELAXED_SERVICES = 36
"""The minor version of Kubernetes that first allows Service names to begin with a digit."""
_LONGEST_COOL_DOWN = 3600
"""Maximum of stabilizationWindowSeconds in seconds (autoscaling/v2)."""
_LONGEST_ANSWER = 24 * 3600
"""Maximum response time in seconds. A Gateway API duration has at most five digits (GEP-2257, read 2026-11-28)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Storage:
    """The storage that one team can use in its environment.

    `known` indicates whether the stack file names all storage classes. If not, the cluster's owner may have
    created other storage classes. `declared` contains the storage classes that the stack file can change.
    """

    volumes: Mapping[str, TeamStorage]
    classes: Mapping[str, ClaimableStorage]
    known: bool
    declared: Collection[str]

    @property
    def default(self) -> str | None:
        """Name of the cluster's default storage class if it is one of these classes, or None."""
        of_disks = ((name, one) for name, one in self.classes.items() if isinstance(one, DiskStorage))
        return next((name for name, one in of_disks if one.default), None)


def check(context: CompleteContext, available: Available) -> None:
    """Record problems with the declared workloads of an environment's teams."""
    cloud = context.cloud
    for index, team in enumerate(context.environment.teams):
        storage = _storage_of(team, context.environment, cloud, available, own_stack=False)
        _check(team, context.environment, available, cloud, storage, context.problems.at(f"teams[{index}]"))


def check_one(
    team: Team, environment: Environment, available: Available, cloud: Cloud, problems: Problems
) -> None:
    """Record problems with the declared workloads of a team with a separate stack."""
    storage = _storage_of(team, environment, cloud, available, own_stack=True)
    _check(team, environment, available, cloud, storage, problems.at("team"))


def _storage_of(
    team: Team, environment: Environment, cloud: Cloud, available: Available, *, own_stack: bool
) -> _Storage:
    declared = environment.storage
    return _Storage(
        volumes={
            name: one
            for name, one in declared.items()
            if isinstance(one, TeamStorage)
            and (team.name in one.team_stacks if own_stack else one.teams is None or team.name in one.teams)
        },
        classes={
            **{name: one for name, one in declared.items() if not isinstance(one, TeamStorage)},
            **cloud.storage.own_classes(declared, available.pools, available.catalog),
        },
        known=cloud.creates_nodes,
        declared=declared,
    )


def _check(
    team: Team,
    environment: Environment,
    available: Available,
    cloud: Cloud,
    storage: _Storage,
    problems: Problems,
) -> None:
    declared = declared_pods(team, available)
    for one in declared:
        _check_room(one, team, available, problems.at(one.path), queues=environment.queueing is not None)
        check_alignment(one, team, available, problems.at(one.path))
    _check_fabric(team, available, problems)
    for index, job in enumerate(team.training_jobs):
        _check_training(job, environment, available, storage, problems.at(f"training_jobs[{index}]"))
        _check_exit_codes(job, problems.at(f"training_jobs[{index}]"))
        pods = next(one for one in declared if one.path == f"training_jobs[{index}]")
        _check_topology(job, pods, team, environment.queueing, available, cloud, problems.at(pods.path))
    for index, service in enumerate(team.inference_services):
        _check_service(service, team, environment, problems.at(f"inference_services[{index}]"))
    for index, notebook in enumerate(team.notebooks):
        if notebook.home is not None:
            here = problems.at(f"notebooks[{index}]").at("home")
            _check_kept(notebook.home, storage, here, shared=False)
    for index in range(len(team.ray_clusters)):
        if environment.addons.kuberay is None:
            problems.at(f"ray_clusters[{index}]").add(
                "a Ray cluster", "Ray clusters with KubeRay", "write `addons: {kuberay: install}`"
            )
    for field, index, entry in _entries(team):
        if len(entry.name) > _LONGEST_NAME:
            problems.at(f"{field}[{index}]").at("name").add(
                f"{entry.name!r}, {len(entry.name)} characters",
                f"at most {_LONGEST_NAME}, because Jobs, pods and claims append to it and allow 63 characters",
                "shorten it",
            )
        if entry.name[0].isdigit() and (kind := _needs_letter(entry, environment)):
            problems.at(f"{field}[{index}]").at("name").add(
                repr(entry.name),
                f"a name that begins with a letter, as {kind} requires",
                f"for example, write m{entry.name}",
            )
        _check_volumes(entry.volumes, storage, problems.at(f"{field}[{index}]").at("volumes"))
    _check_sidecars(team, storage, declared, cloud, problems)
    _check_claims(team, storage, available, cloud, problems)
    _check_mounts(team, storage, declared, available, cloud, problems)
    check_object_quota(team, storage.volumes, environment.addons, problems)
    _check_shared_memory(team, available, problems)
    _check_deadlines(team, available, problems)
    if environment.queueing is None:
        _check_starts(team, available, problems)


def _needs_letter(entry: ContainerSettings, environment: Environment) -> str:
    """Return the kind of object that a declared workload creates and whose name must not begin with a digit.
    Return an empty string if the workload creates no such object.

    Sources: kubernetes/enhancements, KEP-5311 (names of Services); kubernetes/kubernetes#96147; 2026-11-28.
    """
    if isinstance(entry, RayCluster):
        return "a RayCluster"
    if isinstance(entry, InferenceService) and entry.nodes > 1:
        return "a LeaderWorkerSet"
    if isinstance(entry, TrainingJob) and (api := api_of(entry, environment.addons)) != "job":
        return "a TrainJob" if api == "trainjob" else "a JobSet"
    kubernetes = environment.cluster.kubernetes
    has_service = isinstance(entry, InferenceService) or (isinstance(entry, TrainingJob) and entry.replicas > 1)
    if has_service and (kubernetes is None or minor(kubernetes) < _RELAXED_SERVICES):
        return "a Service before Kubernetes 1.36"
    return ""


def _check_deadlines(team: Team, available: Available, problems: Problems) -> None:
    """Record a problem for each deadline that is longer than the time for which a pod may keep its node.

    The maximum applies only to pools whose pods keep their nodes until the pods finish.
    """
    kept = {pool.name for pool in available.pools if pool.keeping_annotations}
    for field in ("training_jobs", "notebooks", "batch_jobs"):
        for index, entry in enumerate(getattr(team, field)):
            if entry.pool in kept and parse_duration(entry.deadline) > LONGEST_PIN_SECONDS:
                hours = LONGEST_PIN_SECONDS // 3600
                problems.at(f"{field}[{index}]").at("deadline").add(
                    entry.deadline,
                    f"at most {hours}h on pool {entry.pool}, whose pods keep their nodes until the pods finish",
                    f"write {hours}h or less",
                )


def _check_starts(team: Team, available: Available, problems: Problems) -> None:
    """Record a problem for each scheduled batch job whose deadline always passes before its pool has nodes.

    The time in which pods wait for nodes counts towards the deadline. With queues, a waiting job is suspended, and
    its waiting time does not count towards the deadline.
    """
    pools = {pool.name: pool.schedule for pool in available.pools if pool.schedule is not None}
    for index, job in enumerate(team.batch_jobs):
        hours = pools.get(job.pool)
        if hours is None or job.schedule is None:
            continue
        deadline = timedelta(seconds=parse_duration(job.deadline))
        times = cron_times(job.schedule)
        if not any(hours.is_on(time) or hours.starts_next(time) < time + deadline for time in times):
            problems.at(f"batch_jobs[{index}]").at("schedule").add(
                f"{job.schedule!r} with deadline {job.deadline}, on pool {job.pool} with nodes {hours}",
                "start times at which the pool has nodes before the deadline; the wait for nodes counts "
                "towards the deadline",
                f'for example, write schedule: "{cron_in(hours)}" (UTC)',
            )


def _check_exit_codes(job: TrainingJob, here: Problems) -> None:
    """Record a problem for exit codes that would both end the job and restart it."""
    both = sorted(set(job.stop_on) & set(job.interrupted_on))
    if both:
        here.at("interrupted_on").add(
            f"{', '.join(map(str, both))}, which stop_on contains too",
            "each exit code in only one list; stop_on ends the job, interrupted_on starts it again",
            "remove it from one of the lists",
        )


def _check_room(one: DeclaredPods, team: Team, available: Available, here: Problems, *, queues: bool) -> None:
    """Record a problem for pods that must run at the same time but never fit on the pool's nodes together."""
    pool = next((pool for pool in available.pools if pool.name == one.spec.pool), None)
    if pool is None or one.path.startswith("workloads"):
        return  # other checks refuse pods without a known pool, and pods of `workloads`
    if pool.has_gpus and pool.devices and one.spec.claim is None:
        return
    place = here.at("replicas")
    if any(problem.path == place.path for problem in here.found):
        return  # another check refuses a fixed-size pool that has too few GPUs or devices
    room, at_once = pool_capacity(one, team, pool, available), pods_at_once(one, queues=queues)
    if at_once > room.most > 0:
        place.add(
            f"{at_once} pods at the same time",
            f"at most {room.most} ({room.on_node} on each of the {room.nodes} nodes that pool "
            f"{pool.name} may have)",
            f"lower replicas or the requests of each pod, or raise the pool's count.{room.limit}",
        )


def _check_fabric(team: Team, available: Available, problems: Problems) -> None:
    """Record a problem for pods that cannot communicate between nodes over the GPU NICs of their pool."""
    declared = {one.path: one.spec for one in declared_pods(team, available)}
    for path, several, entry in _on_several_nodes(team):
        spec = declared[path]
        of_entry = problems.at(path.partition(".")[0])
        pool = next((pool for pool in available.pools if pool.name == spec.pool), None)
        node = pool.cloud_nodes.node_fabric if pool is not None else None
        if not several or pool is None or node is None or spec.gpus != pool.gpus_per_node:
            continue
        fact, here = available.catalog.fabric_pods[node.name], problems.at(path)
        if fact.daemon is not None:
            for field, needed in (("cpu", fact.daemon.cpu), ("memory", fact.daemon.memory)):
                requested = getattr(spec, field)
                if parse_quantity(requested) <= parse_quantity(needed):
                    here.at(field).add(
                        requested,
                        f"more than {needed}, which {fact.daemon.name} uses in pods on several nodes of "
                        f"pool {pool.name}",
                        "raise it, or leave it out",
                    )
        if isinstance(entry, InferenceService) and not entry.command and fact.profile is not None:
            here.at("command").add(
                f"nothing, with {entry.nodes} nodes of pool {pool.name}",
                f"a command to start after {fact.profile}, which sets NCCL's variables for the GPU NICs",
                "write the command that the image would run",
            )
        for name, directory in entry.volumes.items():
            # The node's libraries are mounted at fixed paths, which a volume of the pod must not overlap.
            taken = next((one for one in fact.mounts if f"{directory}/".startswith(f"{one}/")), None)
            if taken is not None:
                of_entry.at("volumes").at(name).add(
                    f"{directory!r}", f"another directory; {taken} contains the node's libraries", "change it"
                )


def _on_several_nodes(team: Team) -> Iterator[tuple[str, bool, ContainerSettings]]:
    """Yield each training job, inference service and group of Ray workers: its path in the stack file, whether its
    pods communicate between nodes, and its settings.
    """
    for index, job in enumerate(team.training_jobs):
        yield f"training_jobs[{index}]", job.replicas > 1, job
    for index, service in enumerate(team.inference_services):
        yield f"inference_services[{index}]", service.nodes > 1, service
    for index, cluster in enumerate(team.ray_clusters):
        for place, workers in enumerate(cluster.workers):
            yield f"ray_clusters[{index}].workers[{place}]", workers.replicas > 1, cluster


def _check_training(
    job: TrainingJob, environment: Environment, available: Available, storage: _Storage, here: Problems
) -> None:
    addons = environment.addons
    needed = {"jobset": addons.jobset or addons.trainer, "trainjob": addons.trainer}
    if job.api in needed and needed[job.api] is None:
        name = "trainer" if job.api == "trainjob" else "jobset"
        here.at("api").add(
            f"{job.api!r}", "an API whose controller is installed", f"write `addons: {{{name}: install}}`"
        )
    pool = next((pool for pool in available.pools if pool.name == job.pool), None)
    if job.checkpoints is not None:
        _check_kept(job.checkpoints, storage, here.at("checkpoints"), shared=job.replicas > 1)
    elif pool is not None and pool.capacity.get("type") == "spot":
        here.at("checkpoints").add(
            f"nothing on pool {pool.name}, whose capacity is spot",
            "training on spot capacity with checkpoints, because its nodes may be reclaimed at any time",
            "name a volume or a storage class in checkpoints, or another pool",
        )
    if job.gpus == 0:
        here.at("gpus").add("0", "1 or more; training without GPUs is a batch job", "write it in batch_jobs")


def _check_topology(
    job: TrainingJob,
    pods: DeclaredPods,
    team: Team,
    queueing: Queueing | None,
    available: Available,
    cloud: Cloud,
    here: Problems,
) -> None:
    """Record a problem for a topology that the queues do not support, or that no nodes of the pool can satisfy."""
    place = here.at("topology")
    if job.topology is None:
        return
    if queueing is None or not is_topology_aware(queueing, available.pools, cloud):
        growing = ", ".join(unsuitable(available.pools, cloud))
        place.add(
            f"{job.topology!r} with " + ("no queues" if queueing is None else "queues that ignore node topology"),
            "topology only with queues that take node topology into account",
            f"remove topology: {growing}" if growing else "write `queueing: {topology: true}`, or remove topology",
        )
        return
    pool = next((pool for pool in available.pools if pool.name == job.pool), None)
    if job.topology == "preferred" or pool is None or closest_level(cloud.pools.topology_levels(pool)) is not None:
        return
    on_node = pool_capacity(pods, team, pool, available).on_node
    if job.replicas > on_node:
        place.add(
            f"'required' for {job.replicas} pods on pool {pool.name}",
            "required only if the cloud labels nodes by their proximity, or one node holds all pods "
            f"(it holds {on_node})",
            "write `topology: preferred`, or remove topology",
        )


def _declared(classes: Collection[str]) -> str:
    names = ", ".join(map(repr, classes))
    return f"a declared storage class ({names or '`storage` has none'})"


def _check_kept(kept: KeptDirectory, storage: _Storage, here: Problems, *, shared: bool) -> None:
    """Record a problem if a directory for checkpoints or notebook files has no storage. `shared` means that pods
    on several nodes write to the directory.
    """
    if kept.volume is not None:
        for field in ("storage_class", "size"):
            if getattr(kept, field) is not None:
                here.at(field).add(f"{field} together with volume", "one of them", f"remove {field}, or volume")
        one = storage.volumes.get(kept.volume)
        if one is None:
            _unknown_volume(kept.volume, storage, here.at("volume"))
        elif not _writable(one):
            here.at("volume").add(
                f"{kept.volume!r}, which pods can only read",
                "a volume that pods can write to",
                "set read_only: false in storage, or name another volume",
            )
        return
    if kept.size is None:
        here.at("size").add("nothing", "the size of the claim, or a volume", "for example, write size: 100Gi")
    name = kept.storage_class
    if name is None:
        if shared:
            classes = [name for name, one in storage.classes.items() if not isinstance(one, DiskStorage)]
            here.at("storage_class").add(
                "no storage class, with several replicas",
                (
                    "a storage class with volumes that pods on several nodes can write to; default classes "
                    "create disks"
                ),
                f"write storage_class: {classes[0]}"
                if classes
                else "declare a class of type nfs or lustre in storage, and name it"
                if storage.known
                else "name one",
            )
        elif storage.known and storage.default is None:
            here.at("storage_class").add(
                "no storage class, but `storage` has no default class",
                "a storage class: " + (", ".join(storage.classes) or "`storage` has none"),
                "name one, or mark a class of type disk as default",
            )
    elif storage.known and name not in storage.classes:
        here.at("storage_class").add(
            f"{name!r}",
            _declared(storage.classes),
            did_you_mean(name, storage.classes) or "declare it in storage",
        )
    elif shared and isinstance(storage.classes.get(name), DiskStorage):
        here.at("storage_class").add(
            f"{name!r}, whose volumes are disks that only one node can attach",
            "a storage class with volumes that pods on several nodes can write to",
            "name a class of type nfs or lustre, or write replicas: 1",
        )


def _check_claims(team: Team, storage: _Storage, available: Available, cloud: Cloud, problems: Problems) -> None:
    """Record a problem for each claim if no node of its pool can mount the volume, or if the cloud does not offer
    the size.
    """
    pools = {pool.name: pool for pool in available.pools}
    kept_by = [
        *(
            (f"training_jobs[{n}].checkpoints", one.pool, one.checkpoints, one.replicas > 1)
            for n, one in enumerate(team.training_jobs)
        ),
        *((f"notebooks[{n}].home", one.pool, one.home, False) for n, one in enumerate(team.notebooks)),
    ]
    for path, pool_name, kept, shared in kept_by:
        if kept is None or kept.volume is not None or pool_name not in pools:
            continue
        name = kept.storage_class or storage.default
        one, pool = storage.classes.get(name or ""), pools[pool_name]
        if one is None:
            continue
        sizes = cloud.storage.claim_sizes(one)
        if kept.size is not None and (made := sizes.next_size(kept.size)) != kept.size:
            multiple = f"a multiple of {sizes.step}"
            if sizes.step in ("", sizes.smallest):
                allowed = multiple if sizes.step else f"{sizes.smallest} or more"
            else:
                allowed = f"{sizes.smallest}, or {multiple}"
            problems.at(path).at("size").add(
                f"{kept.size} of class {name!r}",
                f"{allowed}; the cloud rounds the size of a volume up to this size, and bills it",
                f"write size: {made}, or name a class of type disk",
            )
        problem = cloud.storage.mount_problem(one, pool, available.pools, available.catalog)
        if problem is not None:
            problems.at(path).at("storage_class").add(
                f"{name!r} on pool {pool.name}: {problem.why}",
                f"a storage class with volumes that nodes of pool {pool.name} can mount",
                _other_class(name or "", problem, pool, storage, available, cloud, shared=shared),
            )


def _check_mounts(
    team: Team,
    storage: _Storage,
    declared: Sequence[DeclaredPods],
    available: Available,
    cloud: Cloud,
    problems: Problems,
) -> None:
    """Record a problem if a workload mounts a team volume that the nodes of its pool cannot mount."""

    def unable(one: TeamStorage) -> Mapping[str, str]:
        found = (
            (pool.name, cloud.storage.mount_problem(one, pool, available.pools, available.catalog))
            for pool in available.pools
        )
        return {pool: problem.why for pool, problem in found if problem is not None}

    for field, index, entry in _entries(team):
        path = f"{field}[{index}]"
        runs_on = {one.spec.pool for one in declared if one.path.partition(".")[0] == path}
        for place, name in _mounted(entry):
            problem = unable(storage.volumes[name]) if name in storage.volumes else {}
            others = [pool.name for pool in available.pools if pool.name not in problem]
            for pool in sorted(runs_on & problem.keys()):
                problems.at(path).at(place).add(
                    f"{name!r} on pool {pool}: {problem[pool]}",
                    f"a volume that nodes of pool {pool} can mount",
                    (f"run it on pool {' or '.join(others)}, or " if others else "")
                    + f"name a volume other than {name}",
                )


def _other_class(
    name: str,
    problem: MountProblem,
    pool: PoolPlan,
    storage: _Storage,
    available: Available,
    cloud: Cloud,
    *,
    shared: bool,
) -> str:
    """Return a fix that gives a claim a storage class that the pool can mount. `shared` means that pods on several
    nodes write to the volume.
    """
    if problem.field and name in storage.declared:
        return f"write {problem.field} in storage.{name}, or name another class"
    mounted = [
        other
        for other, one in storage.classes.items()
        if cloud.storage.mount_problem(one, pool, available.pools, available.catalog) is None
        and not (shared and isinstance(one, DiskStorage))
    ]
    if mounted:
        return f"write storage_class: {mounted[0]}"
    return f"declare a class{' of type nfs' if shared else ''} in storage, and name it"


def _writable(one: TeamStorage) -> bool:
    return one.writable if one.type == "bucket" else not one.read_only


def _check_volumes(volumes: Mapping[str, str], storage: _Storage, here: Problems) -> None:
    first: dict[str, str] = {}
    for name, directory in volumes.items():
        if name not in storage.volumes:
            _unknown_volume(name, storage, here.at(name))
        if directory in first:
            here.at(name).add(
                f"{directory!r} again", f"each directory once ({first[directory]} is mounted there)", "change one"
            )
        first.setdefault(directory, name)


def _check_sidecars(
    team: Team, storage: _Storage, declared: Sequence[DeclaredPods], cloud: Cloud, problems: Problems
) -> None:
    """Record a problem for pods whose requests are not larger than the requests of the sidecar that reads their
    buckets.
    """
    sidecar = cloud.storage.bucket_sidecar
    mounting = {
        f"{field}[{index}]"
        for field, index, entry in _entries(team)
        if any(isinstance(storage.volumes.get(name), BucketStorage) for _, name in _mounted(entry))
    }
    for one in declared:
        if sidecar is None or one.path.partition(".")[0] not in mounting:
            continue
        for field, needed in (("cpu", sidecar.cpu), ("memory", sidecar.memory)):
            requested = getattr(one.spec, field)
            if parse_quantity(requested) <= parse_quantity(needed):
                problems.at(one.path).at(field).add(
                    requested,
                    f"more than {needed}, which the container that reads buckets uses",
                    "raise it, or leave it out",
                )


def _mounted(entry: _Entry) -> Iterator[tuple[str, str]]:
    """Yield each volume of `storage` that the pods of a declared workload mount: its path in the workload, and its
    name.
    """
    for name in entry.volumes:
        yield f"volumes.{name}", name
    field, kept = "", None
    if isinstance(entry, TrainingJob):
        field, kept = "checkpoints", entry.checkpoints
    elif isinstance(entry, Notebook):
        field, kept = "home", entry.home
    if kept is not None and kept.volume is not None:
        yield f"{field}.volume", kept.volume


def _entries(team: Team) -> Iterator[tuple[str, int, _Entry]]:
    """Yield each declared workload, with the name of its list in the stack file and its index in the list."""
    fields: Mapping[str, Sequence[_Entry]] = {
        "training_jobs": team.training_jobs,
        "inference_services": team.inference_services,
        "ray_clusters": team.ray_clusters,
        "notebooks": team.notebooks,
        "batch_jobs": team.batch_jobs,
    }
    for field, entries in fields.items():
        for index, entry in enumerate(entries):
            yield field, index, entry


def _unknown_volume(name: str, storage: _Storage, here: Problems) -> None:
    known: Sequence[str] = sorted(storage.volumes)
    here.add(
        f"{name!r}",
        "a volume that `storage` provides for the team: " + (", ".join(known) or "it has none"),
        did_you_mean(name, known) or "declare it in storage, as type bucket or existing",
    )


def _check_shared_memory(team: Team, available: Available, problems: Problems) -> None:
    """Record a problem for a /dev/shm that is not smaller than the pod's memory, or that hides the MPS daemon's
    /dev/shm.
    """
    sizes = {one.path: one.spec.memory for one in declared_pods(team, available)}
    with_mps = {pool.name for pool in available.pools if pool.mounts_shared_memory}
    for path, requested in _requested(team):
        memory = sizes[path]
        if requested.shared_memory is None:
            continue
        if requested.pool in with_mps:
            problems.at(path).at("shared_memory").add(
                f"{requested.shared_memory} on pool {requested.pool}, which shares its GPUs with MPS",
                "no separate /dev/shm; it would hide the /dev/shm that CUDA uses to reach the MPS daemon",
                "remove shared_memory, or name another pool",
            )
            continue
        if parse_quantity(requested.shared_memory) >= parse_quantity(memory):
            problems.at(path).at("shared_memory").add(
                requested.shared_memory,
                f"less than the pod's memory, {memory}, which includes /dev/shm",
                "lower it, or raise memory",
            )


def _requested(team: Team) -> Iterator[tuple[str, RequestedResources]]:
    for field in ("training_jobs", "inference_services", "notebooks", "batch_jobs"):
        yield from ((f"{field}[{index}]", entry) for index, entry in enumerate(getattr(team, field)))
    for index, cluster in enumerate(team.ray_clusters):
        for place, workers in enumerate(cluster.workers):
            yield f"ray_clusters[{index}].workers[{place}]", workers


def _check_service(service: InferenceService, team: Team, environment: Environment, here: Problems) -> None:
    addons = environment.addons
    if service.nodes > 1 and addons.leaderworkerset is None:
        here.at("nodes").add(
            f"{service.nodes} without LeaderWorkerSet",
            "1, or more than 1 with LeaderWorkerSet",
            "write `addons: {leaderworkerset: install}`",
        )
    scaling = service.autoscaling
    if scaling is not None:
        place = here.at("autoscaling")
        if addons.keda is None:
            place.add("autoscaling without KEDA", "autoscaling with KEDA", "write `addons: {keda: install}`")
        if scaling.kafka is not None and "kafka" not in team.scaling.triggers:
            place.at("kafka").add(
                "a Kafka trigger",
                "a trigger that the team's scaling.triggers lists; network policies do not limit KEDA's queries",
                "write scaling: {triggers: [kafka]} in the team",
            )
        if scaling.query is not None and scaling.server is None and addons.prometheus != "install":
            place.at("server").add(
                "nothing", "the address of Prometheus", "write it, or `addons: {prometheus: install}`"
            )
        if parse_duration(scaling.cool_down) > _LONGEST_COOL_DOWN:
            place.at("cool_down").add(
                scaling.cool_down, "at most 1h, the longest window of the HorizontalPodAutoscaler", "write 1h"
            )
        if scaling.max_replicas <= service.replicas:
            place.at("max_replicas").add(
                str(scaling.max_replicas), f"more than replicas, {service.replicas}", "raise it"
            )
    if service.route is not None and addons.gateway is None:
        here.at("route").add(
            "a route without Gateway API",
            "a route on a cluster with Gateway API",
            "write `addons: {gateway: install}`, or present if the cluster's owner has installed it",
        )
    answer = service.route.timeout if service.route is not None else None
    if answer is not None and parse_duration(answer) > _LONGEST_ANSWER:
        here.at("route").at("timeout").add(answer, "at most 24h", "write 24h")
    if service.route is not None and not any(service.port in one.ports for one in team.ingress):
        here.at("route").add(
            f"a route to port {service.port}, which nothing outside the namespace may reach",
            "an entry with this port in the team's ingress, for the gateway's proxies",
            f"for example, write ingress: [{{namespace: envoy-gateway-system, ports: [{service.port}]}}]",
        )

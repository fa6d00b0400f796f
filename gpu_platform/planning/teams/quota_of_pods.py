"""Check that a team's quota has room for the pods that the stack file declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.dra.claims import class_of
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.claims import claim_of
from gpu_platform.planning.teams.declared_pods import DeclaredPods
from gpu_platform.stack.team import GpuUnits, Team
from gpu_platform.stack.team import Workload as WorkloadSpec


def quota_units(quota: GpuUnits) -> dict[str, int]:
    """Return a quota's GPU units by extended resource or device class, as a total over all pools."""
    units = {
        name: count if isinstance(count, int) else sum(count.values()) for name, count in _declared(quota).items()
    }
    return {name: count for name, count in units.items() if count}


def units_by_pool(quota: GpuUnits) -> dict[str, Mapping[str, int]]:
    """Return the units by pool for each extended resource or device class that the quota divides by pool."""
    return {name: count for name, count in _declared(quota).items() if not isinstance(count, int)}


def may_borrow(team: Team, resource: str) -> bool:
    """Return whether a team with a queue may borrow quota for a resource. If `borrow` is set, it must contain the
    resource. Otherwise the team's quota must contain it.
    """
    declared = team.queue.borrow if team.queue is not None else None
    return bool(quota_units(team.quota if declared is None else declared).get(resource))


def most_units(team: Team, resource: str, pool: str, *, queues: bool) -> int | None:
    """Return the maximum units of a resource that a team can use on a pool, including units that its queue
    borrows.

    Return None if `borrow` does not limit them.
    """
    most = _on_pool(team.quota, resource, pool)
    if not queues or not may_borrow(team, resource):
        return most
    declared = team.queue.borrow if team.queue is not None else None
    return None if declared is None else most + _on_pool(declared, resource, pool)


def _on_pool(units: GpuUnits, resource: str, pool: str) -> int:
    by_pool = units_by_pool(units).get(resource)
    return quota_units(units).get(resource, 0) if by_pool is None else by_pool.get(pool, 0)


def _declared(quota: GpuUnits) -> dict[str, int | Mapping[str, int]]:
    return {
        names.GPU_RESOURCE: quota.gpus,
        names.SHARED_GPU_RESOURCE: quota.shared,
        **{names.mig_resource(profile): count for profile, count in quota.mig.items()},
        **{
            names.mig_resource(profile) + names.SHARED_SUFFIX: count for profile, count in quota.mig_shared.items()
        },
        **quota.devices,
    }


def quota_place(resource: str) -> str:
    """Return the path of a resource within a quota, such as `mig.1g.10gb`."""
    if resource == names.GPU_RESOURCE:
        return "gpus"
    if resource == names.SHARED_GPU_RESOURCE:
        return "shared"
    if "/" not in resource:
        return f"devices.{resource}"
    profile = resource.removeprefix(names.MIG_RESOURCE_PREFIX)
    shared = profile.endswith(names.SHARED_SUFFIX)
    return f"mig_shared.{profile.removesuffix(names.SHARED_SUFFIX)}" if shared else f"mig.{profile}"


def held(workload: WorkloadSpec, team: Team, pool: PoolPlan) -> tuple[str, int]:
    """Return the resource that one pod of a workload uses, and the number of its units.

    The resource is an extended resource or a device class.
    """
    claim = claim_of(workload, team)
    if pool.devices and claim is not None:
        return class_of(claim), claim.count
    return resource_of(workload, pool), workload.gpus


def resource_of(workload: WorkloadSpec, pool: PoolPlan) -> str:
    if not pool.resources:
        return ""  # a pod without GPUs
    if workload.profile is not None and pool.sharing.mig_strategy == "mixed":
        return names.mig_resource(workload.profile) + (names.SHARED_SUFFIX if pool.sharing.renamed else "")
    # A pod without a profile uses the pool's first resource other than whole GPUs, or the pool's only resource.
    return next((o.name for o in pool.resources if o.name != names.GPU_RESOURCE), pool.resources[0].name)


def check_names_of_workloads(team: Team, problems: Problems) -> None:
    """Record a problem if declared workloads of a team have the same name, because their Services, claims and pods
    would conflict.
    """
    lists = ("workloads", "training_jobs", "inference_services", "ray_clusters", "notebooks", "batch_jobs")
    seen: dict[str, str] = {}
    for field in lists:
        for index, one in enumerate(getattr(team, field)):
            place = f"{field}[{index}]"
            if one.name in seen:
                problems.at(place).at("name").add(
                    f"{one.name!r} again", f"each name only once (it is already in {seen[one.name]})", "rename it"
                )
            seen.setdefault(one.name, place)


def check_quota_of_pods(
    team: Team, pods: Sequence[DeclaredPods], available: Available, problems: Problems, *, queues: bool
) -> None:
    """Record a problem if declared pods exceed the quota. All pods that always run are added up. The pods of each
    other workload are added to this sum separately.

    With `queues`, a job may also use quota that other teams lend, which another check compares by pool. With
    queues, pods on GPU pools also get CPU and memory for their GPUs. This CPU and memory do not count towards the
    quota.
    """
    always = [one for one in pods if one.runs == "always"]
    before = len(problems.found)
    _check_sum(team, always, available, problems, problems.at(_lists(always)), queues=queues)
    if len(problems.found) > before:
        return  # otherwise each job would repeat the problem
    for one in pods:
        if one.runs != "always":
            here = problems.at(one.path)
            _check_sum(team, [*always, one], available, problems, here, queues=queues)


def quota_use(
    team: Team, entry: Sequence[DeclaredPods], pods: Sequence[DeclaredPods], available: Available
) -> Mapping[str, tuple[int, int, int]]:
    """Return three numbers for each resource: the units of a declared workload, these units plus the units of pods
    that always run, and the team's quota.
    """
    always = [one for one in pods if one.runs == "always"]
    ends = any(one.runs != "always" for one in entry)
    own, in_all = (
        _wanted(team, found, available.pools) for found in (entry, [*always, *entry] if ends else always)
    )
    allowed = quota_units(team.quota)
    return {name: (units, in_all[name], allowed.get(name, 0)) for name, units in own.items()}


def _lists(pods: Sequence[DeclaredPods]) -> str:
    """Return the name of the stack file's list that contains the pods. If there are several lists, return the
    first.
    """
    return pods[0].path.partition("[")[0] if pods else "workloads"


def _check_sum(
    team: Team,
    pods: Sequence[DeclaredPods],
    available: Available,
    problems: Problems,
    here: Problems,
    *,
    queues: bool,
) -> None:
    """Record a problem at `here` if pods that run at the same time need more than the team's quota."""
    always = all(one.runs == "always" for one in pods)
    in_all = "in all" if always else "together with pods that always run"
    count = sum(one.spec.replicas for one in pods)
    if count > team.quota.objects.pods:
        here.add(
            f"{count} replicas {in_all}",
            f"at most {team.quota.objects.pods}: the team's quota.objects.pods",
            "raise quota.objects.pods or lower replicas",
        )
    with_gpus = {pool.name for pool in available.pools if pool.has_gpus}
    counted_in = [one.spec for one in pods if not (queues and one.spec.pool in with_gpus)]
    for resource, limit in (("cpu", team.quota.cpu), ("memory", team.quota.memory)):
        asked = sum((parse_quantity(getattr(w, resource)) * w.replicas for w in counted_in), Decimal(0))
        if limit is not None and asked > parse_quantity(limit):
            here.add(
                f"{asked:f} CPU {in_all}" if resource == "cpu" else f"{-(-asked // 2**20):f}Mi of memory {in_all}",
                f"at most {limit}: the team's quota.{resource}",
                f"raise quota.{resource} or lower the requests of the workloads",
            )
    if queues and not always:
        return
    allowed = quota_units(team.quota)
    for resource, units in _wanted(team, pods, available.pools).items():
        if units > allowed.get(resource, 0):
            here.add(
                f"{units} {resource} {in_all}",
                f"at most {allowed.get(resource, 0)}: the team's quota.{quota_place(resource)}",
                "raise the quota or lower replicas"
                if resource in allowed
                else "name another pool, or raise the quota",
            )


def _wanted(team: Team, pods: Sequence[DeclaredPods], pools: Sequence[PoolPlan]) -> Mapping[str, int]:
    wanted: dict[str, int] = {}
    for one, resource, units in gpu_pods(team, pods, pools):
        wanted[resource] = wanted.get(resource, 0) + units * one.spec.replicas
    return wanted


def gpu_pods(
    team: Team, pods: Sequence[DeclaredPods], pools: Sequence[PoolPlan]
) -> Iterator[tuple[DeclaredPods, str, int]]:
    """Yield the declared pods that use GPUs, with the resource and units of one pod."""
    by_name = {pool.name: pool for pool in pools}
    for one in pods:
        pool = by_name.get(one.spec.pool)
        if pool is None or not pool.has_gpus or (pool.devices and claim_of(one.spec, team) is None):
            continue
        yield one, *held(one.spec, team, pool)

"""Check and plan teams: quotas for every GPU resource, priorities, limits, members and workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean
from gpu_platform.base.quantity import counted, parse_duration, parse_quantity
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.admission_rules import admission_rules
from gpu_platform.catalog.pod_limits import INLINE_CSI_DRIVERS, LONGEST_GRACE_SECONDS
from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.dra.claims import plan_claim, selector_decisions
from gpu_platform.planning.pools import numa
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.admission_defaults import plan_pod_defaults
from gpu_platform.planning.teams.alignment_rule import aligned_pools
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.bare_pods import admits_bare_pods, bare_pod_decisions
from gpu_platform.planning.teams.claims import (
    check_claim_of_workload,
    check_claims,
    claim_of,
    device_units,
)
from gpu_platform.planning.teams.compute_domains import channel_of, check_compute_domain
from gpu_platform.planning.teams.cpu_workloads import check_on_cpu_pool
from gpu_platform.planning.teams.declared_pods import declared_pods
from gpu_platform.planning.teams.fabric import network_files, plan_fabric_access
from gpu_platform.planning.teams.guarded_objects import object_values
from gpu_platform.planning.teams.network import network_decisions, plan_egress, plan_hosts, plan_ingress
from gpu_platform.planning.teams.nic_claims import claims_nics, nic_claim_of, plan_nic_claims
from gpu_platform.planning.teams.object_limits import addon_object_quota, object_quota
from gpu_platform.planning.teams.pod_admission import PodLimits, claim_values, pod_values
from gpu_platform.planning.teams.pod_security import pod_security_decisions, pod_security_labels
from gpu_platform.planning.teams.quota_of_pods import (
    check_names_of_workloads,
    check_quota_of_pods,
    quota_place,
    quota_units,
    resource_of,
    units_by_pool,
)
from gpu_platform.planning.teams.requesters import accounts_of
from gpu_platform.planning.teams.routes import route_values
from gpu_platform.planning.teams.scaling import scaling_values
from gpu_platform.planning.teams.section import PriorityClassPlan, TeamMember, TeamPlan, WorkloadPlan
from gpu_platform.stack.team import GpuUnits, Team
from gpu_platform.stack.team import Workload as WorkloadSpec

PAUSE_IMAGE = "pause"  # image name in the catalogue
DEFAULT_PRIORITIES: Mapping[str, int] = {"training": 100, "inference": 1000}

_POLICIES: Final = ("pods-of", "templates-of", "services-of", "claims-of", "scalers-of", "routes-of", "objects-of")
"""Policies in the catalogue that are created for every team."""


def is_reserved_namespace(namespace: str, catalog: Catalog) -> bool:
    """Return whether a namespace is reserved, because controllers run there now or may run there after an edit to
    the stack file.
    """
    of_charts = (chart.namespace for chart in catalog.charts.values())
    return namespace == "default" or names.is_platform_namespace(namespace) or namespace in of_charts


def priority_values(declared: Mapping[str, int]) -> dict[str, int]:
    """Return the values of the default priority classes and of the priority classes in the stack file, by name."""
    return {**DEFAULT_PRIORITIES, **declared}


def plan_priority_classes(declared: Mapping[str, int]) -> tuple[PriorityClassPlan, ...]:
    """Return the PriorityClasses in ascending order.

    No PriorityClass is the cluster's default, because a default would apply to all pods.
    """
    values = priority_values(declared)
    return tuple(
        PriorityClassPlan(name=name, value=value, description=f"GPU workloads of class {name}")
        for name, value in sorted(values.items(), key=lambda item: (item[1], item[0]))
    )


def check_priorities(declared: Mapping[str, int], problems: Problems) -> None:
    """Record a problem for each name that Kubernetes reserves."""
    for name in declared:
        if name.startswith("system-"):
            problems.at(name).add(repr(name), "a name that does not begin with system-", "rename it")


def total_quota(teams: Sequence[Team]) -> dict[str, int]:
    """Return the GPU units of all teams' quotas by extended resource or device class."""
    units: dict[str, int] = {}
    for team in teams:
        for resource, count in quota_units(team.quota).items():
            units[resource] = units.get(resource, 0) + count
    return units


def check_team_alone(team: Team, priorities: Mapping[str, int], catalog: Catalog, problems: Problems) -> None:
    """Record a team's problems that can be detected without knowledge of the pools. `priorities` are the values of
    the priority classes.
    """
    if is_reserved_namespace(team.name, catalog):
        problems.at("name").add(
            f"{team.name!r}",
            "a namespace that only the team uses; in a namespace of Kubernetes, of this program or of a chart "
            "that it can install, members could use the service accounts of controllers",
            f"rename it, for example to 'team-{team.name}'",
        )
    _check_roles(team, problems)
    if team.priority not in priorities:
        fix = (
            did_you_mean(team.priority, priorities)
            or f"write priority: {next(iter(priorities))}, or add it to priorities"
        )
        problems.at("priority").add(f"{team.priority!r}", "one of " + ", ".join(priorities), fix)
    check_names_of_workloads(team, problems)


def check_team(team: Team, available: Available, problems: Problems, *, queues: bool = False) -> None:
    """Record problems with one team, given the resources of the pools.

    `queues` indicates whether the teams have queues. With queues, a GPU quota includes a share of the CPU and
    memory of the GPU nodes.
    """
    check_offered(team.quota, available, problems.at("quota"))
    pods = declared_pods(team, available)
    for one in pods:
        check_workload(one.spec, team, available, problems.at(one.path))
    check_claims(team, available, problems.at("claims"))
    check_quota_of_pods(team, pods, available, problems, queues=queues)


def check_offered(units: GpuUnits, available: Available, here: Problems) -> None:
    """Record a problem for units of resources that no pool offers."""
    offered = available.units
    for resource, count in quota_units(units).items():
        if resource not in offered:
            here.at(quota_place(resource)).add(
                str(count),
                f"a resource that some pool offers ({', '.join(sorted(offered)) or 'none'})",
                did_you_mean(quota_place(resource), [quota_place(one) for one in offered])
                or f"remove it, or add a pool that offers {resource}",
            )


def _check_roles(team: Team, problems: Problems) -> None:
    """Record a problem for members that are in a list twice or in two lists. Each role includes the rights of
    lower roles.
    """
    first: dict[str, str] = {}
    for role, members in team.by_role.items():
        for index, member in enumerate(members):
            if member in members[:index]:
                allowed = f"each member only once (it is already in {role}[{members.index(member)}])"
                problems.at(role).at(f"[{index}]").add(f"{member!r} again", allowed, "remove it")
            elif first.setdefault(member, role) != role:
                problems.at(role).at(f"[{index}]").add(
                    f"{member!r} again",
                    f"each member in only one list (it is already in {first[member]})",
                    f"remove it here, because {first[member]} includes the rights of {role}",
                )


def check_workload(workload: WorkloadSpec, team: Team, available: Available, here: Problems) -> None:
    """Record problems with one workload of a team, given the resources of the pools."""
    by_name = {pool.name: pool for pool in available.pools}
    pool = by_name.get(workload.pool)
    if pool is None:
        fix = did_you_mean(workload.pool, by_name) or "name a pool of the environment"
        here.at("pool").add(f"{workload.pool!r}", "one of " + ", ".join(by_name), fix)
        return
    check_claim_of_workload(workload, team, pool, available, here)
    if not pool.has_gpus:
        check_on_cpu_pool(workload, pool, here)
    elif not pool.devices:
        _check_units(workload, pool, here)
    if workload.compute_domain:
        check_compute_domain(workload, team, pool, available, here)
    free = free_resources(pool)
    if parse_quantity(workload.cpu) * 1000 > free.cpu_millicores:
        here.at("cpu").add(
            workload.cpu,
            f"at most {free.cpu_millicores}m, because DaemonSets leave no more CPU on one {pool.machine_type}",
            "request less CPU",
        )
    if parse_quantity(workload.memory) > free.memory_mib * 1024 * 1024:
        here.at("memory").add(
            workload.memory,
            f"at most {free.memory_mib}Mi, because DaemonSets leave no more memory on one {pool.machine_type}",
            "request less memory",
        )


def _check_units(workload: WorkloadSpec, pool: PoolPlan, here: Problems) -> None:
    """Record a problem if a workload requests extended resources that its pool does not offer, or too many of
    them.
    """
    if workload.gpus == 0:
        here.at("gpus").add(
            f"0 on pool {pool.name}, whose nodes have GPUs",
            "1 or more, because a pod without GPUs would occupy a GPU node",
            "name a CPU pool, whose machine type has no GPUs, or request GPUs",
        )
        return
    if pool.sharing.mode in {"time-slicing", "mps", "mig"} and workload.gpus != 1:
        here.at("gpus").add(
            str(workload.gpus),
            f"1 on pool {pool.name}, because a pod has one share or instance ({pool.sharing.mode})",
            "write gpus: 1 and increase the number of replicas, or use a pool whose GPUs are not shared",
        )
    elif workload.gpus > pool.gpus_per_node:
        here.at("gpus").add(
            str(workload.gpus),
            f"at most {pool.gpus_per_node}: what one {pool.machine_type} has",
            "split the job over several pods",
        )
    profiles = sorted({profile for entry in pool.sharing.mig_layouts for profile in entry.layout})
    if workload.profile is not None and workload.profile not in profiles:
        here.at("profile").add(
            f"{workload.profile!r}",
            f"a profile of pool {pool.name}: " + (", ".join(profiles) or "none, because it is not a MIG pool"),
            did_you_mean(workload.profile, profiles) or "change or remove it",
        )
    elif workload.profile is None and len(profiles) > 1 and pool.sharing.mig_strategy == "mixed":
        here.at("profile").add(
            "nothing",
            f"one of {', '.join(profiles)}: pool {pool.name} offers several",
            f"add profile: {profiles[0]}",
        )
    fixed = pool.has_fixed_nodes
    needed, there = workload.gpus * workload.replicas, sum(pool.units_desired.values())
    if fixed and needed > there:
        here.at("replicas").add(
            f"{workload.replicas} x {workload.gpus}",
            f"at most {there} in all, because pool {pool.name} has {counted(pool.nodes.desired, 'node')}, and "
            "no autoscaler adds any",
            "lower replicas, or raise the pool's count.desired",
        )


def check_quotas(
    quotas: Sequence[tuple[str, str, GpuUnits]],
    available: Available,
    overcommit: float,
    problems: Problems,
    *,
    queues: bool = False,
) -> None:
    """Record a problem if quotas together exceed the resources of the pools.

    Each entry of `quotas` contains a path in the stack file, a team's name and its quota.

    `queues` indicates whether the teams have queues. `overcommit` does not apply with queues.
    """
    for resource, capacity in available.units.items():
        shares = [(path, team, quota_units(units).get(resource, 0)) for path, team, units in quotas]
        total = sum(count for _, _, count in shares)
        if total <= capacity * overcommit:
            continue
        shares_text = ", ".join(f"{team} {count}" for _, team, count in shares if count)
        path = max((count, path) for path, _, count in shares)[1]
        Problems(f"{path}.{quota_place(resource)}", problems.found).add(
            f"{total} {resource} in all quotas ({shares_text})",
            f"at most {capacity * overcommit:g}: {capacity} offered by the pools"
            + (f" x overcommit {overcommit:g}" if overcommit > 1 else ""),
            "lower the quotas, because teams borrow unused quota of other teams, or raise a pool's count.max"
            if queues
            else "lower the quotas, raise a pool's count.max, or set overcommit",
        )


def check_reserve(
    team: Team, reserve: GpuUnits, teams: Sequence[Team], available: Available, problems: Problems
) -> None:
    """Record a problem if the quota of a team with its own stack exceeds what the environment reserves for such
    teams.

    `teams` are the teams of the environment. Resources that no pool offers are reported elsewhere.
    """
    granted = total_quota(teams)
    kept, kept_by_pool = quota_units(reserve), units_by_pool(reserve)
    for resource, units in quota_units(team.quota).items():
        place = quota_place(resource)
        if resource not in available.units:
            continue
        free = available.units[resource] - granted.get(resource, 0)
        if units > kept.get(resource, 0):
            problems.at(place).add(
                f"{units} {resource}",
                f"at most {kept.get(resource, 0)}, which the environment keeps for teams with their own stack; "
                "queues lend all other units",
                f"write queueing: {{reserve: {_written(place, units)}}} in the environment"
                + (f", lower its teams' quotas by {units - free} in total" if units > free else "")
                + ", and deploy the environment first",
            )
        for pool, count in units_by_pool(team.quota).get(resource, {}).items():
            most = kept_by_pool.get(resource, {}).get(pool, 0) if resource in kept_by_pool else count
            if count > most:
                problems.at(place).at(pool).add(
                    f"{count} {resource}", f"at most {most}: the environment's queueing.reserve", "lower it"
                )


def _written(place: str, units: int) -> str:
    """Return the quota of one resource as YAML. `place` is the path of the resource within the quota."""
    field, _, key = place.partition(".")
    return f"{{{field}: {{{key}: {units}}}}}" if key else f"{{{field}: {units}}}"


def plan_team(
    team: Team,
    stack: str,
    available: Available,
    priorities: Mapping[str, int],
    cloud: Cloud,
    kubernetes: str | None,
    *,
    addons: Mapping[str, str],
    queues: bool = False,
    identified: bool = False,
) -> Decided[TeamPlan]:
    """Return the plan for a team that has no problems. Workloads that name no image use a pause image.

    `kubernetes` is the cluster's minor version, or None if it is unknown. `addons` contains the environment's
    add-ons, and whether each is installed or present. `queues` indicates whether the team has a queue.
    `identified` indicates whether its pods have a cloud identity.
    """
    pause_image = available.catalog.images[PAUSE_IMAGE].reference
    units = quota_units(team.quota)
    # If no pool has GPUs, limit whole GPUs, because the policy pack always requires a quota of whole GPUs.
    limited = available.limited or (names.GPU_RESOURCE,)
    quota = {names.quota_key(resource): str(units.get(resource, 0)) for resource in limited}
    if team.quota.cpu is not None:
        quota["requests.cpu"] = team.quota.cpu
    if team.quota.memory is not None:
        quota["requests.memory"] = team.quota.memory
    own = priorities[team.priority]
    allowed = tuple(sorted(name for name, value in priorities.items() if value <= own))
    decision = Decision(
        subject=f"team {team.name}",
        what="priority classes allowed",
        chosen=", ".join(allowed),
        why=f"{team.priority} ({own}), its default class, and lower classes of this stack",
    )
    workloads = tuple(plan_workload(workload, team, available, pause_image) for workload in team.workloads)
    all_pods = [plan_workload(one.spec, team, available, pause_image) for one in declared_pods(team, available)]
    # With a queue, the team's quota also includes the CPU and memory that come with its GPUs.
    cpu_and_memory = (None, None) if queues else (team.quota.cpu, team.quota.memory)
    fabric = plan_fabric_access(team, available.pools, available.catalog, queues=queues)
    defaults = plan_pod_defaults(
        team.name,
        team.priority,
        units,
        cpu_and_memory,
        available.pools,
        kubernetes,
        fabric.value.read_only if fabric.value is not None else (),
        cloud.storage.bucket_sidecar,
    )
    files = network_files(team, available.pools, queues=queues)
    claims = (
        *(plan_claim(claim, available.catalog) for claim in team.claims),
        *plan_nic_claims(all_pods, available.pools),
    )
    limits = PodLimits(
        devices=fabric.value.device_annotations if fabric.value is not None else {},
        accounts=accounts_of(team),
        drivers=(*INLINE_CSI_DRIVERS, *team.inline_csi_drivers),
        grace_seconds=longest_grace(team),
        bare=admits_bare_pods(team, cloud),
        aligned=aligned_pools(available.pools, available.catalog),
        no_other_gpus=cloud.creates_cluster or all(one.nodes.ownership == "created" for one in available.pools),
    )
    values = {
        **pod_values(available.pools, limits),
        **claim_values(available.pools),
        **scaling_values(team),
        **route_values(team),
        **object_values(
            {
                "configmaps": (names.GUIDE_CONFIG_MAP, *(file.config_map for file in files)),
                "resourceclaimtemplates": [one.name for one in claims],
                "serviceaccounts": (SERVICE_ACCOUNT,),
            },
            queued=queues,
        ),
    }
    domains = any(pool.nvlink_domain is not None for pool in available.pools)
    team_plan = TeamPlan(
        namespace=team.name,
        labels={
            names.TEAM_LABEL: team.name,
            names.STACK_LABEL: stack,
            **pod_security_labels(team.pod_security, by_policy=fabric.value is not None),
        },
        quota=quota,
        egress=cloud.network.identity_egress if identified else cloud.network.pod_egress,
        declared_egress=plan_egress(team, cloud),
        hosts=plan_hosts(team),
        host_policy=cloud.network.host_policy if plan_hosts(team) else None,
        ingress=plan_ingress(team, addons, available.catalog),
        object_quota=object_quota(team.quota.objects, addons, cloud.storage.key_classes),
        addon_object_quota=addon_object_quota(team.quota.objects, addons, compute_domains=domains),
        priorities=allowed,
        members=tuple(_subject(member) for member in team.members),
        admins=tuple(_subject(member) for member in team.admins),
        viewers=tuple(_subject(member) for member in team.viewers),
        claims=claims,
        workloads=workloads,
        files=files,
        policies=tuple(admission_rules().policy(name, values) for name in _POLICIES),
        accounts=limits.accounts,
        fabric=fabric.value,
        pod_defaults=defaults.value,
        pod_security=team.pod_security,
        permissions=tuple(_permissions(team)),
        compute_domains=domains,
    )
    notes = [
        note
        for claim in team.claims
        for note in selector_decisions(f"claim {claim.name} of team {team.name}", claim)
    ]
    chosen = (
        *pod_security_decisions(team),
        *bare_pod_decisions(team, cloud),
        *fabric.decisions,
        *defaults.decisions,
        *network_decisions(team, cloud, addons, available.catalog),
    )
    return Decided(team_plan, (decision, *chosen, *notes))


def _permissions(team: Team) -> Iterator[str]:
    """Yield a text for each exception to the rules for members' objects that the stack file allows."""
    yield from (f"routes of {host}" for host in team.routes.hosts)
    yield from (f"annotation {name}" for name in team.routes.annotations)
    yield from (f"triggers that ask {server}" for server in team.scaling.servers)
    yield from (f"triggers of type {kind}" for kind in team.scaling.triggers)
    yield from (f"volumes of CSI driver {driver}" for driver in team.inline_csi_drivers)
    if team.allow_bare_pods:
        yield "pods without a controller"


def longest_grace(team: Team) -> int:
    """Return the maximum time between SIGTERM and SIGKILL that a team's pods may have, in seconds."""
    declared = (*team.training_jobs, *team.inference_services)
    return max((LONGEST_GRACE_SECONDS, *(int(parse_duration(one.grace)) for one in declared)))


def _subject(member: str) -> TeamMember:
    kind, _, name = member.partition(":")
    if kind == "serviceaccount":
        namespace, _, account = name.partition("/")
        return TeamMember(kind="ServiceAccount", name=account, namespace=namespace)
    return TeamMember(kind="User" if kind == "user" else "Group", name=name, namespace=None)


def plan_workload(workload: WorkloadSpec, team: Team, available: Available, pause_image: str) -> WorkloadPlan:
    """Return the plan for a workload that has no problems. A workload that names no image uses `pause_image`."""
    pool = next(pool for pool in available.pools if pool.name == workload.pool)
    claim = claim_of(workload, team)
    if claim is None:
        resource, units = resource_of(workload, pool), workload.gpus
    else:
        resource, units = device_units(claim, pool, available)
    return WorkloadPlan(
        name=workload.name,
        pool=pool.name,
        replicas=workload.replicas,
        image=workload.image or pause_image,
        command=workload.command,
        run_as_user=workload.run_as_user,
        resource=resource,
        units=units,
        cpu=numa.alignable_cpu(workload.cpu, resource, units, pool, available.catalog),
        memory=workload.memory,
        priority_class=team.priority,
        node_selector=pool.node_selector,
        tolerations=pool.all_taints,
        network=_network_requests(pool, resource, units),
        claim=workload.claim,
        compute_domain=channel_of(workload.name) if workload.compute_domain else None,
        shared_memory=_shared_memory(workload, pool, units),
        gpu_memory=workload.gpu_memory,
        nic_claim=nic_claim_of(pool) if claims_nics(pool, resource, units) else None,
    )


def _shared_memory(workload: WorkloadSpec, pool: PoolPlan, units: int) -> str | None:
    """Return the size of /dev/shm for training pods with several GPUs. It is a quarter of the pod's memory.

    NCCL and data loaders pass tensors between processes through /dev/shm, and need far more than a container's
    default of 64 MiB (PyTorch docs, multiprocessing). The contents of /dev/shm count as memory of the container.
    """
    if pool.workload != "training" or units < 2:
        return None
    return f"{int(parse_quantity(workload.memory)) // (4 * 1024 * 1024)}Mi"


def _network_requests(pool: PoolPlan, resource: str, units: int) -> Mapping[str, str]:
    """Return a pod's requests for the network between nodes.

    Only pods that request or claim all GPUs of their node have such requests.
    """
    whole = resource == names.GPU_DEVICE_CLASS or pool.sharing.mode == "none"
    return pool.cloud_nodes.network_requests if whole and units >= pool.gpus_per_node else {}

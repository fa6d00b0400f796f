"""Check the declared queues of an environment and of its teams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gpu_platform.base.errors import did_you_mean
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.queues.kueue import MAX_DEVICE_CLASSES, device_classes
from gpu_platform.planning.queues.shares import ByPool, Offers, Shares, offers_of, queue_settings
from gpu_platform.planning.queues.starts import Start, main_lacks
from gpu_platform.planning.queues.topology import unsuitable, what_to_write
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.quota_of_pods import quota_place, quota_units, units_by_pool
from gpu_platform.planning.teams.team_plans import check_offered
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.queueing import Queueing
from gpu_platform.stack.team import GpuUnits, Team

# Maximum numbers of flavors, of pairs of flavor and resource, and of taints in Kueue's objects.
# Source: Kueue v0.19.2, CRDs and ClusterQueue webhook (validateFlavorResourceCombinations); read 2026-11-23.
_MAX_FLAVORS: Final = 64
_MAX_COMBINATIONS: Final = 512
_MAX_TAINTS: Final = 8


def check_queueing(environment: Environment, cloud: Cloud, available: Available, problems: Problems) -> None:
    """Record problems with `queueing`, given the pools and the cloud."""
    queueing = environment.queueing
    if queueing is None:
        return
    here = problems.at("queueing")
    if queueing.kueue == "present" and (cloud.creates_cluster or cloud.runs_kueue):
        here.at("kueue").add(
            "present on " + ("a sandbox" if cloud.runs_kueue else "a new cluster"),
            "present only on an existing cluster whose owner has installed Kueue",
            "write install, or remove it",
        )
    if environment.overcommit > 1:
        problems.at("overcommit").add(
            f"{environment.overcommit:g} with queueing",
            "1, because a queue starts a workload when quota is free, and the nodes must then be free too",
            "remove overcommit, and lower the quotas, because teams borrow unused quota of other teams",
        )
    if queueing.topology and (found := unsuitable(available.pools, cloud)):
        ways = what_to_write(available.pools, cloud)
        here.at("topology").add(
            f"true, and {', '.join(found)}",
            (
                "true only if all nodes exist and all pools have a device plugin, because Kueue counts only "
                "nodes that exist"
            ),
            "remove topology" + (f", or write {ways}" if ways else ""),
        )
    check_offered(queueing.reserve, available, here.at("reserve"))
    _check_by_pool(queueing.reserve, queueing, offers_of(available), here.at("reserve"))
    _check_sizes(available, here)


def _check_sizes(available: Available, here: Problems) -> None:
    """Record a problem if the environment has more pools, resources or taints than Kueue's objects can contain."""
    flavors = len(available.pools) + 1
    resources = len(available.limited) + len(available.claimed_with_gpus) + 2
    if flavors > _MAX_FLAVORS or flavors * resources > _MAX_COMBINATIONS:
        here.add(
            f"{len(available.pools)} pools with {resources - 2} resources of devices",
            f"at most {_MAX_FLAVORS - 1} pools, and {_MAX_COMBINATIONS} pairs of pool and resource in a queue",
            "use fewer pools or fewer MIG profiles, or remove queueing",
        )
    classes = device_classes(available)
    if len(classes) > MAX_DEVICE_CLASSES:
        here.add(
            f"{len(classes)} device classes",
            f"at most {MAX_DEVICE_CLASSES} that Kueue maps to quotas",
            "declare fewer device_classes, or remove queueing",
        )
    for pool in available.pools:
        if len(pool.all_taints) > _MAX_TAINTS:
            Problems(f"{pool.path}.taints", here.found).add(
                f"{len(pool.all_taints)} taints", f"at most {_MAX_TAINTS} with queueing", "use fewer taints"
            )


def check_teams(
    queueing: Queueing | None, teams: Sequence[tuple[str, Team]], available: Available, problems: Problems
) -> None:
    """Record a problem if a team has a `queue` without `queueing`, or if its limits exceed its quota or what the
    pools offer.

    Each entry of `teams` is a pair: the team's path in the stack file, and the team.
    """
    offers = offers_of(available)
    for path, team in teams:
        of_team = Problems(path, problems.found)
        _check_by_pool(team.quota, queueing, offers, of_team.at("quota"))
        if team.queue is None:
            continue
        here = of_team.at("queue")
        for field, units in (("borrow", team.queue.borrow), ("lend", team.queue.lend)):
            if units is not None and queueing is not None:
                _check_by_pool(units, queueing, offers, here.at(field), counts=False)
        if queueing is None:
            here.add(
                "a queue without queueing", "queue only with queueing in the environment", "add queueing: {} there"
            )
            continue
        quota = quota_units(team.quota)
        if team.queue.lend is not None:
            allowed = {name: (units, f"the team's quota.{quota_place(name)}") for name, units in quota.items()}
            _check_units("lend", team.queue.lend, allowed, here)
        if team.queue.borrow is not None:
            beyond = {
                name: (units - quota.get(name, 0), "the units that the pools offer beyond the team's quota")
                for name, units in available.units.items()
            }
            _check_units("borrow", team.queue.borrow, beyond, here)


def check_requested_nodes(pools: Sequence[PoolPlan], problems: Problems, *, team_stack: bool = False) -> None:
    """Record a problem for each pool whose nodes are added only for ProvisioningRequests, if teams have no queues.

    Members may not create such requests, so a quota for these GPUs could never be used.
    """
    for pool in pools:
        if not pool.cloud_nodes.nodes_by_request:
            continue
        here = problems.at("team") if team_stack else Problems(f"{pool.path}.capacity.queued", problems.found)
        where = " in the environment" if team_stack else ""
        here.add(
            f"queued capacity of pool {pool.name!r}, and teams without queues",
            "queued capacity for teams with `queueing`, because Kueue requests its nodes, and pending pods do not "
            "add nodes",
            f"write queued: false{where}, or add `queueing: {{}}`{where}",
        )


def _check_by_pool(
    units: GpuUnits, queueing: Queueing | None, offers: Offers, here: Problems, *, counts: bool = True
) -> None:
    """Record a problem if a pool does not offer the units that are declared for it. Without queues, also record a
    problem for units by pool, because only queues count units by pool.

    If `counts` is False, the pool may offer fewer units, because `check_limits` compares the limits with its free
    units.
    """
    for name, by_pool in units_by_pool(units).items():
        place = here.at(quota_place(name))
        if queueing is None:
            place.add(
                "units by pool without queueing",
                "one number, because a ResourceQuota counts all pools together",
                f"write {sum(by_pool.values())}, or add queueing: {{}}",
            )
            continue
        offered = {offer.pool.name: offer.units for offer in offers.get(name, ())}
        for pool, count in by_pool.items():
            if pool not in offered:
                place.at(pool).add(
                    f"{pool!r}",
                    f"a pool that offers {name}: {', '.join(offered) or 'none does'}",
                    did_you_mean(pool, offered) or "remove it",
                )
            elif counts and count > offered[pool]:
                place.at(pool).add(
                    f"{count} {name}", f"at most {offered[pool]}: what pool {pool} may have", "lower it"
                )


def check_sums_by_pool(teams: Sequence[tuple[str, GpuUnits]], offers: Offers, problems: Problems) -> None:
    """Record a problem if the teams' quotas for a pool add up to more than the pool has. Each entry of `teams` is
    a pair: the quota's path in the stack file, and the quota.
    """
    for name, of_resource in offers.items():
        for offer in of_resource:
            pool = offer.pool.name
            given = [(path, units_by_pool(units).get(name, {}).get(pool, 0)) for path, units in teams]
            total = sum(count for _, count in given)
            most, path = max((count, path) for path, count in given) if given else (0, "")
            if total > offer.units and most <= offer.units:
                Problems(path, problems.found).at(quota_place(name)).at(pool).add(
                    f"{total} {name} on pool {pool} in all quotas",
                    f"at most {offer.units}: the pool's maximum",
                    "lower the quotas, or raise the pool's count.max",
                )


def check_gpus(nominal: Mapping[str, Mapping[str, ByPool]], offers: Offers, problems: Problems) -> None:
    """Record a problem if quotas for several resources together take more GPUs than a pool has at its maximum
    size.

    Device classes may share the same GPUs. `nominal` contains the quotas by the team's path in the stack file,
    resource and pool.
    """
    pools = {offer.pool.name: offer.pool for found in offers.values() for offer in found}
    for pool in pools.values():
        taken = {
            (path, name): of_team[name].get(pool.name, 0) * offer.gpus
            for path, of_team in nominal.items()
            for name, found in offers.items()
            for offer in found
            if offer.pool is pool and of_team[name].get(pool.name)
        }
        most = pool.gpus_per_node * pool.nodes.max
        if sum(taken.values()) > most:
            path, name = max(taken, key=lambda one: taken[one])
            units = ", ".join(dict.fromkeys(resource for _, resource in taken))
            Problems(f"{path}.quota", problems.found).at(quota_place(name)).add(
                f"quotas of {units} that take {float(sum(taken.values())):.3g} GPUs of pool {pool.name}",
                f"at most {most}, because the resources share the same GPUs",
                "lower the quotas",
            )


def check_limits(team: Team, shares: Shares, offers: Offers, here: Problems) -> None:
    """Record a problem if a team's limits by pool are too high. The team can lend at most its quota on the pool,
    and can borrow at most the pool's units beyond that quota.
    """
    settings = queue_settings(team)
    for field, units in (("lend", settings.lend), ("borrow", settings.borrow)):
        for name, by_pool in units_by_pool(units).items() if units is not None else ():
            offered = {offer.pool.name: offer.units for offer in offers[name]}
            for pool, count in by_pool.items():
                own = shares.nominal[name].get(pool, 0)
                most, what = (
                    (own, "the team's quota on this pool")
                    if field == "lend"
                    else (offered[pool] - own, "the units of the pool beyond the team's quota")
                )
                if count > most:
                    here.at("queue").at(field).at(quota_place(name)).at(pool).add(
                        f"{count} {name} on pool {pool}", f"at most {most}: {what}", f"write {most}"
                    )


def check_starts(starts: Iterable[Start], here: Problems) -> None:
    """Record a problem for each declared workload that cannot start on its pool, even if the team borrows all
    quota that other teams can lend there.
    """
    # Pools without enough resources for workloads that run permanently, such as services.
    # Each such pool is reported only once, and not for every job.
    refused: set[str] = set()
    for start in sorted(starts, key=lambda one: one.job.ends):
        job = start.job
        if not start.impossible or job.pool in refused:
            continue
        if not job.ends:
            refused.add(job.pool)
        lacks = main_lacks(job, start.impossible)
        here.at(job.path).add(
            f"{', '.join(one.text(one.needed) for one in lacks)} on pool {job.pool}"
            + (" together with pods that always run" if start.beside else ""),
            f"at most {', '.join(one.text(one.own + one.later) for one in lacks)}: the team's quota on "
            "this pool, and the quota that other teams can lend there",
            start.advice,
        )


def _check_units(field: str, declared: GpuUnits, allowed: Mapping[str, tuple[int, str]], here: Problems) -> None:
    divided = units_by_pool(declared)
    for name, units in quota_units(declared).items():
        if name in divided:
            continue
        most, why = allowed.get(
            name, (0, "no pool offers it" if field == "borrow" else "the team has no quota for it")
        )
        if units > most:
            here.at(field).at(quota_place(name)).add(f"{units} {name}", f"at most {most}: {why}", "lower it")

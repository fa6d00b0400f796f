"""Divide team quotas among pools, so that a job that fits its team's quota also fits the quota of a pool.

Kueue starts all pods of a job on one flavor, which is a pool (kubernetes-sigs/kueue v0.19.2,
pkg/scheduler/flavorassigner/flavorassigner.go; read 2026-11-28). If a quota is split into parts, a job larger than
each part cannot start. A quota is therefore assigned to the pools that the stack file names, then to the pools of
the team's declared workloads, then to pools for the team's purpose. A single pool that can provide the whole quota
is preferred to several pools, and existing nodes are preferred to new nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from gpu_platform.planning.dra.claims import type_of
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.work import DeclaredJob, units_of_work
from gpu_platform.planning.teams.available import Available, max_at_once
from gpu_platform.planning.teams.quota_of_pods import may_borrow, quota_units, units_by_pool
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.team import GpuUnits, Team, TeamQueue

ByPool = Mapping[str, int]
"""Units of one resource by pool name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One resource of one pool, with its units per node, its units at the pool's maximum size, and the GPUs per
    unit.
    """

    pool: PoolPlan
    per_node: int
    units: int
    gpus: Fraction


Offers = Mapping[str, Sequence[Offer]]
"""The pools that offer each extended resource or device class, in the order of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """A team's nominal quota, and its borrowing and lending limits, by resource and pool.

    `lent` is the part of `borrow` that the cohort can lend now. Teams with their own stack may lend the remainder
    later.
    """

    nominal: Mapping[str, ByPool]
    borrow: Mapping[str, ByPool]
    lent: Mapping[str, ByPool]
    lend: Mapping[str, ByPool]

    def uses(self, pool: str) -> bool:
        """Return whether the team has quota on a pool or may borrow quota there."""
        return any(units.get(pool) for part in (self.nominal, self.borrow) for units in part.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Each team's shares of the pools, and the remaining units by resource and pool.

    `cohorts` contains the units outside all quotas that each cohort lends. `reserve` is kept for teams with their
    own stack.
    """

    teams: Mapping[str, Shares]
    cohorts: Mapping[str, Mapping[str, ByPool]]
    reserve: Mapping[str, ByPool]


def queue_settings(team: Team) -> TeamQueue:
    """Return the declared `queue` of a team, or the defaults."""
    return team.queue or TeamQueue()


def offers_of(available: Available) -> Offers:
    """Return the pools that offer each extended resource or device class, in the order of the file."""
    offers: dict[str, list[Offer]] = {name: [] for name in available.limited}
    for pool in available.pools:
        for offer in pool.resources:
            gpus = Fraction(offer.gpus) / offer.per_node if offer.per_node else Fraction(0)
            offers[offer.name].append(_offer(pool, offer.per_node, gpus))
        for name, declared in available.classes.items():
            one_node = _most_on_a_node(name, declared_type=type_of(declared), pool=pool, available=available)
            if one_node:
                offers[name].append(_offer(pool, one_node, Fraction(pool.gpus_per_node, one_node)))
    return offers


def _offer(pool: PoolPlan, per_node: int, gpus: Fraction) -> Offer:
    return Offer(pool=pool, per_node=per_node, units=per_node * pool.nodes.max, gpus=gpus)


def _most_on_a_node(name: str, declared_type: str, pool: PoolPlan, available: Available) -> int:
    """Return the maximum number of devices of a declared class on one node of a pool."""
    if not pool.nodes.max:
        return 0
    kind = "mig" if declared_type == "mig" else "gpu"
    return max_at_once(kind, [available.classes[name]], [pool], available.catalog) // pool.nodes.max


@dataclass(slots=True, kw_only=True)
class _Claim:
    """A claim of a team, or of the reserve, on units of one resource while the pools are divided.

    `left` is the number of units that the claim still needs, and `given` contains the units that it already has.
    """

    purpose: str
    left: int
    by_pool: ByPool | None
    work: ByPool
    given: dict[str, int] = field(default_factory=dict[str, int])


def divide_pools(
    environment: Environment,
    own_stack: Sequence[Team],
    available: Available,
    offers: Offers,
    work: Mapping[str, Sequence[DeclaredJob]],
) -> Division:
    """Divide the pools among the teams of an environment, and its reserve among teams with their own stack.

    `work` contains the declared workloads of each team. The caller has checked that the pools have enough
    resources for all quotas together.
    """
    queueing = environment.queueing
    reserve = queueing.reserve if queueing is not None else GpuUnits()
    nominal: dict[str, dict[str, ByPool]] = {team.name: {} for team in (*environment.teams, *own_stack)}
    kept: dict[str, ByPool] = {}
    for name, of_resource in offers.items():
        claims = [_claim(name, team.quota, team.priority, work[team.name]) for team in environment.teams]
        for_stacks = _claim(name, reserve, "", ())
        free = {offer.pool.name: offer.units for offer in of_resource}
        _divide([*claims, for_stacks], of_resource, free)
        kept[name] = for_stacks.given
        later = [_claim(name, team.quota, team.priority, work[team.name]) for team in own_stack]
        _divide(later, of_resource, {name: for_stacks.given.get(name, 0) for name in free})
        for team, claim in zip((*environment.teams, *own_stack), (*claims, *later), strict=True):
            nominal[team.name][name] = claim.given
    unassigned = _unassigned(environment.teams, nominal, kept, offers, available.pools)
    teams = (*environment.teams, *own_stack)
    lend = {team.name: _lend(team, nominal[team.name], offers) for team in teams}
    # An environment without teams lends its spare units in the default cohort, where other teams can borrow them.
    cohorts = sorted({queue_settings(team).cohort for team in environment.teams}) or [TeamQueue().cohort]
    divided: dict[str, dict[str, ByPool]] = {cohort: {} for cohort in cohorts}
    borrow: dict[str, dict[str, ByPool]] = {team.name: {} for team in teams}
    lent: dict[str, dict[str, ByPool]] = {team.name: {} for team in teams}
    for name, of_resource in offers.items():
        borrowing = _Borrowing(
            resource=name,
            offers=of_resource,
            teams=environment.teams,
            nominal={team.name: nominal[team.name][name] for team in teams},
            lend={team.name: lend[team.name][name] for team in teams},
        )
        of_cohorts = _for_cohorts(borrowing, cohorts, unassigned[name])
        for cohort, units in of_cohorts.items():
            divided[cohort][name] = units
        for team in teams:
            of_stacks = _minus(kept[name], nominal[team.name][name]) if team in own_stack else kept[name]
            limits = _borrow(borrowing, team, of_cohorts, of_stacks)
            borrow[team.name][name], lent[team.name][name] = limits
    shares = {
        team.name: Shares(
            nominal=nominal[team.name], borrow=borrow[team.name], lent=lent[team.name], lend=lend[team.name]
        )
        for team in teams
    }
    return Division(teams=shares, cohorts=divided, reserve=kept)


def _minus(kept: ByPool, own: ByPool) -> dict[str, int]:
    return {pool: units - own.get(pool, 0) for pool, units in kept.items()}


def _claim(resource: str, quota: GpuUnits, purpose: str, work: Iterable[DeclaredJob]) -> _Claim:
    declared = units_by_pool(quota).get(resource)
    return _Claim(
        purpose=purpose,
        left=quota_units(quota).get(resource, 0),
        by_pool=declared,
        work=units_of_work(resource, work),
    )


def _divide(claims: Sequence[_Claim], offers: Sequence[Offer], free: dict[str, int]) -> None:
    """Assign units to each claim, in this order: units that the claim declares for a named pool, units for
    declared workloads, units from pools with the claim's purpose, and units from any other pool.
    """
    by_name = {offer.pool.name: offer for offer in offers}
    for claim in claims:
        for pool, units in (claim.by_pool or {}).items():
            _give(claim, pool, units, free)
        if claim.by_pool is not None:
            claim.left = 0
    for claim in claims:
        for pool, units in claim.work.items():
            if pool in by_name:
                _give(claim, pool, units, free)
    matching = [[offer for offer in offers if offer.pool.workload == claim.purpose] for claim in claims]
    for suitable in (matching, [offers] * len(claims)):
        # Start with the largest claim, because small claims still fit into the units that remain.
        for claim, of_claim in sorted(zip(claims, suitable, strict=True), key=lambda one: -one[0].left):
            for offer in _in_order(claim, of_claim, free):
                name, there = offer.pool.name, free[offer.pool.name]
                whole = claim.left if claim.left <= there else there - there % max(offer.per_node, 1)
                _give(claim, name, whole, free)
    # Use parts of nodes if no pool has whole nodes left.
    for claim in claims:
        for offer in _in_order(claim, offers, free):
            _give(claim, offer.pool.name, claim.left, free)


def _in_order(claim: _Claim, offers: Sequence[Offer], free: Mapping[str, int]) -> list[Offer]:
    """Return the pools in the order in which a claim tries them."""

    def key(offer: Offer) -> tuple[bool, bool, bool, int, bool]:
        name = offer.pool.name
        fits = free[name] >= claim.left
        # Among pools that can satisfy the whole claim, prefer the smallest pool.
        room = free[name] if fits else 0
        return (offer.gpus < 1, not fits, offer.pool.nodes.vary, room, name not in claim.given)

    return sorted(offers, key=key)


def _give(claim: _Claim, pool: str, units: int, free: dict[str, int]) -> None:
    given = min(units, claim.left, free.get(pool, 0))
    if given > 0:
        claim.given[pool] = claim.given.get(pool, 0) + given
        claim.left -= given
        free[pool] -= given


def _unassigned(
    teams: Sequence[Team],
    nominal: Mapping[str, Mapping[str, ByPool]],
    kept: Mapping[str, ByPool],
    offers: Offers,
    pools: Sequence[PoolPlan],
) -> dict[str, dict[str, int]]:
    """Return the units that neither a quota nor the reserve contains, by resource and pool.

    Several device classes may share the same GPUs. Each GPU then counts once, for the first resource with any
    quota.
    """
    taken = [nominal[team.name] for team in teams]
    free_gpus = {pool.name: Fraction(pool.gpus_per_node * pool.nodes.max) for pool in pools}
    used = {
        (name, offer.pool.name): sum(part[name].get(offer.pool.name, 0) for part in (*taken, kept))
        for name, of_resource in offers.items()
        for offer in of_resource
    }
    for name, of_resource in offers.items():
        for offer in of_resource:
            free_gpus[offer.pool.name] -= used[name, offer.pool.name] * offer.gpus
    left: dict[str, dict[str, int]] = {name: {} for name in offers}
    granted = {name for (name, _), units in used.items() if units}
    for name, of_resource in sorted(offers.items(), key=lambda one: one[0] not in granted):
        for offer in of_resource:
            pool = offer.pool.name
            units = offer.units - used[name, pool]
            if offer.gpus:
                units = min(units, int(free_gpus[pool] / offer.gpus))
            if units > 0:
                left[name][pool] = units
                free_gpus[pool] -= units * offer.gpus
    return left


@dataclass(frozen=True, slots=True, kw_only=True)
class _Borrowing:
    """Inputs for borrowing one resource: its pools, and the quota and lending of each team.

    `teams` are the teams of the environment. Other teams borrow from them.
    """

    resource: str
    offers: Sequence[Offer]
    teams: Sequence[Team]
    nominal: Mapping[str, ByPool]
    lend: Mapping[str, ByPool]


def _for_cohorts(borrowing: _Borrowing, cohorts: Sequence[str], spare: ByPool) -> dict[str, dict[str, int]]:
    """Divide the units of a resource that belong to no quota among cohorts, separately for each pool.

    No cohort gets more of a pool than its teams may borrow. If one pool does not satisfy a team's borrowing limit,
    the rest of the limit applies to the next pool. The remaining units are for teams with their own stack, which
    may be in any cohort.
    """
    most = {cohort: dict(spare) for cohort in cohorts}
    asked = _asked(borrowing, most)
    # Cohorts with low borrowing limits come first, because the other cohorts can use the units that remain.
    limits = {cohort: sum(by_pool.values()) for cohort, by_pool in asked.items()}
    while True:
        divided: dict[str, dict[str, int]] = {cohort: {} for cohort in cohorts}
        for offer in borrowing.offers:
            pool, left = offer.pool.name, spare.get(offer.pool.name, 0)
            order = sorted(cohorts, key=lambda one, pool=pool: (limits[one], _digest(pool, one)))
            borrowed = _in_turn(left, offer.per_node, {one: asked[one].get(pool, 0) for one in order})
            rest = left - sum(borrowed.values())
            for_stacks = _in_turn(rest, offer.per_node, dict.fromkeys(order, rest))
            for one in order:
                if units := borrowed[one] + for_stacks[one]:
                    divided[one][pool] = units
                if borrowed[one] < asked[one].get(pool, 0):
                    most[one][pool] = borrowed[one]
        now = _asked(borrowing, most)
        if now == asked:
            return divided
        asked = now


def _asked(borrowing: _Borrowing, most: Mapping[str, ByPool]) -> dict[str, dict[str, int]]:
    """Return how many units of each pool the teams of each cohort borrow, if the cohorts lend at most the units
    in `most`.
    """
    asked: dict[str, dict[str, int]] = {cohort: {} for cohort in most}
    for team in borrowing.teams:
        cohort = queue_settings(team).cohort
        for pool, units in _borrow(borrowing, team, most, {})[1].items():
            asked[cohort][pool] = min(asked[cohort].get(pool, 0) + units, most[cohort].get(pool, 0))
    return asked


def _digest(pool: str, cohort: str) -> str:
    """Return a sort key for a cohort on a pool. It depends only on the two names, so the order of cohorts is
    stable, but differs between pools.
    """
    return hashlib.sha256(f"{pool}/{cohort}".encode()).hexdigest()


def _in_turn(units: int, per_node: int, most: Mapping[str, int]) -> Mapping[str, int]:
    """Divide units among cohorts in turn, one node at a time, until every cohort has its maximum or no units are
    left.
    """
    given = dict.fromkeys(most, 0)
    while units and given != most:
        for one in most:
            part = min(max(per_node, 1), units, most[one] - given[one])
            given[one] += part
            units -= part
    return given


def _lend(team: Team, nominal: Mapping[str, ByPool], offers: Offers) -> dict[str, ByPool]:
    """Return the maximum number of units that a team lends, by resource and pool. If the team lends only a part of
    its quota, pools for its purpose come last.
    """
    declared = queue_settings(team).lend
    if declared is None:
        return {name: dict(units) for name, units in nominal.items()}
    return {
        name: _limited(name, declared, nominal[name], reversed(_for_purpose(team, offers[name])))
        for name in offers
    }


def _lendable(borrowing: _Borrowing, team: Team, cohorts: Mapping[str, ByPool]) -> list[ByPool]:
    """Return the units that a team can borrow from its cohort and from each other team in the cohort."""
    cohort = queue_settings(team).cohort
    others = [other for other in borrowing.teams if other.name != team.name]
    of_teams = [borrowing.lend[other.name] for other in others if queue_settings(other).cohort == cohort]
    return [*of_teams, cohorts.get(cohort, {})]


def _borrow(
    borrowing: _Borrowing, team: Team, cohorts: Mapping[str, ByPool], of_stacks: ByPool
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the maximum number of units of a resource that a team borrows, by pool, and how many of these units
    can already be lent.

    `cohorts` are the units that each cohort lends. `of_stacks` is the quota of teams with their own stack, which
    lend it once they are deployed.
    """
    declared, resource = queue_settings(team).borrow, borrowing.resource
    lendable = _lendable(borrowing, team, cohorts)
    now: dict[str, int] = {}
    later: dict[str, int] = {}
    for offer in borrowing.offers if may_borrow(team, resource) else ():
        pool = offer.pool.name
        beyond = offer.units - borrowing.nominal[team.name].get(pool, 0)
        now[pool] = min(sum(part.get(pool, 0) for part in lendable), beyond)
        later[pool] = min(of_stacks.get(pool, 0), beyond - now[pool])
    if declared is not None:
        ordered = _for_purpose(team, borrowing.offers)
        now = _limited(resource, declared, now, ordered)
        later = _limited(resource, declared, later, ordered, without=now)
    return {pool: units + later.get(pool, 0) for pool, units in now.items()}, now


def _limited(
    resource: str, declared: GpuUnits, most: ByPool, offers: Iterable[Offer], without: ByPool | None = None
) -> dict[str, int]:
    """Return declared units by pool. If the stack file does not divide them by pool, they are assigned to the
    pools in the given order.

    `without` are declared units that are already used.
    """
    given = without or {}
    by_pool = units_by_pool(declared).get(resource)
    if by_pool is not None:
        return {pool: min(units - given.get(pool, 0), most.get(pool, 0)) for pool, units in by_pool.items()}
    left, found = quota_units(declared).get(resource, 0) - sum(given.values()), dict[str, int]()
    for offer in offers:
        found[offer.pool.name] = min(left, most.get(offer.pool.name, 0))
        left -= found[offer.pool.name]
    return found


def _for_purpose(team: Team, offers: Sequence[Offer]) -> list[Offer]:
    order = [pool.name for pool in in_order(team.priority, [offer.pool for offer in offers])]
    return sorted(offers, key=lambda offer: order.index(offer.pool.name))


def in_order(purpose: str, pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Sort pools in the order in which a team uses them: pools for its purpose first, and existing nodes before
    new nodes.
    """
    return sorted(pools, key=lambda pool: (pool.workload != purpose, pool.nodes.vary))

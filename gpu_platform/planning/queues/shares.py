"""Divide the quotas of teams over pools, so that a job that fits its team's quota also fits the quota of a pool.

Kueue starts all pods of a job on one flavor, which is a pool (kubernetes-sigs/kueue v0.19.2,
pkg/scheduler/flavorassigner/flavorassigner.go; read 2026-11-28). A quota in pieces starts no job that is larger
than a piece. So a quota goes where the stack file puts it, then where the team's declared work runs, then to pools
for the team's purpose. There it goes to one pool if one holds it, and to existing nodes before new ones.
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
from gpu_platform.planning.teams.quota_of_pods import quota_units, units_by_pool
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.team import GpuUnits, Team, TeamQueue

ByPool = Mapping[str, int]
"""Units of one resource by name of the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One resource of one pool: units on a node, units on all nodes that it may have, and GPUs of a unit."""

    pool: PoolPlan
    per_node: int
    units: int
    gpus: Fraction


Offers = Mapping[str, Sequence[Offer]]
"""The pools that offer each extended resource or device class, in the order of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Nominal quota of a team, and the limits of what it borrows and lends, by resource and pool.

    `lent` is the part of `borrow` that the cohort has to lend. Only teams with a stack of their own lend the rest.
    """

    nominal: Mapping[str, ByPool]
    borrow: Mapping[str, ByPool]
    lent: Mapping[str, ByPool]
    lend: Mapping[str, ByPool]

    def uses(self, pool: str) -> bool:
        """Return whether the team has or may borrow anything of a pool."""
        return any(units.get(pool) for part in (self.nominal, self.borrow) for units in part.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How the pools are divided: the shares of each team, and by resource and pool what else there is.

    `cohorts` has what each cohort lends that no quota has, `reserve` what is kept for teams with their own stacks.
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
    """Return the most devices of a declared class on one node of a pool."""
    if not pool.nodes.max:
        return 0
    kind = "mig" if declared_type == "mig" else "gpu"
    return max_at_once(kind, [available.classes[name]], [pool], available.catalog) // pool.nodes.max


@dataclass(slots=True, kw_only=True)
class _Claim:
    """What one team, or the reserve, gets of one resource, while it is divided."""

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
    """Divide the pools among the teams of an environment, and its reserve among teams with a stack of their own.

    `work`: the declared work of each team. The quotas fit the pools together, which is checked before.
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
    cohorts = _for_cohorts(environment.teams, unassigned, offers)
    teams = (*environment.teams, *own_stack)
    lend = {team.name: _lend(team, nominal[team.name], offers) for team in teams}
    shares: dict[str, Shares] = {}
    for team in teams:
        own = nominal[team.name]
        of_stacks = _minus(kept, own) if team in own_stack else kept
        lendable = _lendable(team, environment.teams, lend, cohorts)
        borrow, lent = _borrow(team, own, offers, lendable, of_stacks)
        shares[team.name] = Shares(nominal=own, borrow=borrow, lent=lent, lend=lend[team.name])
    return Division(teams=shares, cohorts=cohorts, reserve=kept)


def _minus(kept: Mapping[str, ByPool], own: Mapping[str, ByPool]) -> dict[str, ByPool]:
    return {
        name: {pool: units - own[name].get(pool, 0) for pool, units in by_pool.items()}
        for name, by_pool in kept.items()
    }


def _claim(resource: str, quota: GpuUnits, purpose: str, work: Iterable[DeclaredJob]) -> _Claim:
    declared = units_by_pool(quota).get(resource)
    return _Claim(
        purpose=purpose,
        left=quota_units(quota).get(resource, 0),
        by_pool=declared,
        work=units_of_work(resource, work),
    )


def _divide(claims: Sequence[_Claim], offers: Sequence[Offer], free: dict[str, int]) -> None:
    """Give each claim its units: as declared by pool, for declared work, by purpose, then wherever they are."""
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
        # The largest first: a small quota fits what a large one leaves, and not the other way round.
        for claim, of_claim in sorted(zip(claims, suitable, strict=True), key=lambda one: -one[0].left):
            for offer in _in_order(claim, of_claim, free):
                name, there = offer.pool.name, free[offer.pool.name]
                whole = claim.left if claim.left <= there else there - there % max(offer.per_node, 1)
                _give(claim, name, whole, free)
    for claim in claims:  # parts of nodes, which no pool has whole
        for offer in _in_order(claim, offers, free):
            _give(claim, offer.pool.name, claim.left, free)


def _in_order(claim: _Claim, offers: Sequence[Offer], free: Mapping[str, int]) -> list[Offer]:
    """Return the pools in the order in which a claim is put on them."""

    def key(offer: Offer) -> tuple[bool, bool, bool, int, bool]:
        name = offer.pool.name
        fits = free[name] >= claim.left
        # Of pools that hold all of it, the one with the least room: smaller quotas come later.
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
    """Return what neither a quota nor the reserve has, by resource and pool.

    Several resources may be of the same GPUs (device classes): each GPU counts once, for the first of them that
    any quota has.
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


def _for_cohorts(
    teams: Sequence[Team], unassigned: Mapping[str, ByPool], offers: Offers
) -> dict[str, dict[str, dict[str, int]]]:
    """Divide what no quota has among cohorts: each pool by itself, so that none depends on another pool.

    Nobody gets more of a pool than its teams may borrow. What is left then is for teams with a stack of their own,
    which may be in any cohort.
    """
    # Without teams in the environment, teams with a stack of their own borrow in the default cohort.
    cohorts = sorted({queue_settings(team).cohort for team in teams}) or [TeamQueue().cohort]
    found: dict[str, dict[str, dict[str, int]]] = {one: {name: {} for name in offers} for one in cohorts}
    for name, of_resource in offers.items():
        spare = unassigned[name]
        limits = [(queue_settings(team).cohort, _most_borrowed(team, name, of_resource, spare)) for team in teams]
        for offer in of_resource:
            pool, left = offer.pool.name, spare.get(offer.pool.name, 0)
            order = sorted(cohorts, key=lambda one, pool=pool: _digest(pool, one))
            most = {one: sum(limit.get(pool, 0) for cohort, limit in limits if cohort == one) for one in order}
            borrowed = _in_turn(left, offer.per_node, most)
            rest = left - sum(borrowed.values())
            for_stacks = _in_turn(rest, offer.per_node, dict.fromkeys(order, rest))
            for one in order:
                if units := borrowed[one] + for_stacks[one]:
                    found[one][name][pool] = units
    return found


def _digest(pool: str, cohort: str) -> str:
    """Return what orders cohorts: by names alone, and not the same ones first on all pools."""
    return hashlib.sha256(f"{pool}/{cohort}".encode()).hexdigest()


def _in_turn(units: int, per_node: int, most: Mapping[str, int]) -> Mapping[str, int]:
    """Divide units node by node in turn, as long as somebody has less than its most."""
    given = dict.fromkeys(most, 0)
    while units and given != most:
        for one in most:
            part = min(max(per_node, 1), units, most[one] - given[one])
            given[one] += part
            units -= part
    return given


def _most_borrowed(team: Team, resource: str, offers: Sequence[Offer], lent: ByPool) -> ByPool:
    """Return the most that a team borrows of a resource by pool, of what is lent."""
    declared = queue_settings(team).borrow
    if declared is None:
        return lent if quota_units(team.quota).get(resource) else {}
    return _limited(resource, declared, lent, _for_purpose(team, offers))


def _lend(team: Team, nominal: Mapping[str, ByPool], offers: Offers) -> dict[str, ByPool]:
    """Return the most that a team lends; where it is not all, the pools of its purpose come last."""
    declared = queue_settings(team).lend
    if declared is None:
        return {name: dict(units) for name, units in nominal.items()}
    return {
        name: _limited(name, declared, nominal[name], reversed(_for_purpose(team, offers[name])))
        for name in offers
    }


def _lendable(
    team: Team,
    others: Sequence[Team],
    lend: Mapping[str, Mapping[str, ByPool]],
    cohorts: Mapping[str, Mapping[str, ByPool]],
) -> list[Mapping[str, ByPool]]:
    """Return what a team can borrow from in its environment: its cohort, and the other teams of it."""
    cohort = queue_settings(team).cohort
    of_teams = [lend[one.name] for one in others if one.name != team.name and queue_settings(one).cohort == cohort]
    return [*of_teams, cohorts.get(cohort, {})]


def _borrow(
    team: Team,
    nominal: Mapping[str, ByPool],
    offers: Offers,
    lendable: Sequence[Mapping[str, ByPool]],
    of_stacks: Mapping[str, ByPool],
) -> tuple[dict[str, ByPool], dict[str, ByPool]]:
    """Return the most that a team borrows, and the part of it that `lendable` has.

    `of_stacks`: quota of teams with their own stacks, which lend it from the day that they have it.
    """
    declared, own = queue_settings(team).borrow, quota_units(team.quota)
    most: dict[str, ByPool] = {}
    lent: dict[str, ByPool] = {}
    for name, of_resource in offers.items():
        now: dict[str, int] = {}
        later: dict[str, int] = {}
        for offer in of_resource if declared is not None or own.get(name) else ():
            pool = offer.pool.name
            beyond = offer.units - nominal[name].get(pool, 0)
            now[pool] = min(sum(part.get(name, {}).get(pool, 0) for part in lendable), beyond)
            later[pool] = min(of_stacks.get(name, {}).get(pool, 0), beyond - now[pool])
        if declared is not None:
            ordered = _for_purpose(team, of_resource)
            now = _limited(name, declared, now, ordered)
            later = _limited(name, declared, later, ordered, without=now)
        lent[name] = now
        most[name] = {pool: units + later.get(pool, 0) for pool, units in now.items()}
    return most, lent


def _limited(
    resource: str, declared: GpuUnits, most: ByPool, offers: Iterable[Offer], without: ByPool | None = None
) -> dict[str, int]:
    """Return declared units by pool: as the file divides them, or over the pools in an order.

    `without`: declared units that are given already.
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
    """Return pools in the order in which a team uses them: those for its purpose first, existing nodes first."""
    return sorted(pools, key=lambda pool: (pool.workload != purpose, pool.nodes.vary))

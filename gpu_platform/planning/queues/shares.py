"""Divide the quotas of teams over pools, so that all nominal quotas together fit each pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpu_platform.planning.dra.claims import type_of
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.available import Available, max_at_once
from gpu_platform.planning.teams.quota_of_pods import quota_units
from gpu_platform.spec.team import GpuUnits, Team, TeamQueue

ByPool = Mapping[str, int]
"""Units of one resource by name of the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One resource of one pool: units on a node, and over the most nodes that it may have; `gpus`: of a unit."""

    pool: PoolPlan
    per_node: int
    units: int
    gpus: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Nominal quota of a team, and the limits of what it borrows and lends, by resource and pool."""

    nominal: Mapping[str, ByPool]
    borrow: Mapping[str, ByPool]
    lend: Mapping[str, ByPool]

    def uses(self, pool: str) -> bool:
        """Return whether the team has or may borrow anything of a pool."""
        return any(units.get(pool) for part in (self.nominal, self.borrow) for units in part.values())


def queue_settings(team: Team) -> TeamQueue:
    """Return the declared `queue` of a team, or the defaults."""
    return team.queue or TeamQueue()


def offers_of(available: Available) -> Mapping[str, Sequence[Offer]]:
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


def divide(total: int, parts: Sequence[tuple[str, int, int]]) -> dict[str, int]:
    """Divide units over pools in proportion to their free units, by whole nodes where they suffice.

    `parts`: name of the pool, free units, units on a node. What does not fit is left out.
    """
    free = {name: units for name, units, _ in parts}
    on_node = {name: max(units, 1) for name, _, units in parts}
    given = dict.fromkeys(free, 0)
    all_free = sum(free.values())
    left = min(total, all_free)
    while left:
        name = max(
            (name for name in free if given[name] < free[name]),
            key=lambda name: Fraction(total * free[name], all_free) - given[name],
        )
        more = min(on_node[name], left, free[name] - given[name])
        given[name] += more
        left -= more
    return given


def divide_quotas(teams: Sequence[Team], offers: Mapping[str, Sequence[Offer]]) -> list[Shares]:
    """Return the shares of teams, whose quotas fit the pools together, in the order of the teams."""
    free = {name: {offer.pool.name: offer.units for offer in found} for name, found in offers.items()}
    return [_shares(team, offers, free) for team in teams]


def _shares(team: Team, offers: Mapping[str, Sequence[Offer]], free: dict[str, dict[str, int]]) -> Shares:
    queue, quota = queue_settings(team), quota_units(team.quota)
    nominal: dict[str, ByPool] = {}
    borrow: dict[str, ByPool] = {}
    lend: dict[str, ByPool] = {}
    for name, found in offers.items():
        here = free[name]
        own = divide(quota.get(name, 0), [(o.pool.name, here[o.pool.name], o.per_node) for o in found])
        for pool, units in own.items():
            here[pool] -= units
        nominal[name] = own
        others = [(o.pool.name, o.units - own[o.pool.name], o.per_node) for o in found]
        borrow[name] = divide(
            _limit(queue.borrow, name, quota.get(name, 0) and sum(o.units for o in found)), others
        )
        lend[name] = divide(
            _limit(queue.lend, name, quota.get(name, 0)),
            [(o.pool.name, own[o.pool.name], o.per_node) for o in found],
        )
    return Shares(nominal=nominal, borrow=borrow, lend=lend)


def _limit(declared: GpuUnits | None, resource: str, unset: int) -> int:
    return unset if declared is None else quota_units(declared).get(resource, 0)

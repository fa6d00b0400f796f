"""Rules about quotas, GPUs shared between teams, and the hourly budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import combinations

from pydantic import Field

from gpu_platform.base import names
from policies._gpu_operator import allocates_by_claims
from policies._inputs import NotVisible, Value
from policies._node_pool import NodePool
from policies._offers import shares, units_per_node
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import ObjectSubject, Resource, Stack
from policies.queues import reaches
from policies.teams import namespaces

_QUOTA_PREFIX = "requests."


def _promised(stack: Stack) -> dict[str, list[tuple[str, Value, Decimal]]]:
    """Return the quotas of the team namespaces by GPU resource, each with its namespace, path and amount.

    With queues, the quotas include the amounts that a team may borrow. Raises NotVisible.
    """
    teams = {space.resource.object_name for space in stack.view(namespaces) if space.team.present}
    found: dict[str, list[tuple[str, Value, Decimal]]] = {}
    for quota in stack.of_kind("core/ResourceQuota"):
        namespace = quota.seen_namespace()
        if namespace not in teams:
            continue
        spec = quota.inputs.get("spec")
        if spec.get("scopes").items() or spec.get("scopeSelector").present:
            continue
        for key, amount in spec.get("hard").entries():
            resource, units = key.removeprefix(_QUOTA_PREFIX), amount.quantity()
            if key.startswith(_QUOTA_PREFIX) and names.is_gpu_resource(resource) and units:
                found.setdefault(resource, []).append((namespace, amount, units))
    return found


def _capacity(stack: Stack) -> Mapping[str, int | None]:
    """Return the maximum amount of each GPU resource in all pools, or None if the pools have no limit.

    Raises NotVisible.
    """
    total: dict[str, int | None] = {}
    for pool in stack.view(pools):
        if not pool.has_gpus:
            continue
        units, nodes, gpus = units_per_node(stack, pool), pool.most_nodes, pool.most_gpus
        if nodes is None and gpus is not None:
            nodes = -(-gpus // pool.gpus_per_node)
        for resource, count in units.items():
            before = total.get(resource, 0)
            total[resource] = None if nodes is None or before is None else before + count * nodes
    return total


class _Quotas(ObjectSubject):  # pyrefly: ignore[bad-class-definition] - not a dataclass
    """A subject that stands for all quotas of a stack."""

    __slots__ = ()


def _all_quotas(stack: Stack) -> tuple[_Quotas, ...]:
    """Return one subject that stands for all quotas and has the resource of the first quota. Return nothing if
    there are no quotas.
    """
    return tuple(_Quotas(resource) for resource in stack.of_kind("core/ResourceQuota")[:1])


class CapacitySettings(Settings):
    """GPU capacity of pools that are deployed by another stack."""

    capacity: dict[str, int] = {}
    """In a team's stack, the maximum amount of each GPU resource in the pools of the environment."""


class OvercommitSettings(CapacitySettings):
    """Allowed overcommitment as the ratio of the sum of quotas to the capacity of the pools."""

    overcommit: float = Field(default=1.0, ge=1, le=100)


def _promised_too_much(stack: Stack, _: _Quotas, settings: OvercommitSettings) -> Iterator[Breach]:
    promised = _promised(stack)
    if not promised or allocates_by_claims(stack):
        return
    capacity = _known_capacity(stack, promised, settings)
    queued = {one.seen_namespace() for one in stack.of_kind("kueue.x-k8s.io/LocalQueue")}
    for resource, every in promised.items():
        quotas = [one for one in every if one[0] not in queued]
        total, most = sum(units for _, _, units in quotas), capacity.get(resource, 0)
        if most is None or most == 0 or total <= most * Decimal(str(settings.overcommit)):
            continue
        yield Breach(
            at=max(quotas, key=lambda one: one[2])[1],
            found=f"{total:f} of {resource} in all quotas ({_shares(quotas)})",
            allowed=f"at most {most}, the maximum of all pools"
            + (f", x {settings.overcommit:g}" if settings.overcommit > 1 else ""),
            fix="lower the quotas, raise the pools' maximum, or set overcommit and accept pending pods",
        )


def _known_capacity(
    stack: Stack, promised: Mapping[str, list[tuple[str, Value, Decimal]]], settings: CapacitySettings
) -> Mapping[str, int | None]:
    """Return the capacity in the settings or, if it is not set there, the capacity of the stack's pools. Raises
    NotVisible.
    """
    if settings.capacity:
        return settings.capacity
    if not any(pool.has_gpus for pool in stack.view(pools)):
        raise next(iter(promised.values()))[0][1].not_visible(
            "the GPU pools are not in this stack: set this rule's `capacity`"
        )
    return _capacity(stack)


def _shares(quotas: list[tuple[str, Value, Decimal]]) -> str:
    return ", ".join(f"{namespace} {units:f}" for namespace, _, units in quotas)


quota_exceeds_capacity = Rule(
    id="quota-exceeds-capacity",
    severity=Severity.CRITICAL,
    description="Quotas do not exceed the maximum of the pools. Otherwise pods within their quota can stay "
    "pending.",
    subjects=lambda stack: stack.view(_all_quotas),
    check=_promised_too_much,
    settings=OvercommitSettings,
)


def _promised_in_vain(stack: Stack, _: _Quotas, settings: CapacitySettings) -> Iterator[Breach]:
    promised = _promised(stack)
    if not promised or allocates_by_claims(stack):
        return
    capacity = _known_capacity(stack, promised, settings)
    for resource, quotas in promised.items():
        if capacity.get(resource, 0) == 0:
            yield Breach(
                at=quotas[0][1],
                found=f"a quota of {quotas[0][2]:f} of {resource} ({_shares(quotas)})",
                allowed="resources that a pool offers: " + (", ".join(sorted(capacity)) or "none"),
                fix="set it to 0, or add a pool that offers it",
            )


quota_unplaceable = Rule(
    id="quota-unplaceable",
    severity=Severity.HIGH,
    description="Every quota is for a resource that a pool offers. Otherwise the quota cannot be used.",
    subjects=lambda stack: stack.view(_all_quotas),
    check=_promised_in_vain,
    settings=CapacitySettings,
)


class TrustSettings(Settings):
    """Teams that may share a GPU without memory isolation."""

    trusted: tuple[tuple[str, ...], ...] = ()
    """Groups of namespaces whose teams trust each other."""


def _shared_by_strangers(stack: Stack, _: _Quotas, settings: TrustSettings) -> Iterator[Breach]:
    promised = _promised(stack)
    gaps: list[NotVisible] = []
    for resource, quotas in sorted(promised.items()):
        for teams, pool in _groups(stack, resource, quotas, gaps):
            if any(not _trust(one, other, settings.trusted) for one, other in combinations(teams, 2)):
                yield Breach(
                    at=[amount for namespace, amount, _ in quotas if namespace in teams][-1],
                    found=resource
                    + (f" (a share of a GPU on pool {pool!r})" if pool else "")
                    + f" for {', '.join(teams)}",
                    allowed="shares of a GPU for one team, or for teams in one group of `trusted`",
                    fix=(
                        f"use whole GPUs or MIG on pool {pool}"
                        if pool
                        else "give each team a pool or MIG instances"
                    )
                    + ", or list these teams as one group in the `trusted` setting of this rule",
                )
                break
    if gaps:
        raise gaps[0]


def _groups(
    stack: Stack, resource: str, quotas: list[tuple[str, Value, Decimal]], gaps: list[NotVisible]
) -> Iterator[tuple[list[str], str]]:
    """Yield the teams that can use a resource as shares of the same GPU, and the pool that offers the shares.

    The pool's name is empty if the resource name itself shows that it is a share. Errors about pool values that
    are not visible are added to `gaps`.
    """
    teams = sorted({namespace for namespace, _, _ in quotas})
    if resource.endswith(names.SHARED_SUFFIX):
        yield teams, ""
        return
    for pool in stack.view(pools):
        try:
            if pool.has_gpus and shares(stack, pool).get(resource) is False:
                yield [team for team in teams if reaches(stack, team, pool, resource)], pool.name
        except NotVisible as gap:
            gaps.append(gap)


def _trust(one: str, other: str, groups: tuple[tuple[str, ...], ...]) -> bool:
    return any(one in group and other in group for group in groups)


sharing_across_teams = Rule(
    id="sharing-across-tenants",
    severity=Severity.CRITICAL,
    description="Shares of a GPU belong to one team or to teams that trust each other, because memory is not "
    "isolated.",
    subjects=lambda stack: stack.view(_all_quotas),
    check=_shared_by_strangers,
    settings=TrustSettings,
)


class BudgetSettings(Settings):
    """Limit on the hourly cost of the stack's GPU nodes."""

    max_usd_per_hour: float | None = Field(default=None, gt=0)
    """Hourly budget at list prices. If unset, there is no budget."""
    region: str | None = None
    """Region of the prices. If unset, each machine type has the price of its most expensive region."""


def _too_expensive(stack: Stack, budget: _Fleet, settings: BudgetSettings) -> Iterator[Breach]:
    if settings.max_usd_per_hour is None:
        return
    total, parts = 0.0, list[str]()
    gaps: list[NotVisible] = []
    for pool in stack.view(pools):
        if not pool.has_gpus:
            continue
        try:
            cost = _most_of(stack, pool, settings.region)
        except NotVisible as gap:
            gaps.append(gap)
            continue
        total += cost
        parts.append(f"{pool.name} {cost:.0f}")
    if total > settings.max_usd_per_hour:
        yield Breach(
            at=Value(budget.resource.urn),
            found=f"up to {total:.2f} USD/h at list prices ({', '.join(parts)})",
            allowed=f"at most {settings.max_usd_per_hour:.2f} USD/h",
            fix="lower the pools' maximum, choose other machine types, or raise maxUsdPerHour",
        )
    elif gaps:
        raise gaps[0]


def _most_of(stack: Stack, pool: NodePool, region: str | None) -> float:
    """Return the maximum cost of a pool in USD/h at list prices. Raises NotVisible."""
    prices = [_price(stack, machine.name, region) for machine in pool.machines]
    nodes = pool.most_nodes
    if nodes is None and pool.most_gpus is not None:
        nodes = pool.most_gpus // min((machine.gpu_count for machine in pool.machines), default=1)
    if not prices or None in prices or nodes is None:
        raise Value(pool.resource.urn).not_visible("no list price, or no limit on the number of nodes")
    return nodes * max(price for price in prices if price is not None)


def _price(stack: Stack, machine_type: str, region: str | None) -> float | None:
    if region is not None:
        found = stack.catalog.price(stack.catalog.machine_types[machine_type], region)
        return None if found is None else found.usd_per_hour
    lists = stack.catalog.price_lists.values()
    everywhere = [usd for one in lists for usd in one.usd_per_hour.get(machine_type, {}).values()]
    return max(everywhere, default=None)


class _Fleet(ObjectSubject):  # pyrefly: ignore[bad-class-definition] - not a dataclass
    """A subject that stands for all pools of a stack. It has the resource of the first pool."""

    __slots__ = ()


def _fleet(stack: Stack) -> tuple[_Fleet, ...]:
    found: tuple[Resource, ...] = tuple(pool.resource for pool in stack.view(pools))
    return tuple(_Fleet(one) for one in found[:1])


cost_ceiling = Rule(
    id="cost-ceiling",
    severity=Severity.CRITICAL,
    description="The GPU nodes of the stack do not exceed its budget, with every pool at its maximum.",
    subjects=lambda stack: stack.view(_fleet),
    check=_too_expensive,
    settings=BudgetSettings,
)

RULES = (quota_exceeds_capacity, quota_unplaceable, sharing_across_teams, cost_ceiling)

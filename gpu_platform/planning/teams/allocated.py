"""Add up the quotas of all stacks on an environment, and compare the sum with the pools' resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_platform.base import names
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.quota_of_pods import quota_units
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.stack.environment import Environment

Quotas = Mapping[str, Mapping[str, str]]
"""Quotas of teams by namespace, in the notation of Kubernetes, such as `requests.nvidia.com/gpu: "4"`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverAllocation:
    """A resource for which the quotas of all teams add up to more units than the limit.

    `shares` contains the units by team. `limit` comes from `quota_limits`. `deployed` is the number of units in
    the currently deployed quotas.
    """

    resource: str
    shares: Mapping[str, int]
    limit: float
    deployed: int

    @property
    def total(self) -> int:
        """Units in all quotas."""
        return sum(self.shares.values())

    @property
    def grows(self) -> bool:
        """Whether this deployment raises the sum. If it does not, the sum was already too large."""
        return self.total > self.deployed

    def __str__(self) -> str:
        shares = ", ".join(f"{team} {count}" for team, count in self.shares.items())
        return f"{self.total} {self.resource} in the quotas of all stacks ({shares}), at most {self.limit:g}"


def quota_limits(environment: Environment, available: Available) -> Mapping[str, float]:
    """Return the maximum sum of the quotas of all stacks, by ResourceQuota key.

    With queues, the maximum is the reserve plus the quotas of the environment's teams, because queues lend all
    other units.
    """
    most = {resource: count * environment.overcommit for resource, count in available.units.items()}
    if environment.queueing is not None:
        granted = [quota_units(team.quota) for team in environment.teams]
        granted.append(quota_units(environment.queueing.reserve))
        most = {resource: float(sum(one.get(resource, 0) for one in granted)) for resource in most}
    return {names.quota_key(resource): count for resource, count in most.items()}


def over_allocated(
    teams: Sequence[TeamPlan], limits: Mapping[str, float], own: Quotas, others: Quotas
) -> tuple[OverAllocation, ...]:
    """Return each resource for which the quotas of all stacks add up to more units than `limits` allows.

    A resource is left out if only the teams in `teams` have a quota for it. `own` are the deployed quotas of the
    stack that contains `teams`. `others` are the deployed quotas of all other stacks on the environment.
    """
    planned: Quotas = {team_plan.namespace: team_plan.quota for team_plan in teams}
    found: list[OverAllocation] = []
    for key, limit in limits.items():
        elsewhere = {team: quota for team, quota in others.items() if team not in planned}
        shares = {
            team: units for team, quota in {**elsewhere, **planned}.items() if (units := int(quota.get(key, "0")))
        }
        before = sum(int(quota.get(key, "0")) for quota in {**elsewhere, **own}.values())
        from_elsewhere = any(team in elsewhere for team in shares)
        if from_elsewhere and sum(shares.values()) > limit:
            resource = key.removeprefix("requests.").removesuffix(names.DEVICE_QUOTA_SUFFIX)
            found.append(OverAllocation(resource=resource, shares=shares, limit=limit, deployed=before))
    return tuple(found)

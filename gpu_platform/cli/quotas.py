"""Reads the deployed quotas of all stacks on an environment, and compares their sum with the limit."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from gpu_platform.base.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.deploy.retention.team_stacks import DeployedQuota, deployed_quotas
from gpu_platform.live.client import Refused
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.planning import Plan
from gpu_platform.planning.teams import over_allocated

_OFFERED = (
    "the units that the pools offer, times overcommit",
    "lower the quota in this or another stack, raise a pool's count.max, or set overcommit",
)
_QUEUED = (
    "the quotas of the environment's teams and its queueing.reserve",
    "lower the quota in this or another stack, or raise queueing.reserve in the environment and deploy it",
)


def check_all_quotas(plan: Plan, cluster: ClusterAccess, *, is_deployed: bool) -> None:
    """Raise BadInput if a stack raises the sum of all quotas for a resource above the limit.

    Warn if the sum was already above the limit. `is_deployed` is false if the cluster cannot have other stacks
    yet. If the deployed quotas cannot be read, print a line.
    """
    if plan.cluster.cloud is not None and not is_deployed:
        return
    quotas = read_quotas(cluster)
    if quotas is None:
        return
    own = {name: quota.hard for name, quota in quotas.items() if quota.stack == plan.stack}
    others = {name: quota.hard for name, quota in quotas.items() if quota.stack != plan.stack}
    found = over_allocated(plan.teams, plan.quota_limits, own, others)
    if problems := [each for each in found if each.grows]:
        allowed, fix = _QUEUED if plan.queues else _OFFERED
        raise BadInput(
            f"stack {plan.stack}",
            [
                Problem(
                    "quotas",
                    str(each).partition(", at most")[0],
                    f"at most {each.limit:g}: {allowed}",
                    fix,
                )
                for each in problems
            ],
        )
    for each in found:
        print(f"warning: {each}", file=sys.stderr)


def read_quotas(cluster: ClusterAccess) -> Mapping[str, DeployedQuota] | None:
    """Return the deployed quotas by namespace.

    If they cannot be read, print a line to standard error and return None.
    """
    try:
        return deployed_quotas(cluster.client())
    except (UnknownOutcome, Refused) as reason:
        print(f"quotas of other stacks were not included: {reason}", file=sys.stderr)
        return None

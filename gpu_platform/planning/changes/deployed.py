"""Stack outputs about the software, the GPU resources and the teams of a deployment. The next preview reads them.

Their values are strings and whole numbers, which the state of each engine returns unchanged. The facts about pools
that decide whether nodes are replaced are in pool_facts.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from gpu_platform.base import names
from gpu_platform.base.quantity import duration_text
from gpu_platform.planning.cleanup.section import CleanupPlan
from gpu_platform.planning.clouds.storage import VolumePlan
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.plan import EnvironmentPlan, Plan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues import queue_of, team_queues
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.network import text_of_egress, text_of_ingress
from gpu_platform.planning.teams.section import TeamMember, TeamPlan
from gpu_platform.planning.workloads import TeamWorkloadsPlan, workloads_of

VOLUMES = "volumes"
"""Key in the output `teams` for the volumes that the team's own stack creates."""
NOT_DEPLOYED = "(none)"
"""Text for a version or layout that does not exist."""


def software_facts(plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Return the stack output `software`, with versions of Kubernetes and the GPU Operator, drivers, and sharing.

    The keys `kubernetes` and `operator` contain versions. The key `pools` contains for each pool: `driver`,
    `driver_at_boot`, `operands`, `sharing`, the MIG `layout`, `offers` (units on a node by extended resource),
    `labels` (only declared labels), `evicting_taints` and `schedule`. The key `cleanup` describes what the
    clean-up deletes. The key `fair_sharing` indicates whether Kueue divides borrowed quota fairly. It is None if
    the program does not configure Kueue.
    """
    return {
        "kubernetes": plan.cluster.kubernetes or NOT_DEPLOYED,
        "operator": plan.operator.release if plan.operator.install != "none" else NOT_DEPLOYED,
        "cleanup": cleanup_text(plan.cleanup),
        "fair_sharing": None
        if plan.queues is None or plan.queues.kueue.install == "present"
        else "fairSharing" in plan.queues.kueue.config,
        "pools": {
            pool.name: {
                "driver": driver_of(pool) if plan.operator.install != "none" else NOT_DEPLOYED,
                "driver_at_boot": driver_at_boot(pool),
                "operands": operands_of(pool, plan),
                "sharing": sharing_text(pool),
                "layout": layout_text(pool),
                "offers": pool.units_per_node,
                "labels": {key: value for key, value in pool.labels.items() if not _is_own(key)},
                "evicting_taints": [str(taint) for taint in evicting_taints(pool)],
                "schedule": None
                if pool.schedule is None
                else {"text": str(pool.schedule), "hours": pool.schedule.hours},
            }
            for pool in plan.pools
        },
    }


def cleanup_text(cleanup: CleanupPlan | None) -> str:
    """Return a description of the objects that the clean-up deletes in team namespaces, such as `objects that
    ended 168 h ago`, or `(none)` if it deletes nothing.
    """
    if cleanup is None or not cleanup.delete:
        return NOT_DEPLOYED
    ages = (
        ("objects that ended {} ago", cleanup.finished_after),
        ("objects that have been idle for {}", cleanup.idle_after),
    )
    found = [text.format(duration_text(seconds)) for text, seconds in ages if seconds is not None]
    return ", ".join([*found, "objects that have expired"])


def evicting_taints(pool: PoolPlan) -> tuple[Taint, ...]:
    """Return the taints of the pool's nodes that evict running pods."""
    return tuple(taint for taint in pool.taints if taint.effect == "NoExecute")


def _is_own(label: str) -> bool:
    """Return whether a label belongs to a domain that is reserved for the program."""
    domain, _, name = label.partition("/")
    return bool(name) and domain.endswith(names.RESERVED_DOMAINS)


def driver_of(pool: PoolPlan) -> str:
    """Return the driver version that the GPU Operator installs on the nodes, or `(none)` if it installs no
    driver.
    """
    return pool.driver_version or NOT_DEPLOYED if pool.software.driver == "operator" else NOT_DEPLOYED


def driver_at_boot(pool: PoolPlan) -> str:
    """Return the driver version that the platform's installer puts on new nodes, or `(none)` if there is no
    installer.
    """
    if pool.software.driver != "installer":
        return NOT_DEPLOYED
    return pool.driver_version or "that of the node image"


def operands_of(pool: PoolPlan, plan: EnvironmentPlan) -> list[str]:
    """Return which of the operands `toolkit` and `device_plugin` the operator runs on the nodes. The driver is not
    included.
    """
    if plan.operator.install == "none":
        return []
    present = {part.name for part in plan.operator.parts if not part.install}
    owners = {"toolkit": pool.software.toolkit, "device_plugin": pool.software.device_plugin}
    return [name for name, owner in owners.items() if owner == "operator" and name not in present]


def sharing_text(pool: PoolPlan) -> str:
    """Return how the GPUs or MIG instances of a pool are shared, such as `time-slicing, 4 replicas` or `none`."""
    sharing = pool.sharing
    return f"{sharing.mode}, {sharing.replicas} replicas" if sharing.replicas > 1 else sharing.mode


def layout_text(pool: PoolPlan) -> str:
    """Return the MIG layout of a pool's GPUs, such as `1g.10gb x7`, or `(none)` if it has no layout."""
    layouts = [
        ", ".join(f"{profile} x{count}" for profile, count in sorted(devices.layout.items()))
        + (f" on GPUs {', '.join(map(str, devices.devices))}" if devices.devices is not None else "")
        for devices in pool.sharing.mig_layouts
    ]
    return "; ".join(layouts) or NOT_DEPLOYED


def team_facts(plan: Plan) -> Mapping[str, Any]:
    """Return the stack output `teams`, with quota, queue, members, priorities, workloads and volumes by
    namespace.
    """
    # The output `cluster` contains the volumes of an environment.
    volumes = plan.volumes if plan.kind == "team" else ()
    queues = team_queues(plan.queues)
    return {
        team.namespace: {
            **_team(team, workloads_of(team.namespace, plan.workloads)),
            "queue": _queue(queue_of(team.namespace, queues)),
            VOLUMES: texts_of_volumes(volumes),
        }
        for team in plan.teams
    }


def texts_of_volumes(volumes: Sequence[VolumePlan]) -> list[str]:
    """Return team volumes as text, such as `vision/datasets: s3://acme-datasets/, read-only`."""
    return [f"{one.namespace}/{one.name}: {one.source}{', read-only' if one.read_only else ''}" for one in volumes]


def teams_of(outputs: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the output `teams` of a deployment. It is empty without a deployment, or if an older release was
    deployed.
    """
    teams: object = outputs.get("teams")
    if not isinstance(teams, Mapping):
        return {}
    found = cast("Mapping[str, object]", teams)
    return {name: cast("Mapping[str, Any]", facts) for name, facts in found.items() if isinstance(facts, Mapping)}


def member_text(member: TeamMember) -> str:
    """Return a member as text, such as `Group vision` or `ServiceAccount ci/runner`."""
    place = f"{member.namespace}/" if member.namespace else ""
    return f"{member.kind} {place}{member.name}"


def _team(team: TeamPlan, run: TeamWorkloadsPlan | None) -> Mapping[str, Any]:
    account = team.service_account
    return {
        "quota": dict(team.quota),
        "objects": {**team.object_quota, **team.addon_object_quota},
        "members": [member_text(member) for member in team.members],
        "admins": [member_text(member) for member in team.admins],
        "viewers": [member_text(member) for member in team.viewers],
        "priorities": list(team.priorities),
        "identity": list(account.rights) if account is not None else [],
        "image_pull_secrets": list(account.image_pull_secrets) if account is not None else [],
        "egress": [text_of_egress(one) for one in team.all_egress],
        "ingress": [text_of_ingress(one) for one in team.ingress],
        "workloads": [*(one.name for one in team.workloads), *(run.names if run is not None else ())],
        "pod_security": team.pod_security,
        "permissions": list(team.permissions),
    }


def _queue(queue: TeamQueuePlan | None) -> Mapping[str, Any]:
    """Return a team's queue as a mapping. It contains the queue's name, cohort and preemption, and the quota and
    borrowing limit for each resource and pool.
    """
    if queue is None:
        return {}
    own: dict[str, dict[str, int]] = {}
    borrowed: dict[str, dict[str, int]] = {}
    for flavor in (one for one in queue.flavors if one.pool is not None):
        for limit in flavor.limits:
            if limit.resource not in ("cpu", "memory") and names.quota_key(limit.resource) in queue.ceiling:
                own.setdefault(limit.resource, {})[str(flavor.pool)] = int(limit.nominal)
                borrowed.setdefault(limit.resource, {})[str(flavor.pool)] = int(limit.borrow)
    return {
        "name": queue.local_queue,
        "cohort": queue.cohort,
        "reclaim": queue.reclaim,
        "within_team": queue.within_queue,
        "own": own,
        "borrow": borrowed,
    }


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return a mapping from an output, or an empty mapping if the value is not a mapping."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def texts_of(value: object) -> list[str]:
    """Return a list of strings from an output, or an empty list if the value is not a list."""
    return [str(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def units_of(value: object) -> Mapping[str, int]:
    """Return unit counts by name from an output. The engines may return the counts as floats."""
    return {name: int(count) for name, count in mapping_of(value).items()}

"""Impact of changes to teams, such as removed rights, lower quotas, and the data of removed teams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.changes.deployed import (
    NOT_DEPLOYED,
    VOLUMES,
    mapping_of,
    team_facts,
    teams_of,
    texts_of,
    units_of,
)
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact, Part, Phase, short
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.plan import Plan
from gpu_platform.planning.queues import queue_of, team_queues
from gpu_platform.planning.queues.section import TeamQueuePlan

# Each entry has a key in the output `teams`, the right that the key grants, and the keys that include this right.
_RIGHTS = (
    ("admins", "rights of an admin in the namespace", ("admins",)),
    ("members", "rights in the namespace", ("members", "admins")),
    ("viewers", "the right to read the namespace", ("viewers", "members", "admins")),
    ("priorities", "the right to use the priority class", ("priorities",)),
    ("identity", "the right of pods with the service account team", ("identity",)),
    ("image_pull_secrets", "the Secret that new pods use to pull images", ("image_pull_secrets",)),
    ("egress", "access for new connections to these addresses", ("egress",)),
    ("ingress", "access for new connections from these sources to the team's pods", ("ingress",)),
    (
        "permissions",
        "permission: existing objects stay and keep working; new and changed objects that need it are refused",
        ("permissions",),
    ),
    (VOLUMES, "the volume: no pod can mount it, and nothing in it is deleted", (VOLUMES,)),
)

# Pod Security level that older releases enforced. They did not write the level into the output.
_POD_SECURITY_BEFORE = "baseline"
_UNLIMITED = "unlimited"
_LOST_PODS = (
    "while the team uses more than its quota and borrowing limit together, a pod that is lost to a drain, an "
    "upgrade or spot capacity is not replaced: after queueing.pods_ready_timeout, its workload goes back to the "
    "queue"
)


def leaving_teams(outputs: Mapping[str, Any], plan: Plan) -> set[str]:
    """Return the deployed teams that are no longer in the stack file."""
    return teams_of(outputs).keys() - {team.namespace for team in plan.teams}


def impacts_of_teams(
    before: Mapping[str, Mapping[str, Any]], plan: Plan, live: LiveState | None
) -> Iterator[Impact]:
    now = team_facts(plan)
    queues = team_queues(plan.queues)
    for namespace, facts in before.items():
        if namespace not in now:
            yield from _of_leaving(namespace, facts, live)
            continue
        yield from _of_team(namespace, facts, now[namespace], live, queue_of(namespace, queues))
    yield from _of_preemption(
        [
            (mapping_of(facts.get("queue")), now[namespace]["queue"])
            for namespace, facts in before.items()
            if namespace in now
        ]
    )


def _of_leaving(namespace: str, facts: Mapping[str, Any], live: LiveState | None) -> Iterator[Impact]:
    """Yield an impact for the rights and GPUs that a removed team loses. The team's declared workloads are
    reported separately.
    """
    subject = f"team {namespace}"
    deleted = Part(
        Phase.DELETION, subject, "its rights are deleted, and also its namespace if it contains no data"
    )
    yield Impact(
        subject=subject,
        effect=Effect.CUTS_ACCESS,
        field="teams",
        old=", ".join(texts_of(facts.get("members"))) or "no members",
        new=NOT_DEPLOYED,
        pods=(),
        data=() if live is None else live.data.get(namespace, ()),
        parts=(deleted,),
        because="the stack file no longer declares the team; its members lose their rights in the namespace",
    )
    gpus = {name: amount for name, amount in mapping_of(facts.get("quota")).items() if _of_gpus(name)}
    for impact in _of_quota(namespace, gpus, {}, {}, live, "no new pod gets a GPU in the namespace"):
        yield replace(impact, parts=(deleted,))


def _of_team(
    namespace: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    live: LiveState | None,
    queue: TeamQueuePlan | None,
) -> Iterator[Impact]:
    for key, what, keepers in _RIGHTS:
        kept = {text for keeper in keepers for text in new[keeper]}
        gone = [text for text in texts_of(old.get(key)) if text not in kept]
        if gone:
            left: str = ", ".join(new[key])
            yield Impact(
                subject=f"team {namespace}",
                effect=Effect.CUTS_ACCESS,
                field=key,
                old=", ".join(texts_of(old.get(key))),
                new=left or NOT_DEPLOYED,
                parts=(Part(Phase.TEAMS, f"team {namespace}", "rights"),),
                because=f"{', '.join(gone)}: lost {what}",
            )
    yield from _of_pod_security(namespace, old, new)
    yield from _of_quota(
        namespace,
        mapping_of(old.get("quota")),
        new["quota"],
        queue.ceiling if queue is not None else {},
        live,
        "running pods continue; new pods are refused above the quota"
        if queue is None
        else "running workloads continue; the queue starts the next workload when usage is below the quota; "
        f"{_LOST_PODS}",
    )
    if queue is not None:
        yield from _of_queue(namespace, mapping_of(old.get("queue")), new["queue"], queue, live)
    lower = _lower(mapping_of(old.get("objects")), new["objects"])
    if lower:
        kept = "existing objects stay, and new objects above the limit are refused"
        yield _less(namespace, "quota.objects", lower, kept)


def _of_quota(
    namespace: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    ceiling: Mapping[str, str],
    live: LiveState | None,
    kept: str,
) -> Iterator[Impact]:
    """Yield the impact of limits for GPUs, CPU and memory that are lower than before.

    `ceiling` contains the limits of the ResourceQuota that are above the quota because the team may borrow quota.
    """
    lower = _lower(old, new) if old else {}  # an older release did not write the quota
    if lower:
        allowed = {name: ceiling.get(name, limit) for name, (_, limit) in lower.items()}
        yield _less(namespace, "quota", lower, kept + _over_quota(namespace, allowed, live))


def _of_queue(
    namespace: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    queue: TeamQueuePlan,
    live: LiveState | None,
) -> Iterator[Impact]:
    """Yield the impact of a changed queue. It includes quota that the team loses on one pool although its total
    quota is not lower.
    """
    if not old:  # the team had no queue, or an older release did not write it
        return
    if old["name"] != new["name"]:
        yield _renamed(namespace, str(old["name"]), str(new["name"]))
    if old.get("cohort", new["cohort"]) != new["cohort"]:
        yield _of_cohort(namespace, str(old["cohort"]), str(new["cohort"]))
    moved: dict[str, tuple[str, str]] = {}
    less: dict[str, tuple[str, str]] = {}
    for resource in dict.fromkeys((*mapping_of(old["own"]), *mapping_of(new["own"]))):
        own, own_now, borrow, borrow_now = (
            units_of(mapping_of(facts[key]).get(resource)) for key in ("own", "borrow") for facts in (old, new)
        )
        for pool in dict.fromkeys((*own, *own_now)):
            before, now = own.get(pool, 0), own_now.get(pool, 0)
            if now < before and sum(own_now.values()) >= sum(own.values()):
                moved[f"{resource} on {pool}"] = (str(before), str(now))
            lent, lent_now = borrow.get(pool, 0), borrow_now.get(pool, 0)
            if lent_now < lent and now + lent_now < before + lent:
                less[f"{resource} borrowed on {pool}"] = (str(lent), str(lent_now))
    if moved:
        yield _less(
            namespace,
            "quota by pool",
            moved,
            "the quota is now on other pools; all pods of a job start on one pool, so a job larger than the "
            "remaining quota there needs borrowed quota or another pool",
        )
    if less:
        resources = {names.quota_key(text.partition(" borrowed on ")[0]) for text in less}
        allowed = {name: limit for name, limit in queue.ceiling.items() if name in resources}
        yield _less(
            namespace,
            "queue.borrow",
            less,
            "the team may borrow less there; workloads on borrowed quota run until a team of cohort "
            f"{new['cohort']} needs its own quota; {_LOST_PODS}{_over_quota(namespace, allowed, live)}",
        )


def _of_cohort(namespace: str, old: str, new: str) -> Impact:
    """Return the impact of a changed cohort. Quota that is borrowed across the old and new cohorts is not
    reclaimed.

    Source: kubernetes-sigs/kueue v0.19.2, pkg/scheduler/preemption (candidates are queues of the same cohort);
    read 2026-11-29.
    """
    patch = f'kubectl patch clusterqueue {namespace} --type merge -p \'{{"spec": {{"stopPolicy": "%s"}}}}\''
    return Impact(
        subject=f"team {namespace}",
        effect=Effect.REMOVES_CAPACITY,
        field="queue.cohort",
        old=f"cohort {old}",
        new=f"cohort {new}",
        parts=(Part(Phase.TEAMS, f"team {namespace}", "cohort"),),
        because="Kueue reclaims quota only within a cohort. "
        f"Quota that this team has borrowed in cohort {old}, and quota that teams there have borrowed from it, "
        "stays in use until the workloads finish; until then, the owners' next pods may find no free GPU. "
        "To stop the team's own workloads first, run "
        f"{patch % 'HoldAndDrain'}, then `up`, then {patch % 'None'}",
    )


_RECLAIM = {
    "Any": "any workload on borrowed quota",
    "LowerPriority": "workloads of lower priority classes on borrowed quota",
    "Never": "no workload on borrowed quota",
}
_WITHIN = {
    "LowerPriority": "workloads of lower priority classes of the same team",
    "Never": "no workload of the same team",
}


def _of_preemption(queues: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Iterator[Impact]:
    """Yield the impact of a changed preemption setting, which all queues share.

    `queues` contains the old and new facts of each queue. A queue is compared only if both exist: a queue may be
    new or removed, and older releases wrote no such facts.
    """
    for key, texts in (("reclaim", _RECLAIM), ("within_team", _WITHIN)):
        changes = {
            (old[key], new[key]) for old, new in queues if key in old and key in new and old[key] != new[key]
        }
        for old, new in sorted(changes):
            order = list(texts)
            fewer = order.index(new) > order.index(old)
            yield Impact(
                subject="queues",
                effect=Effect.REMOVES_CAPACITY if fewer else Effect.RESTARTS_PODS,
                field=f"queueing.preemption.{key}",
                old=f"a waiting workload preempts {texts[old]}",
                new=f"a waiting workload preempts {texts[new]}",
                parts=(Part(Phase.TEAMS, "queues", "preemption"),),
                because=_KEEPS[key]
                if fewer
                else "running workloads are preempted as soon as a waiting workload is entitled to their "
                "quota; the preempted workloads return to the queue and start from the beginning",
            )


_KEEPS = {
    "reclaim": "owners can no longer reclaim quota that they lend now: the borrowing workloads run until they "
    "finish, and the owners' workloads wait",
    "within_team": "a workload of a higher priority class waits until workloads of its team finish",
}


def _renamed(namespace: str, old: str, new: str) -> Impact:
    """Return the impact on members' workloads that name a deleted queue."""
    return Impact(
        subject=f"team {namespace}",
        effect=Effect.CUTS_ACCESS,
        field="queueing.without_queue",
        old=f"queue {old}",
        new=f"queue {new}",
        parts=(Part(Phase.TEAMS, f"team {namespace}", "queue"),),
        because=f"a label on members' objects names queue {old}, which is deleted: workloads that wait there "
        "never start, and new pods of Deployments, StatefulSets and CronJobs are refused, including pods "
        "that replace running ones. Members must write the label "
        f"{names.QUEUE_LABEL}: {new} on waiting Jobs, in spec.template.metadata of Deployments and StatefulSets "
        "and in spec.jobTemplate.metadata of CronJobs, and recreate waiting pods",
    )


def _less(namespace: str, field: str, lower: Mapping[str, tuple[str, str]], because: str) -> Impact:
    old, new = (", ".join(f"{short(name)}: {limits[side]}" for name, limits in lower.items()) for side in (0, 1))
    return Impact(
        subject=f"team {namespace}",
        effect=Effect.REMOVES_CAPACITY,
        field=field,
        old=_UNLIMITED if all(before == _UNLIMITED for before, _ in lower.values()) else old,
        new=new,
        parts=(Part(Phase.TEAMS, f"team {namespace}", "quota"),),
        because=because,
    )


def _lower(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, tuple[str, str]]:
    """Return the limits that are now lower, with their old and new values."""
    limits = {name: (limit_of(old, name), limit_of(new, name)) for name in dict.fromkeys((*old, *new))}
    return {name: (before, now) for name, (before, now) in limits.items() if _amount(now) < _amount(before)}


def limit_of(quota: Mapping[str, Any], name: str) -> str:
    """Return the limit of a quota for a resource. The program writes no limit for GPUs that no pool offers."""
    return str(quota.get(name, "0" if _of_gpus(name) else _UNLIMITED))


def _of_gpus(name: str) -> bool:
    return "/" in name and not name.startswith("count/")


def _amount(limit: str) -> Decimal:
    return Decimal("Infinity") if limit == _UNLIMITED else parse_quantity(limit)


def _of_pod_security(namespace: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Impact]:
    """Yield the impact of a changed Pod Security level on new pods. Existing pods are not evaluated again."""
    before, now = str(old.get("pod_security", _POD_SECURITY_BEFORE)), str(new["pod_security"])
    if before == now:
        return
    raised = now == "restricted"
    yield Impact(
        subject=f"team {namespace}",
        effect=Effect.CUTS_ACCESS if raised else Effect.IN_PLACE,
        field="pod_security",
        old=before,
        new=now,
        parts=(Part(Phase.TEAMS, f"team {namespace}", "Pod Security"),),
        because="running pods stay; new pods, including their replacements, are refused unless they run as a user "
        "other than root, with a seccomp profile and without capabilities"
        if raised
        else "new pods may run as root, without a seccomp profile and with the runtime's capabilities",
    )


def _over_quota(namespace: str, limits: Mapping[str, str], live: LiveState | None) -> str:
    """Return by how much the namespace exceeds the new limits, as text."""
    used: dict[str, int] = {}
    for pod in live.pods_in(namespace) if live is not None else ():
        for name, count in pod.units.items():
            used[names.quota_key(name)] = used.get(names.quota_key(name), 0) + count
    over = [
        f"{used[name]} x {short(name)} in use, {limit} allowed"
        for name, limit in limits.items()
        if used.get(name, 0) > parse_quantity(limit)
    ]
    return f"; now {', '.join(over)}" if over else ""

"""Checklist to go through before production. Each point is done, not done, not applicable or unknown.

The evidence comes from the plan and the resources that the program registers. A point is unknown if only the
cluster, the cloud's console or a person can confirm it. It then contains the question to ask.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

from gpu_platform.api.documents import Environment
from gpu_platform.api.plans import EnvironmentPlan, PoolPlan, kubernetes_warnings
from gpu_platform.api.program import ResourceRecord
from gpu_platform.catalog import Catalog, CloudResource

_SPOT: Final = "spot"
_SCRAPE: Final = (
    "write addons: {prometheus: install}, or monitoring: {prometheus_operator: true} if it is already running"
)
_SIMULATED: Final = "sandbox"
_AKS_CLUSTER: Final = "azure:containerservice/kubernetesCluster:KubernetesCluster"
_HOURS_A_MONTH: Final = 730  # same number of hours as in `budget`


class Status(StrEnum):
    """Status of a point on the checklist."""

    DONE = "done"
    NOT_DONE = "not done"
    NOT_APPLICABLE = "does not apply"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Subject of the checklist: a stack file with its plan, its resources, and the location of its state.

    `argument` is the stack's name in commands. `backend` is the URL of Pulumi's backend, or empty if none is
    configured.
    """

    argument: str
    spec: Environment
    plan: EnvironmentPlan
    resources: Sequence[ResourceRecord]
    backend: str
    today: datetime.date
    catalog: Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point on the checklist. `field` is the field to change in the stack file, or empty if the change is made
    elsewhere.
    """

    name: str
    status: Status
    evidence: tuple[str, ...]
    field: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    status: Status
    evidence: tuple[str, ...]
    field: str = ""
    fix: str = ""


@dataclass(slots=True)
class _Findings:
    """Evidence for a point, and what is missing. The first missing item determines the field to change in the
    stack file.
    """

    place: str
    evidence: list[str] = field(default_factory=list[str])
    lacks: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    questions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def lack(self, text: str, at: str, fix: str) -> None:
        self.lacks.append((text, at, fix))

    def found(self) -> _Found:
        """Return the result: not done if anything is missing, unknown if only questions remain, and done
        otherwise.
        """
        evidence = [*self.evidence, *(text for text, _, _ in self.lacks), *(text for text, _ in self.questions)]
        if self.lacks:
            return _Found(
                Status.NOT_DONE, tuple(evidence), self.lacks[0][1], "; ".join(fix for _, _, fix in self.lacks)
            )
        if self.questions:
            return _Found(Status.UNKNOWN, tuple(evidence), self.place, "; ".join(fix for _, fix in self.questions))
        return _Found(Status.DONE, tuple(evidence), self.place)


def checklist(subject: Subject) -> tuple[Point, ...]:
    """Return all points on the checklist in order."""
    points: list[Point] = []
    for name, check in _CHECKS.items():
        found = check(subject)
        points.append(
            Point(name=name, status=found.status, evidence=found.evidence, field=found.field, fix=found.fix)
        )
    return tuple(points)


def _not_applicable(why: str, field: str = "") -> _Found:
    return _Found(Status.NOT_APPLICABLE, (why,), field)


def _monitoring(subject: Subject) -> _Found:
    monitoring, found = subject.plan.monitoring, _Findings("monitoring")
    if monitoring is None:
        found.lack("no GPU metrics", "monitoring", "write monitoring: {enabled: true}")
    elif monitoring.service_monitor and monitoring.exporter:
        found.evidence.append(f"a ServiceMonitor scrapes {monitoring.exporter} every {monitoring.interval}")
    elif monitoring.pod_monitoring:
        scraped = monitoring.exporter or "the node agents"
        found.evidence.append(f"a PodMonitoring scrapes {scraped} every {monitoring.interval}")
    elif monitoring.exporter:
        found.lack(
            f"{monitoring.exporter} exports metrics, but nothing in the plan scrapes them",
            "monitoring",
            _SCRAPE,
        )
    else:
        found.questions.append(
            ("the cluster's owner or the cloud runs the GPU metrics exporter", "check that it is scraped")
        )
    return found.found()


def _alerts(subject: Subject) -> _Found:
    monitoring, found = subject.plan.monitoring, _Findings("monitoring")
    rules = 0 if monitoring is None else len(monitoring.alerts)
    if monitoring is None or not (monitoring.service_monitor or monitoring.pod_monitoring) or not rules:
        found.lack(
            "nothing evaluates alerts",
            "monitoring",
            _SCRAPE,
        )
    else:
        found.evidence.append(
            f"{'PrometheusRule' if monitoring.service_monitor else 'ClusterRules'} with {rules} alerts"
        )
        found.questions.append(
            (
                "Alertmanager decides who is notified",
                "send a test alert, and check that it reaches the person on call",
            )
        )
    return found.found()


def _quotas(subject: Subject) -> _Found:
    teams = subject.spec.teams
    if not teams:
        return _not_applicable("this file has no teams", "teams")
    found = _Findings("teams")
    for index, team in enumerate(subject.plan.teams):
        gpus = ", ".join(f"{value} {key}" for key, value in sorted(team.quota.items()) if value not in ("0", ""))
        if gpus:
            found.evidence.append(f"{team.namespace}: {gpus}")
        else:
            found.lack(f"{team.namespace} has an empty quota", f"teams[{index}].quota", "write its quota")
    if subject.spec.overcommit > 1:
        found.lack(
            f"overcommit {subject.spec.overcommit:g}: quotas exceed the capacity of the pools",
            "overcommit",
            "remove overcommit, or tell the teams that pods within their quotas may wait",
        )
    return found.found()


def _disruption_budgets(subject: Subject) -> _Found:
    services = [
        (team_index, index, service)
        for team_index, team in enumerate(subject.spec.teams)
        for index, service in enumerate(team.inference_services)
    ]
    deployed = [one for one in subject.resources if one.inputs.get("kind") == "PodDisruptionBudget"]
    if not services:
        return _not_applicable("this file has no inference services; members create their own budgets", "teams")
    found = _Findings("teams")
    if deployed:
        found.evidence.append(
            "PodDisruptionBudgets: " + ", ".join(str(one.inputs["metadata"]["name"]) for one in deployed)
        )
    for team_index, index, service in services:
        if service.replicas == 1 and service.autoscaling is None:
            found.lack(
                f"{service.name} has one replica, so each drain interrupts it",
                f"teams[{team_index}].inference_services[{index}]",
                f"write replicas: 2 for {service.name}",
            )
    return found.found()


def _spot(subject: Subject) -> _Found:
    spot = [pool for pool in subject.plan.pools if _is_spot(pool)]
    if not spot:
        return _not_applicable("no pool has spot capacity", "pools")
    found = _Findings("pools")
    on_spot = {pool.name for pool in spot}
    for team_index, team in enumerate(subject.spec.teams):
        for index, job in enumerate(team.training_jobs):
            if job.pool not in on_spot:
                continue
            if job.checkpoints is None:
                at = f"teams[{team_index}].training_jobs[{index}]"
                found.lack(f"{job.name} saves nothing", at, "write its checkpoints")
            else:
                kept = job.checkpoints
                found.evidence.append(
                    f"{job.name} on {job.pool} saves to {kept.directory}, with a grace period of {job.grace}"
                )
    found.evidence.append(
        f"spot: {', '.join(pool.name for pool in spot)}; the rule spot-for-stateful checks all other jobs"
    )
    return found.found()


def _is_spot(pool: PoolPlan) -> bool:
    return pool.capacity.get("type") == _SPOT


def _state(subject: Subject) -> _Found:
    if subject.plan.cluster.provider == _SIMULATED:
        return _not_applicable("a sandbox, which keeps all its state in its data folder")
    found, backend = _Findings(""), subject.backend
    scheme = backend.partition("://")[0]
    if not backend:
        found.lack("no Pulumi backend is configured", "", "set PULUMI_BACKEND_URL, or backend.url in Pulumi.yaml")
    elif scheme == "file":
        found.lack(f"{backend}: exists only on this machine", "", "move the state to a bucket or to Pulumi Cloud")
    elif scheme in {"s3", "gs", "azblob"}:
        found.evidence.append(f"backend {backend}")
        found.questions.append(
            ("the program does not know whether the bucket keeps old versions", "enable versioning of the bucket")
        )
    else:
        found.evidence.append(f"backend {backend}, which keeps the history of each stack")
    return found.found()


def _upgrades(subject: Subject) -> _Found:
    found, plan = _Findings("changes"), subject.plan
    for warning in kubernetes_warnings(plan, subject.argument, subject.today, subject.catalog):
        found.lack(warning, "cluster.kubernetes", f"run gpu-platform upgrade {subject.argument}")
    if plan.cluster.kubernetes is None:
        found.questions.append(
            (
                "the plan does not know the cluster's Kubernetes version",
                f"run gpu-platform upgrade {subject.argument}",
            )
        )
    else:
        found.evidence.append(f"Kubernetes {plan.cluster.kubernetes}, GPU Operator {plan.operator.release}")
    if subject.spec.changes.window is None:
        found.lack(
            "no maintenance window: nodes may be replaced at any time",
            "changes",
            "write changes: {window: {days: [sat], start: '22:00', duration: 4h}}",
        )
    else:
        window = subject.spec.changes.window
        found.evidence.append(
            f"nodes change on {', '.join(window.days)} from {window.start}, for {window.duration}"
        )
    return found.found()


def _encryption(subject: Subject) -> _Found:
    if subject.plan.cluster.provider == _SIMULATED:
        return _not_applicable("a sandbox, whose data is on this machine")
    found = _Findings("cluster")
    created = False
    for one in subject.resources:
        known = subject.catalog.cloud_resources.get(one.type)
        if known is not None and known.kubernetes is not None:
            created = True
            _check_cluster(one, known, found)
        elif one.type == "aws:ec2/launchTemplate:LaunchTemplate":
            _check_volumes(one, found)
    unencrypted = [one for one in subject.resources if _is_plain_class(one)]
    for one in unencrypted:
        found.lack(
            f"storage class {one.inputs['metadata']['name']} creates volumes without encryption",
            "storage",
            "remove it",
        )
    if not created:
        found.questions.append(
            (
                "the owner of the cluster decides about encryption",
                "ask whether Secrets in etcd and node disks are encrypted",
            )
        )
    return found.found()


def _check_volumes(template: ResourceRecord, found: _Findings) -> None:
    disks = [one.get("ebs", {}) for one in template.inputs.get("blockDeviceMappings", ())]
    if all(str(disk.get("encrypted")).lower() == "true" for disk in disks):
        if disks:
            found.evidence.append(f"volumes of {template.name}: encrypted")
    else:
        found.lack(f"volumes of {template.name} are not encrypted", "pools", "set disk.kms_key")


def _is_plain_class(one: ResourceRecord) -> bool:
    parameters = one.inputs.get("parameters")
    return (
        one.type.endswith(":StorageClass")
        and one.inputs.get("provisioner") == "ebs.csi.aws.com"
        and cast("dict[str, Any]", parameters or {}).get("encrypted") != "true"
    )


def _identities(subject: Subject) -> _Found:
    if not subject.spec.teams:
        return _not_applicable("this file has no teams", "teams")
    found = _Findings("teams")
    for index, (team, team_plan) in enumerate(zip(subject.spec.teams, subject.plan.teams, strict=True)):
        people = [one for one in (*team.members, *team.admins) if one.startswith("user:")]
        if people:
            found.lack(
                f"{team.name} names individual users ({', '.join(people)}), who keep access when they leave",
                f"teams[{index}].members",
                "use groups of your identity provider instead",
            )
        else:
            found.evidence.append(f"{team.name}: members {', '.join(team.members)}")
        rights = () if team_plan.service_account is None else team_plan.service_account.rights
        found.evidence.append(
            f"{team.name}: its pods may {', '.join(rights)}"
            if rights
            else f"{team.name}: its pods have no cloud rights"
        )
    return found.found()


def _network(subject: Subject) -> _Found:
    if subject.plan.cluster.provider == _SIMULATED:
        return _not_applicable("a sandbox, which runs no containers")
    if not subject.spec.teams:
        return _not_applicable("this file has no teams", "teams")
    found = _Findings("teams")
    closed = {team_plan.namespace for team_plan in subject.plan.teams}
    policies = [one for one in subject.resources if one.type.endswith(":NetworkPolicy")]
    guarded = {str(one.inputs["metadata"].get("namespace")) for one in policies}
    found.evidence.append(f"{len(policies)} NetworkPolicies in {', '.join(sorted(guarded & closed))}")
    for namespace in sorted(closed - guarded):
        found.lack(
            f"{namespace} has no NetworkPolicy",
            "teams",
            "report this defect, because every team must have NetworkPolicies",
        )
    for index, team in enumerate(subject.spec.teams):
        if team.allow_bare_pods:
            found.lack(
                f"{team.name} admits pods without a controller, for which AWS does not guarantee network policies",
                f"teams[{index}].allow_bare_pods",
                "remove the field, unless Cilium or Calico enforces network policies on this cluster",
            )
    enforced = _enforced(subject.resources)
    if enforced is None:
        found.questions.append(
            ("NetworkPolicies need a network plugin that enforces them", "ask the owner of the cluster")
        )
    elif enforced:
        found.evidence.append(enforced)
    else:
        found.lack("the network plugin of the plan does not enforce NetworkPolicies", "cluster", "report it")
    return found.found()


def _check_cluster(cluster: ResourceRecord, known: CloudResource, found: _Findings) -> None:
    """Add whether the cluster's data is encrypted, and with whose keys."""
    keys = [what for field, what in known.own_keys.items() if cluster.inputs.get(field)]
    if (vendor := known.always_encrypted_by) is not None:
        found.evidence.append(
            f"the cluster's Secrets and all disks are encrypted, by default with {vendor}'s keys"
        )
        found.evidence += [f"{what}: encrypted with a key that you manage" for what in keys]
    elif "Secrets" in keys:
        found.evidence.append("the cluster's Secrets are encrypted with a KMS key")
    else:
        found.lack(
            "the cluster's Secrets are not encrypted with a KMS key that you manage",
            "cluster.create",
            "set kms_key",
        )


def _enforced(resources: Sequence[ResourceRecord]) -> str | None:
    """Describe how NetworkPolicies are enforced.

    The result is empty if nothing enforces them, and None if that is up to the cluster's owner.
    """
    for one in resources:
        if one.type == "aws:eks/addon:Addon" and one.inputs.get("addonName") == "vpc-cni":
            settings = json.loads(one.inputs.get("configurationValues") or "{}")
            on = str(settings.get("enableNetworkPolicy")).lower() == "true"
            return "enforced by the VPC CNI" if on else ""
        if one.type == "gcp:container/cluster:Cluster":
            on = one.inputs.get("datapathProvider") == "ADVANCED_DATAPATH"
            return "enforced by Dataplane V2" if on else ""
        if one.type == _AKS_CLUSTER:
            policy = cast("dict[str, Any]", one.inputs.get("networkProfile") or {}).get("networkPolicy")
            return f"enforced by {str(policy).capitalize()}" if policy else ""
    return None


def _budget(subject: Subject) -> _Found:
    if subject.plan.cluster.provider == _SIMULATED:
        return _not_applicable("a sandbox, whose nodes cost nothing")
    found, cost = _Findings("policy"), subject.plan.cost
    most = cost.most_usd_per_hour
    if most is not None:
        found.evidence.append(f"at most {most:,.2f} USD/h with every pool at its maximum ({cost.prices_text})")
    budget = subject.spec.budget
    settings = cast("dict[str, Any]", subject.plan.policy.config.get("cost-ceiling") or {})
    ceiling = settings.get("maxUsdPerHour")
    if budget is not None:
        found.place = "budget"
        found.evidence.append(f"budget {budget.usd_per_month:,.0f} USD a month, with an alert")
    if ceiling is not None:
        found.evidence.append(f"the rule cost-ceiling refuses more than {ceiling} USD/h")
    if budget is None and ceiling is None:
        value = "AMOUNT" if most is None else str(math.ceil(most * _HOURS_A_MONTH))
        found.lack(
            "no budget: anyone who edits the file can raise the maximum of a pool",
            "budget",
            f"write budget: {{usd_per_month: {value}}}",
        )
    return found.found()


def _validated(subject: Subject) -> _Found:
    found, validation = _Findings("validation"), subject.plan.validation
    if validation.gate:
        minutes = validation.timeout_seconds // 60
        found.evidence.append(f"up waits at most {minutes} min for every node of every pool to pass")
    else:
        found.lack("up does not wait for the validation of nodes", "validation.gate", "write gate: true")
    unknown = sorted({pool.name for pool in subject.plan.pools if not pool.has_gpus})
    if unknown:
        found.evidence.append(f"without GPUs and therefore not validated: {', '.join(unknown)}")
    return found.found()


_CHECKS: Final[dict[str, Callable[[Subject], _Found]]] = {
    "monitoring": _monitoring,
    "alerts": _alerts,
    "quotas": _quotas,
    "disruption budgets": _disruption_budgets,
    "spot capacity with checkpoints": _spot,
    "backups of state": _state,
    "upgrade path": _upgrades,
    "encryption": _encryption,
    "identities": _identities,
    "network policy": _network,
    "cost budget": _budget,
    "validated nodes": _validated,
}


def missing(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the points that are not done."""
    yield from (point for point in points if point.status is Status.NOT_DONE)

"""Reads the pod spec fields that the scheduler uses: requests, node selection, tolerations, priority, claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extensions.capacity.pod_sources.manifest_mapping import ManifestMapping
from extensions.capacity.pod_sources.requests import PodContainers, add_defaults, read_containers
from extensions.capacity.scheduling.model import Expression, PodGroup, Toleration
from gpu_platform.api.plans import EnvironmentPlan, TeamPlan
from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean

# Values of the priority classes that Kubernetes defines (scheduling/v1, SystemCriticalPriority), read 2026-11-23.
_SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_TERMS: Final = "nodeSelectorTerms"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

Claims = Mapping[str, Mapping[str, int] | str]
"""Maps the name of a claim or template to its devices by class, or to the reason why it is not simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A workload that is not placed, with the reason."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Names that the pods of a file may refer to: the plan's teams and priority classes, and claims."""

    plan: EnvironmentPlan
    claims: Mapping[str, Claims] = field(default_factory=dict[str, Claims])
    """Claims and claim templates of the file or the cluster, by namespace."""

    def team_plan(self, team: str) -> TeamPlan | None:
        """Return a team's plan, or None if the namespace does not belong to a team of the stack."""
        return next((one for one in self.plan.teams if one.namespace == team), None)

    def claim(self, team: str, name: str) -> Mapping[str, int] | str:
        """Return the devices of a claim, or the reason why they are unknown."""
        found = self.claims.get(team, {}).get(name)
        if found is not None:
            return found
        team_plan = self.team_plan(team)
        planned = next((one for one in team_plan.claims if one.name == name), None) if team_plan else None
        if planned is None:
            return f"resource claim {name} is neither in the file nor in the stack"
        return devices_of(planned.device_class, planned.count, planned.selectors)


def devices_of(device_class: str, count: int, selectors: Sequence[object]) -> Mapping[str, int] | str:
    """Return the devices of a request for whole GPUs, or the reason why the request is not simulated."""
    if device_class == names.GPU_DEVICE_CLASS and not selectors:
        return {device_class: count}
    what = f"device class {device_class}" if device_class != names.GPU_DEVICE_CLASS else "a device selector"
    return f"claims of {what} are not simulated, only claims of whole GPUs of class {names.GPU_DEVICE_CLASS}"


def read_pod(
    spec: ManifestMapping, cluster: Cluster, *, team: str, name: str, kind: str, count: int
) -> PodGroup | Skipped:
    """Return a group of pods from the spec of pods that are not yet in the cluster. Problems are added to the
    spec's list of problems.
    """
    containers = read_containers(spec)
    team_plan = cluster.team_plan(team)
    selector = spec.texts("nodeSelector")
    tolerations = tuple(_tolerations(spec))
    priority_class = spec.text("priorityClassName")
    if team_plan is not None:
        add_defaults(containers, selector, team_plan)
        defaults = team_plan.pod_defaults
        if defaults is not None and _requests_gpus(containers, spec):
            tolerations = (*tolerations, *_default_tolerations(team_plan, containers, spec))
            priority_class = priority_class or defaults.priority_class
    claimed = claimed_devices(spec, cluster, team)
    if isinstance(claimed, str):
        return Skipped(name=f"{team}/{name}", why=claimed)
    requests = containers.requests()
    for device_class, devices in claimed.items():
        requests[device_class] = requests.get(device_class, 0) + devices
    return PodGroup(
        name=name,
        team=team,
        kind=kind,
        count=count,
        requests=requests,
        scored=containers.scored(),
        node_selector=selector,
        affinity=tuple(_affinity(spec)),
        tolerations=tolerations,
        priority=_priority(spec, priority_class, cluster.plan),
        priority_class=priority_class,
        not_simulated=tuple(not_simulated(spec)),
    )


def read_existing_pod(
    spec: ManifestMapping, devices: Mapping[str, int], *, team: str, name: str, kind: str
) -> PodGroup:
    """Return a pod to which the API server has already added defaults. `devices` contains the devices of its
    claims.
    """
    containers = read_containers(spec)
    requests = containers.requests()
    for device_class, count in devices.items():
        requests[device_class] = requests.get(device_class, 0) + count
    return PodGroup(
        name=name,
        team=team,
        kind=kind,
        requests=requests,
        scored=containers.scored(),
        node_selector=spec.texts("nodeSelector"),
        affinity=tuple(_affinity(spec)),
        tolerations=tuple(_tolerations(spec)),
        priority=spec.number("priority", 0),
        priority_class=spec.text("priorityClassName"),
        admitted=True,
        not_simulated=tuple(not_simulated(spec)),
    )


def claimed_devices(spec: ManifestMapping, cluster: Cluster, team: str) -> Mapping[str, int] | str:
    """Return the devices of all claims of a pod by device class, or the reason why they are not simulated."""
    total: dict[str, int] = {}
    for one in spec.items("resourceClaims"):
        found = cluster.claim(team, one.text("resourceClaimTemplateName") or one.text("resourceClaimName"))
        if isinstance(found, str):
            return found
        for device_class, count in found.items():
            total[device_class] = total.get(device_class, 0) + count
    return total


def not_simulated(spec: ManifestMapping) -> Iterator[str]:
    """Yield the fields that affect the choice of a node in a cluster but are not simulated."""
    affinity = spec.at("affinity")
    for key in ("podAffinity", "podAntiAffinity"):
        if affinity.at(key).value:
            yield key
    if affinity.at("nodeAffinity").value.get(_PREFERRED):
        yield "preferred node affinity"
    if any(one.text("whenUnsatisfiable") != "ScheduleAnyway" for one in spec.items("topologySpreadConstraints")):
        yield "topologySpreadConstraints"
    if any(one.value.get("hostPort") for each in spec.items("containers") for one in each.items("ports")):
        yield "hostPort"
    if any("persistentVolumeClaim" in one.value for one in spec.items("volumes")):
        yield "zones and number of volumes"


def _requests_gpus(containers: PodContainers, spec: ManifestMapping) -> bool:
    requested = {name for one in (*containers.main, *containers.init) for name, n in one.requests.items() if n}
    return bool(spec.value.get("resourceClaims")) or any(map(names.is_gpu_resource, requested))


def _default_tolerations(team: TeamPlan, containers: PodContainers, spec: ManifestMapping) -> Iterator[Toleration]:
    requested = {name for one in (*containers.main, *containers.init) for name, n in one.requests.items() if n}
    for one in team.pod_defaults.tolerations if team.pod_defaults is not None else ():
        if requested & set(one.resources) or (one.claims and spec.value.get("resourceClaims")):
            yield Toleration(key=one.taint, operator="Exists", effect=one.effect)


def _tolerations(spec: ManifestMapping) -> Iterator[Toleration]:
    for one in spec.items("tolerations"):
        yield Toleration(
            key=one.text("key"),
            operator=one.text("operator") or "Equal",
            value=one.text("value"),
            effect=one.text("effect"),
        )


def _affinity(spec: ManifestMapping) -> Iterator[tuple[Expression, ...]]:
    for term in spec.at("affinity", "nodeAffinity", _REQUIRED).items(_TERMS):
        found = [(one, one.text("key")) for one in term.items("matchExpressions")]
        # The only key of matchFields is the node's name, which the hostname label contains as well.
        found += [(one, names.HOSTNAME_LABEL) for one in term.items("matchFields")]
        yield tuple(
            Expression(
                key=key, operator=one.text("operator"), values=tuple(map(str, one.value.get("values") or ()))
            )
            for one, key in found
        )


def _priority(spec: ManifestMapping, name: str, plan: EnvironmentPlan) -> int:
    known = {**_SYSTEM_CLASSES, **{one.name: one.value for one in plan.priority_classes}}
    if name and name not in known:
        own = [one.name for one in plan.priority_classes]
        spec.problem(
            "priorityClassName",
            repr(name),
            f"a priority class of the stack: {', '.join(own) or 'it has none'}",
            did_you_mean(name, own),
        )
    return known.get(name, 0)

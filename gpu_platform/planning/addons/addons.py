"""Check and plan the add-ons of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gpu_platform.planning.addons.known import GATEWAY_CLASS, HIDDEN_CONTROL_PLANE, KNOWN, PROMETHEUS_KEEPS
from gpu_platform.planning.addons.section import AddonPlan, AddonsPlan
from gpu_platform.planning.clouds.closed_ports import name_closed_ports
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.addons import Addons


def check(addons: Addons, cloud: Cloud, problems: Problems) -> None:
    """Record add-ons that the cluster cannot have."""
    here = problems.at("addons")
    for name, part in _declared(addons).items():
        if part == "install" and not cloud.installs_charts:
            here.at(name).add(
                "install on a cluster without Helm charts",
                "install on EKS, GKE or an existing cluster; the sandbox runs no containers",
                "remove it",
            )
        elif part == "present" and cloud.creates_cluster:
            here.at(name).add(
                "present on a new cluster", "present only on an existing cluster", "write install, or remove it"
            )


def plan(context: CompleteContext) -> Decided[AddonsPlan]:
    """Return the add-ons of an environment without problems: those of the stack file, and what they need."""
    declared, cloud = _declared(context.environment.addons), context.cloud
    wanted = {
        need: "install" for name, part in declared.items() if part == "install" for need in KNOWN[name].needs
    }
    parts = {name: declared.get(name) or wanted.get(name) for name in KNOWN}
    addons = tuple(
        _plan_addon(name, part == "install", context) for name, part in parts.items() if part is not None
    )
    gateway = any(addon.name == "gateway" and addon.install for addon in addons)
    section = AddonsPlan(addons=addons, gateway_class=GATEWAY_CLASS if gateway else None)
    ports = {KNOWN[one.name].title: context.catalog.charts[one.chart].api_ports for one in section.addons}
    closed = name_closed_ports("addons", ports, cloud)
    decisions = (*_needed(declared, parts), *closed, *_kept(section, context))
    return Decided(section, decisions)


def addon_parts(addons: AddonsPlan) -> tuple[PartPlan, ...]:
    """Return the add-ons as controllers that a cluster has once."""
    return tuple(
        PartPlan(
            name=addon.name,
            field=f"addons.{addon.name}",
            title=KNOWN[addon.name].title,
            install=addon.install,
            kind="Deployment",
            label=KNOWN[addon.name].label,
            image=KNOWN[addon.name].image,
            alone="two would act on the same objects, and share the CRDs",
        )
        for addon in addons.addons
    )


def _declared(addons: Addons) -> dict[str, str]:
    return {name: part for name in KNOWN if (part := getattr(addons, name)) is not None}


def _plan_addon(name: str, install: bool, context: CompleteContext) -> AddonPlan:
    known = KNOWN[name]
    chart = context.catalog.charts[known.chart]
    return AddonPlan(
        name=name,
        install=install,
        chart=chart.name,
        repository=chart.repository,
        version=chart.version,
        namespace=chart.namespace,
        values=_values(name, context),
        after=known.needs,
    )


def _values(name: str, context: CompleteContext) -> Mapping[str, Any]:
    values = dict(KNOWN[name].values)
    if name != "prometheus":
        return values
    if context.cloud.managed_control_plane:
        values |= {component: {"enabled": False} for component in HIDDEN_CONTROL_PLANE}
    if _has_volume(context):
        spec = values["prometheus"]["prometheusSpec"]
        own = {key: value for key, value in spec.items() if key not in PROMETHEUS_KEEPS}
        values["prometheus"] = {**values["prometheus"], "prometheusSpec": own}
    return values


def _has_volume(context: CompleteContext) -> bool:
    """Return whether values of the stack file give Prometheus a volume; what it keeps is then theirs, too."""
    settings = context.environment.charts.get(KNOWN["prometheus"].chart)
    here: object = settings.values if settings is not None else None
    for key in ("prometheus", "prometheusSpec", "storageSpec"):
        here = cast("Mapping[str, object]", here).get(key) if isinstance(here, Mapping) else None
    return here is not None


def _kept(section: AddonsPlan, context: CompleteContext) -> tuple[Decision, ...]:
    """Return how long Prometheus keeps what it measured, where no volume keeps it."""
    if not any(one.name == "prometheus" and one.install for one in section.addons) or _has_volume(context):
        return ()
    return (
        Decision(
            subject="addons",
            what="metrics",
            chosen="{retention}, at most {retentionSize}, on its node's disk".format_map(PROMETHEUS_KEEPS),
            why="they are lost when Prometheus moves to another node; with a volume they stay as long as its "
            f"retention says: prometheus.prometheusSpec.storageSpec in charts.{KNOWN['prometheus'].chart}.values",
        ),
    )


def _needed(declared: Mapping[str, str], parts: Mapping[str, str | None]) -> tuple[Decision, ...]:
    """Return the add-ons that other settings need and the stack file does not name, each with the reason."""
    return tuple(
        Decision(
            subject="addons",
            what=name,
            chosen="install",
            why="needed by " + ", ".join(other for other in declared if name in KNOWN[other].needs),
        )
        for name, part in parts.items()
        if part is not None and name not in declared
    )

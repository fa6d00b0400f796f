"""Check and plan the add-ons of an environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, cast

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import Catalog
from gpu_platform.planning.addons.known import GATEWAY_CLASS, HIDDEN_CONTROL_PLANE, KNOWN, PROMETHEUS_KEEPS
from gpu_platform.planning.addons.section import AddonPlan, AddonsPlan
from gpu_platform.planning.clouds.closed_ports import name_closed_ports
from gpu_platform.planning.clouds.part_crds import needed, needed_of_owner
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.clouds.section import ClusterPlan
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.addons import Addons

# Paths in the Prometheus chart's values that declare the volumes of its pods.
_VOLUMES: Final = {
    "Prometheus": ("prometheus", "prometheusSpec", "storageSpec"),
    "Alertmanager": ("alertmanager", "alertmanagerSpec", "storage"),
}
# Share of a volume for metrics. The rest is for the write-ahead log and for blocks that are being compacted.
# Source: Prometheus docs, Storage, Right-Sizing Retention Size; read 2026-12-01.
_KEPT_SHARE: Final = Decimal("0.8")
# These labels are on all system nodes, so a node selector with only these labels selects no particular pool.
_ON_SYSTEM_NODES: Final = {**names.OS_LABELS, "kubernetes.io/arch": "amd64"}


def check(addons: Addons, cloud: Cloud, problems: Problems) -> None:
    """Record a problem for each add-on that the cluster does not support."""
    here = problems.at("addons")
    for name, part in _declared(addons).items():
        if part == "install" and not cloud.installs_charts:
            here.at(name).add(
                "install on a cluster without Helm charts",
                "install on a cloud or an existing cluster; the sandbox runs no containers",
                "remove it",
            )
        elif part == "present" and cloud.creates_cluster:
            here.at(name).add(
                "present on a new cluster", "present only on an existing cluster", "write install, or remove it"
            )


def plan(context: CompleteContext, cluster: ClusterPlan, pools: Sequence[PoolPlan]) -> Decided[AddonsPlan]:
    """Return the declared add-ons, and the add-ons that they require.

    The environment must have no problems.
    """
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
    decisions = (
        *_needed(declared, parts),
        *_of_owner(section, context.catalog),
        *closed,
        *_kept(section, context),
        *_unsent_alerts(section, context),
        *_left_volumes(section, context, cluster, pools),
    )
    return Decided(section, decisions)


def addon_parts(addons: AddonsPlan, catalog: Catalog) -> tuple[PartPlan, ...]:
    """Return the add-ons as controllers that must not be installed twice in a cluster."""
    return tuple(
        PartPlan(
            name=addon.name,
            field=f"addons.{addon.name}",
            title=KNOWN[addon.name].title,
            install=addon.install,
            kind="Deployment",
            label=KNOWN[addon.name].label,
            image=KNOWN[addon.name].image,
            alone="two copies would act on the same objects and share the CRDs",
            chart=catalog.charts[addon.chart],
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
    if not context.cloud.core_dns:
        # The chart would scrape this port on the pods of the DNS server, and its alert TargetDown would not end.
        values["coreDns"] = {"enabled": False}
    if _has_volume(context):
        spec = values["prometheus"]["prometheusSpec"]
        own = {key: value for key, value in spec.items() if key not in PROMETHEUS_KEEPS}
        values["prometheus"] = {**values["prometheus"], "prometheusSpec": own | _kept_on_volume(context)}
    return values


def _has_volume(context: CompleteContext) -> bool:
    """Return whether the stack file declares a volume for Prometheus."""
    *spec, volume = _VOLUMES["Prometheus"]
    return volume in _of_stack_file(context, spec)


def _kept_on_volume(context: CompleteContext) -> dict[str, str]:
    """Return the retention settings of a Prometheus with a volume that the stack file does not set.

    The chart sets no size, so Prometheus would fill the volume and then fail to start. The chart keeps 10 days,
    but reports read more.
    """
    *path, volume = _VOLUMES["Prometheus"]
    spec = _of_stack_file(context, path)
    kept = {"retention": PROMETHEUS_KEEPS["retention"]}
    claim = _of_stack_file(context, [*path, volume, "volumeClaimTemplate", "spec", "resources", "requests"])
    with suppress(KeyError, ValueError):  # no size, or a size that the API server refuses
        # In Prometheus, MB means MiB.
        kept["retentionSize"] = f"{int(parse_quantity(claim['storage']) * _KEPT_SHARE / 2**20)}MB"
    return {key: value for key, value in kept.items() if key not in spec}


def _of_stack_file(context: CompleteContext, path: Sequence[str]) -> Mapping[str, Any]:
    """Return a section of the values that the stack file sets for the Prometheus chart."""
    settings = context.environment.charts.get(KNOWN["prometheus"].chart)
    here: object = settings.values if settings is not None else {}
    for key in path:
        here = cast("Mapping[str, object]", here).get(key) if isinstance(here, Mapping) else None
    return cast("Mapping[str, Any]", here) if isinstance(here, Mapping) else {}


def _left_volumes(
    section: AddonsPlan, context: CompleteContext, cluster: ClusterPlan, pools: Sequence[PoolPlan]
) -> Iterator[Decision]:
    """Yield a warning for each volume that is tied to one zone and whose pod may later start in another zone."""
    if not any(one.name == "prometheus" and one.install for one in section.addons):
        return
    created = cluster.cloud.create if cluster.cloud is not None else None
    for title, (*path, key) in _VOLUMES.items():
        spec = _of_stack_file(context, path)
        storage = context.environment.storage.get(str(_storage_class(spec.get(key))))
        if key not in spec or (storage is not None and storage.type != "disk"):
            continue
        labels = cast("Mapping[str, str]", spec.get("nodeSelector") or {})
        selector = {key: value for key, value in labels.items() if _ON_SYSTEM_NODES.get(key) != value}
        leaving = [
            f"nodes of pool {pool.name}"
            for pool in pools
            if selector.items() <= pool.labels.items() and pool.cloud_nodes.leaves_zones
        ]
        if not selector:
            leaving = (
                ["system nodes, which are fewer than the zones,"]
                if created and created.system_leaves_zones
                else []
            )
        for nodes in leaving[:1]:
            yield Decision(
                subject="addons",
                what="warning: metrics",
                chosen=f"the volume of {title} is in one zone, and {nodes} may start in another",
                why=f"{title} then waits until a node starts in the zone of its disk: declare a CPU pool with one "
                "zone in zones and no taints, and write "
                f"{'.'.join(path)}.nodeSelector: {{{names.POOL_LABEL}: NAME}} in "
                f"charts.{KNOWN['prometheus'].chart}.values"
                + ("" if selector else ", or as many system nodes as zones in cluster.create.system"),
            )


def _storage_class(volume: object) -> object:
    """Return the storage class name in the claim template of `volume`."""
    for key in ("volumeClaimTemplate", "spec", "storageClassName"):
        volume = cast("Mapping[str, object]", volume).get(key) if isinstance(volume, Mapping) else None
    return volume


def _kept(section: AddonsPlan, context: CompleteContext) -> tuple[Decision, ...]:
    """Return a decision that states how long Prometheus keeps its metrics if it has no volume."""
    if not any(one.name == "prometheus" and one.install for one in section.addons) or _has_volume(context):
        return ()
    return (
        Decision(
            subject="addons",
            what="metrics",
            chosen="{retention}, at most {retentionSize}, on its node's disk".format_map(PROMETHEUS_KEEPS),
            why="the metrics are lost when Prometheus moves to another node; to keep them for their retention, "
            "give Prometheus a volume with prometheus.prometheusSpec.storageSpec in "
            f"charts.{KNOWN['prometheus'].chart}.values; "
            "a disk is in one zone, so Prometheus then needs a node in this zone",
        ),
    )


def _unsent_alerts(section: AddonsPlan, context: CompleteContext) -> Iterator[Decision]:
    """Yield a decision if the stack file does not configure Alertmanager, which then sends alerts to nobody."""
    if not any(one.name == "prometheus" and one.install for one in section.addons):
        return
    alertmanager = _of_stack_file(context, ["alertmanager"])
    spec = _of_stack_file(context, ["alertmanager", "alertmanagerSpec"])
    set_here = {"enabled", "config", "stringConfig"} & alertmanager.keys()
    if not set_here and not {"configSecret", "alertmanagerConfiguration"} & spec.keys():
        yield Decision(
            subject="addons",
            what="notifications",
            chosen="none: Alertmanager sends alerts to nobody",
            why="the chart's configuration has no receiver; store yours as alertmanager.yaml in a Secret in "
            f"namespace {context.catalog.charts[KNOWN['prometheus'].chart].namespace}, and write "
            "alertmanager.alertmanagerSpec.configSecret: NAME in "
            f"charts.{KNOWN['prometheus'].chart}.values",
        )


def _needed(declared: Mapping[str, str], parts: Mapping[str, str | None]) -> tuple[Decision, ...]:
    """Return the add-ons that other add-ons require but the stack file does not declare, each with the reason."""
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


def _of_owner(section: AddonsPlan, catalog: Catalog) -> Iterator[Decision]:
    """Yield a decision with the oldest release that works for each add-on that the cluster's owner installs."""
    for part in addon_parts(section, catalog):
        fields = needed_of_owner(part)
        if not part.install and fields:
            yield Decision(
                subject="addons",
                what=part.name,
                chosen="present",
                why=f"the owner of the cluster installs and upgrades the add-on; {needed(fields)}",
            )

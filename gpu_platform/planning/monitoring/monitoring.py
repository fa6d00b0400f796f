"""Plans how GPU metrics are scraped, recorded and alerted on.

In managed Prometheus, the labels pod and namespace of a target take precedence, and the metric's labels with
these names get the prefix exported_. Sources: GKE docs, Collect and view DCGM metrics, 2026-11-23; Google Cloud
Managed Service for Prometheus docs; Prometheus operator API, ServiceMonitor attachMetadata; 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_platform.planning.clouds.gpu_parts import gpu_parts
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.monitoring.alerts import (
    budget_alert,
    cluster_alerts,
    gpu_alerts,
    missing_alerts,
    unused_capacity,
)
from gpu_platform.planning.monitoring.ends import ends_of_capacity
from gpu_platform.planning.monitoring.exporter import exporter_of
from gpu_platform.planning.monitoring.grafana import dashboards
from gpu_platform.planning.monitoring.recording import recording_rules
from gpu_platform.planning.monitoring.section import AlertRule, MonitoringPlan
from gpu_platform.planning.pools.section import PoolPlan


def check(context: CompleteContext) -> None:
    """Record a problem if the stack file sets an exporter version that the operator's release determines."""
    parts, monitoring = gpu_parts(context.cloud.cluster), context.environment.monitoring
    if monitoring.exporter_version is not None and parts.dcgm_exporter == "install":
        release = context.operator.release
        context.at("monitoring.exporter_version").add(
            f"{monitoring.exporter_version!r} with the exporter of operator release {release}",
            "a version only with cluster.parts.dcgm_exporter: present",
            "remove it",
        )


def plan(context: CompleteContext, pools: Sequence[PoolPlan]) -> Decided[MonitoringPlan | None]:
    """Return the plan for scraping, recording rules and alerts, or None if monitoring is off."""
    monitoring, parts = context.environment.monitoring, gpu_parts(context.cloud.cluster)
    if not monitoring.enabled:
        return Decided(None)
    if parts.gpu_operator == "present":
        why = "the GPU Operator and its exporter's metrics belong to the cluster's owner"
        if context.environment.validation.metrics:
            why += "; the agents' metrics have scrape annotations for Prometheus, but no alerts"
        none = Decision(subject="monitoring", what="rules, alerts and dashboards", chosen="none", why=why)
        return Decided(None, (none,))
    own_exporter = parts.dcgm_exporter == "install"
    new = context.cloud.creates_cluster
    decisions: tuple[Decision, ...] = ()
    # The add-on plan does not exist yet, so read the stack file.
    # It does not matter who installed the Prometheus operator.
    has_operator = not new or context.environment.addons.prometheus is not None
    service_monitor = has_operator if monitoring.prometheus_operator is None else monitoring.prometheus_operator
    # Google's exporter reads only GPUs with a driver that GKE has installed.
    has_exporter = own_exporter and any(pool.software.operands for pool in pools)
    agents = context.environment.validation.metrics and any(pool.has_gpus for pool in pools)
    managed = context.cloud.managed_prometheus and not service_monitor
    pod_monitoring = managed and (has_exporter or agents)
    if monitoring.prometheus_operator is None and pod_monitoring:
        why = "the new cluster has managed Prometheus, which is billed per sample; to use your own Prometheus "
        why += "operator instead, write prometheus_operator: true"
        decisions = (Decision(subject="monitoring", what="scraping", chosen="a PodMonitoring", why=why),)
    elif monitoring.prometheus_operator is None and managed:
        why = (
            "managed Prometheus scrapes the GPU Operator's exporter, which runs on no pool, and node agents, "
            "which export metrics only with validation: {metrics: true}"
        )
        decisions = (Decision(subject="monitoring", what="PodMonitoring and rules", chosen="none", why=why),)
    elif monitoring.prometheus_operator is None and not has_operator:
        why = "a new cluster has no Prometheus operator; to install it, write addons: {prometheus: install}"
        decisions = (Decision(subject="monitoring", what="ServiceMonitor and rules", chosen="none", why=why),)
    exporter = exporter_of(context)
    wanted = monitoring.dashboards or ("config-maps" if service_monitor else "none")
    section = MonitoringPlan(
        service_monitor=service_monitor,
        pod_monitoring=pod_monitoring,
        # The exporter of a GPUCluster has a different name.
        exporter="nvidia-dcgm-exporter" + ("-dra" if any(pool.devices for pool in pools) else "")
        if has_exporter
        else "",
        exporter_version=exporter.version,
        queues_in=context.catalog.charts["kueue"].namespace
        if service_monitor and _installs_kueue(context)
        else None,
        interval=monitoring.interval,
        labels=monitoring.labels,
        runbooks=monitoring.runbooks,
        dashboards=dashboards() if wanted != "none" else (),
        grafana_operator=wanted == "grafana-operator",
        recording=recording_rules(
            exporter,
            pools,
            exported=pod_monitoring,
            kube_state=service_monitor,
            agent=context.environment.validation.metrics,
        ),
        alerts=tuple(
            _alerts(context, pools, kube_state=service_monitor, by_pool=own_exporter and service_monitor)
        ),
    )
    decisions += tuple(_without_alert(context, pools, section))
    return Decided(section, (*decisions, *_attribution(pools)))


def _without_alert(
    context: CompleteContext, pools: Sequence[PoolPlan], plan: MonitoringPlan
) -> Iterator[Decision]:
    """Yield the pools without GPU metrics, and the alerts that other clusters have but this cluster lacks. Also
    yield the alerts that cannot fire on nodes without DCGM, because the node agent does not export their metrics.
    """
    if not (plan.service_monitor or plan.pod_monitoring):
        return
    every = {rule.alert for rule in _alerts(context, pools, kube_state=True, by_pool=True)}
    if missing := sorted(every - {rule.alert for rule in plan.alerts}):
        yield Decision(
            subject="monitoring",
            what="missing alerts",
            chosen=", ".join(missing),
            why="these alerts need the Prometheus operator (prometheus_operator: true), "
            "with kube-state-metrics and the program's own exporter",
        )
    if unmeasured := _unmeasured(context, pools):
        yield Decision(
            subject="monitoring",
            what="warning: metrics",
            chosen=f"none of the GPUs of {', '.join(pool.name for pool in unmeasured)}",
            why="the GPU Operator's exporter does not run on their nodes, so alerts and costs leave these pools "
            "out; to measure them with the node agents, write validation: {metrics: true}",
        )
    silent = [pool.name for pool in pools if pool.has_gpus and not pool.software.operands]
    if silent and context.environment.validation.metrics:
        yield Decision(
            subject="monitoring",
            what="alerts without DCGM",
            chosen=f"none for XID errors and lowered clocks on {', '.join(silent)}",
            why="the node agents export no metrics for these alerts; the check `xid` of `validate` reports the "
            "errors",
        )


def _alerts(
    context: CompleteContext, pools: Sequence[PoolPlan], *, kube_state: bool, by_pool: bool
) -> Sequence[AlertRule]:
    """Return all alerts. `by_pool` means that the program's ServiceMonitor copies the node's pool label to the
    series.
    """
    environment = context.environment
    budget = environment.budget
    unmeasured = _unmeasured(context, pools)
    measured = [pool for pool in pools if pool not in unmeasured]
    return (
        *gpu_alerts(environment.monitoring, context.catalog),
        *missing_alerts(measured, unmeasured, kube_state=kube_state, by_pool=by_pool),
        *(cluster_alerts(pools, queues=environment.queueing is not None) if kube_state else ()),
        *(unused_capacity(measured) if by_pool else ()),
        *ends_of_capacity(pools),
        *((budget_alert(budget.usd_per_month),) if budget is not None and by_pool else ()),
    )


def _unmeasured(context: CompleteContext, pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Return the pools whose GPUs no exporter measures: neither the operator's, the owner's nor the node agent."""
    if context.environment.validation.metrics or gpu_parts(context.cloud.cluster).dcgm_exporter != "install":
        return []
    return [pool for pool in pools if pool.has_gpus and not pool.software.operands]


def _installs_kueue(context: CompleteContext) -> bool:
    queueing = context.environment.queueing
    return queueing is not None and queueing.kueue == "install" and not context.cloud.runs_kueue


def _attribution(pools: Sequence[PoolPlan]) -> tuple[Decision, ...]:
    """Return a decision about the metrics of shared GPUs. The exporter cannot attribute a shared GPU to one of its
    pods.
    """
    shared = [pool.name for pool in pools if pool.has_gpus and pool.sharing.mode in ("time-slicing", "mps")]
    if not shared:
        return ()
    return (
        Decision(
            subject="monitoring",
            what="metrics by pod",
            chosen=f"not for {', '.join(shared)}",
            why="the exporter reports one value for a GPU that several pods share, and attributes it to one pod",
        ),
    )

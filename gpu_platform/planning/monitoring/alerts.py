"""Alert rules on recorded metrics, and on the metrics of kube-state-metrics and Kueue if these are scraped.

An alert that compares a metric never fires while the metric is missing, so separate alerts report missing metrics.
Sources: leptonai/gpud, components/accelerator/nvidia (XID classes, clock events of 0.6 a minute, temperature
against the GPU's own limit), 2026-08-22; NVIDIA, XID catalogue and GPU memory error management; kube-state-metrics
docs; Kueue docs, Prometheus metrics, and pkg/metrics, pkg/cache/queue/metrics.go of v0.19.2; 2026-11-26.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, xid_codes
from gpu_platform.planning.mig.progress import CHANGE_SECONDS, IN_PROGRESS
from gpu_platform.planning.monitoring.recording import held
from gpu_platform.planning.monitoring.section import AlertRule
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.operations import Monitoring

_WHERE: Final = "GPU {{ $labels.gpu }} of {{ $labels.node }}"
# Labels that identify a GPU, so that a GPU with several pods or MIG instances causes only one alert.
# The exporter repeats the values and errors of a GPU for each of its MIG instances.
# Source: dcgm-exporter, internal/pkg/collector/expcollector.go, and issue 317; read 2026-11-30.
_GPU: Final = "node, pool, gpu, UUID"
_USED: Final = f"{_GPU}, GPU_I_ID, namespace, pod"
# Names of GPU resources in the spelling of kube-state-metrics.
_GPUS: Final = re.sub(r"\[\.]|/|(?<=mig)-", "_", names.GPU_RESOURCES)
_FALLBACK_CELSIUS: Final = 85
_HOURS_PER_MONTH: Final = 730
_START_SECONDS: Final = 1800  # time in which a new node installs its driver and starts the exporter
_XID_ALERTS: Final = {
    "GpuXidReset": "drain the node and reset the GPU",
    "GpuXidRestart": "drain the node and power-cycle it",
    "GpuXidWorkflow": "drain the node and follow the runbook of this alert",
    "GpuXidText": "the message in the kernel log shows whether the node needs action (see `validate`)",
    "GpuXidApplication": "a fault in the program that uses the GPU",
    "GpuXidUnclassified": "collect nvidia-bug-report.sh, and drain the node if the error comes back",
}
# The exporter reads the GPUs every 30 s, so 5 minutes contain 10 samples.
# A rate of 0.6 events per minute is 3 events in 5 minutes.
_EVENTS: Final = 3


def gpu_alerts(monitoring: Monitoring, catalog: Catalog) -> Iterator[AlertRule]:
    """Yield alerts on a GPU's metrics."""
    yield from _xid_alerts(catalog)
    yield AlertRule(
        alert="GpuEccUncorrectable",
        expr=f"increase(max by ({_GPU}) (gpu:ecc_uncorrectable:total)[10m:]) > 0",
        for_="0m",
        severity="critical",
        summary=f"{_WHERE} has uncorrectable ECC errors: drain the node and reset the GPU",
    )
    yield AlertRule(
        alert="GpuRemapFailed",
        expr=f"max by ({_GPU}) (gpu:remap_failed:bool) > 0",
        for_="0m",
        severity="critical",
        summary=f"{_WHERE} could not remap a row of its memory: replace the GPU",
    )
    yield AlertRule(
        alert="GpuRemapPending",
        expr=f"max by ({_GPU}) (gpu:remap_pending:bool) > 0",
        for_="0m",
        severity="warning",
        summary=f"{_WHERE} remaps a row of its memory at the next reset: drain the node and reset the GPU",
    )
    yield AlertRule(
        alert="GpuNvlinkErrors",
        expr=f"increase(max by ({_GPU}) (gpu:nvlink_recoveries:total)[15m:]) > 0",
        for_="0m",
        severity="warning",
        summary=f"{_WHERE} had to recover an NVLink",
    )
    yield AlertRule(
        alert="GpuPcieReplays",
        expr=f"rate(max by ({_GPU}) (gpu:pcie_replays:total)[15m:]) > 1",
        for_="15m",
        severity="warning",
        summary=f"{_WHERE} retries PCIe transfers",
    )
    for alert, events, why in (
        ("GpuThermalThrottling", "hw_thermal|sw_thermal", "heat"),
        ("GpuPowerThrottling", "hw_power_brake", "the machine's power brake"),
    ):
        yield AlertRule(
            alert=alert,
            expr=f"max by ({_GPU}, clock_event) "
            f'(gpu:clock_events:count5m{{clock_event=~"{events}"}}) >= {_EVENTS}',
            for_="10m",
            severity="warning",
            summary=f"clocks of {_WHERE} are lowered by {why}",
        )
    temperature = f"max by ({_GPU}) (gpu:temperature:celsius)"
    if monitoring.temperature_celsius is not None:
        limit = str(monitoring.temperature_celsius)
        hot = f"{temperature} > {limit}"
    else:
        limit = "its limit"
        own = f"max by ({_GPU}) (gpu:temperature_limit:celsius > 0)"
        hot = f"{temperature} > ({own} or {temperature} * 0 + {_FALLBACK_CELSIUS})"
    yield AlertRule(
        alert="GpuTemperatureHigh",
        expr=hot,
        for_="10m",
        severity="warning",
        summary=f"{_WHERE} is at {{{{ $value }}}} °C, above {limit}",
    )
    yield AlertRule(
        alert="GpuMemoryNearlyFull",
        expr=f"max by ({_USED}) (gpu:memory_used:ratio) > 0.95",
        for_="15m",
        severity="info",
        summary=f"{{{{ $value | humanizePercentage }}}} of the memory of {_WHERE} is used",
    )
    yield AlertRule(
        alert="GpuHeldAndIdle",
        expr=f"max by ({_USED}) {held()} < 0.05",
        for_="1h",
        severity="info",
        summary="{{ $labels.namespace }}/{{ $labels.pod }} holds a GPU and has used under 5 % of it for an hour",
    )


def _xid_alerts(catalog: Catalog) -> Iterator[AlertRule]:
    """Yield an alert for each kind of Xid error, and an alert if many processes on a GPU fail with Xid errors.

    Metrics contain the code of an error but never its text. An error on a GPU with MIG instances names no pod,
    because the exporter repeats it for the pods of all instances.
    """
    classes = list(catalog.xid_classes.values())
    codes = {one.name: [str(code) for code in xid_codes(one.codes)] for one in classes}
    known = "|".join(sorted((code for every in codes.values() for code in every), key=int))
    for alert, words in _XID_ALERTS.items():
        of_alert = [one for one in classes if one.alert == alert]
        matcher = "|".join(sorted((code for one in of_alert for code in codes[one.name]), key=int))
        xid = f'xid=~"{matcher}"' if matcher else f'xid!="", xid!="0", xid!~"{known}"'
        yield AlertRule(
            alert=alert,
            expr=f'max by ({_GPU}, xid, namespace, pod) (gpu:xid_errors:count5m{{{xid}, GPU_I_ID=""}}) > 0 or '
            f'max by ({_GPU}, xid) (gpu:xid_errors:count5m{{{xid}, GPU_I_ID!=""}}) > 0',
            for_="0m",
            severity=of_alert[0].severity,
            summary=f"{_WHERE} reports XID {{{{ $labels.xid }}}}: {words}",
        )
        for one in of_alert:
            if one.processes is not None:
                yield AlertRule(
                    alert="GpuXidRepeated",
                    expr=f"sum by ({_GPU}) (sum_over_time((max by ({_GPU}, xid) "
                    f"(gpu:xid_errors:count5m{{{xid}}}))[1h:5m])) >= {one.processes}",
                    for_="0m",
                    severity="warning",
                    summary=f"{_WHERE} has had {{{{ $value }}}} XID errors from programs in an hour: "
                    "a program or the GPU is broken",
                )


def _always_has_nodes(pool: PoolPlan) -> bool:
    """Return whether a pool always has nodes.

    Such a pool has no schedule, its capacity has no start or end, and its nodes are not created on demand.
    """
    if pool.schedule is not None or pool.nodes.least == 0:
        return False
    limited = any(window.starts or window.ends for window in pool.cloud_nodes.windows)
    return not limited and pool.cloud_nodes.created_on_demand is None


def missing_alerts(
    measured: Sequence[PoolPlan], unmeasured: Sequence[PoolPlan], *, kube_state: bool, by_pool: bool
) -> Iterator[AlertRule]:
    """Yield alerts on missing GPUs and missing metrics of the measured pools.

    No exporter runs on the GPU nodes of `unmeasured` pools. `by_pool` means that the series have the label `pool`.
    """
    with_gpus = [pool for pool in measured if pool.has_gpus]
    if any(_always_has_nodes(pool) for pool in with_gpus):
        yield AlertRule(
            alert="GpuMetricsMissing",
            expr="absent(gpu:temperature:celsius)",
            for_="10m",
            severity="critical",
            summary="no GPU reports metrics: the exporter is down, or nothing scrapes it",
        )
    if kube_state:
        if with_gpus:
            yield _blind_nodes(with_gpus, unmeasured)
        yield AlertRule(
            alert="KubeStateMetricsMissing",
            expr="absent(kube_node_info)",
            for_="15m",
            severity="warning",
            summary="kube-state-metrics is not scraped, so alerts on nodes, quotas and pods cannot fire",
        )
    if by_pool:
        for pool in with_gpus:
            yield AlertRule(
                alert="GpuLost",
                expr=f'node:gpus:count{{pool="{pool.name}"}} < {pool.gpus_per_node}',
                for_="5m",
                severity="critical",
                summary=f"{{{{ $labels.node }}}} has {{{{ $value }}}} of {pool.gpus_per_node} GPUs",
            )
    else:
        seen = "count by (node) (group by (node, UUID) (last_over_time(gpu:temperature:celsius[6h])))"
        yield AlertRule(
            alert="GpuLost",
            expr=f"sum by (node) (node:gpus:count) < {seen}",
            for_="5m",
            severity="critical",
            summary="{{ $labels.node }} has {{ $value }} GPUs, fewer than in the last hours",
        )


def _blind_nodes(measured: Sequence[PoolPlan], unmeasured: Sequence[PoolPlan]) -> AlertRule:
    """Return the alert on nodes that have GPUs but no metrics, although an exporter should run there."""

    def of_pools(pools: Sequence[PoolPlan]) -> str:
        return f'kube_node_labels{{label_gpu_platform_dev_pool=~"{"|".join(pool.name for pool in pools)}"}}'

    starting = f"kube_node_created > time() - {_START_SECONDS}"
    with_gpus = f'kube_node_status_allocatable{{resource=~"{_GPUS}"}} > 0'
    # The status of a node does not contain its DRA devices, so a new node has them before its driver is installed.
    if claimed := [pool for pool in measured if pool.devices]:
        with_gpus += f" or {of_pools(claimed)} unless on (node) {starting}"
    # If the driver fails, the device plugin ends together with the exporter, and the node offers no GPUs.
    # Cordoned nodes, and nodes that were replaced under the same name and still start, may have no metrics.
    live = f"kube_node_info unless on (node) (kube_node_spec_unschedulable == 1 or {starting})"
    with_gpus += f" or last_over_time(node:gpus:count[6h]) and on (node) ({live})"
    without = f" unless on (node) {of_pools(unmeasured)}" if unmeasured else ""
    return AlertRule(
        alert="GpuNodeBlind",
        expr=f"group by (node) ({with_gpus}) unless on (node) group by (node) (gpu:temperature:celsius){without}",
        for_="5m",
        severity="critical",
        summary="{{ $labels.node }} has GPUs, but reports no metrics for them: its state is unknown",
    )


def cluster_alerts(pools: Sequence[PoolPlan], *, queues: bool) -> Iterator[AlertRule]:
    """Yield alerts on nodes, pods and quotas from the metrics of kube-state-metrics and Kueue."""
    quota = (
        'max by (namespace, resource) (kube_resourcequota{{type="{}", '
        f'resource=~"{names.quota_key(names.GPU_RESOURCES)}|.+.deviceclass.resource.k8s.io/devices"}}}})'
    )
    yield AlertRule(
        alert="GpuPodPending",
        expr='max by (namespace, pod) (kube_pod_status_phase{phase="Pending", '
        f'namespace!="{names.HEADROOM_NAMESPACE}"}}) == 1 and on (namespace, pod) '
        f"group by (namespace, pod) ({_requested(pools)})"
        # Queues keep gated pods pending on purpose. kube-state-metrics 2.19 and newer report this reason.
        ' unless on (namespace, pod) kube_pod_status_reason{reason="SchedulingGated"} == 1',
        for_="30m",
        severity="warning",
        summary="{{ $labels.namespace }}/{{ $labels.pod }} has waited 30 minutes for GPUs",
    )
    yield AlertRule(
        alert="GpuQuotaNearlyUsed",
        expr=f"{quota.format('used')} / ({quota.format('hard')} > 0) >= 0.9",
        for_="15m",
        severity="info",
        summary="{{ $labels.namespace }} uses {{ $value | humanizePercentage }} of its {{ $labels.resource }}",
    )
    yield AlertRule(
        alert="GpuNodeUnvalidated",
        expr='max by (pod) (kube_pod_status_ready{condition="true", '
        f'namespace="{names.VALIDATION_NAMESPACE}"}}) * on (pod) group_left (node) '
        f'max by (pod, node) (kube_pod_info{{namespace="{names.VALIDATION_NAMESPACE}"}}) == 0',
        for_="30m",
        severity="warning",
        summary="{{ $labels.node }} has not passed validation for 30 minutes",
    )
    if any(pool.sharing.mode == "mig" for pool in pools):
        label = names.MIG_STATE_LABEL
        for character in "./-":
            label = label.replace(character, "_")
        yield AlertRule(
            alert="MigChangeFailed",
            expr=f'max by (node) (kube_node_labels{{label_{label}="failed"}}) == 1',
            for_="5m",
            severity="critical",
            summary="the MIG layout of {{ $labels.node }} could not be changed",
        )
        working = "|".join(IN_PROGRESS)
        yield AlertRule(
            alert="MigChangeStuck",
            expr=f'max by (node) (kube_node_labels{{label_{label}=~"{working}"}}) == 1',
            for_=f"{CHANGE_SECONDS // 60}m",
            severity="critical",
            summary="the MIG manager of {{ $labels.node }} has stopped without a result",
        )
    if queues:
        yield AlertRule(
            alert="QueueWaiting",
            # Workloads that wait for quota are inadmissible until quota is returned. Replicas of Kueue that do not
            # lead start no workloads and keep them active. Source: Kueue v0.19.2, pkg/cache/queue; 2026-12-01.
            expr="sum by (cluster_queue) (max by (cluster_queue, status) "
            '(kueue_pending_workloads{replica_role!="follower"})) > 0'
            + _waits_for_a_start(pools)
            # If other workloads have started in the meantime, the pending workloads only wait for their turn.
            # Kueue creates a counter with its first workload, and `increase` does not see this workload.
            + " unless on (cluster_queue) group by (cluster_queue) "
            "(increase(kueue_admitted_workloads_total[1h]) > 0 "
            "or kueue_admitted_workloads_total unless kueue_admitted_workloads_total offset 1h)",
            for_="1h",
            severity="info",
            summary="{{ $value }} workloads wait in queue {{ $labels.cluster_queue }}; none started for an hour",
        )


def _requested(pools: Sequence[PoolPlan]) -> str:
    """Return a PromQL expression for the pods' requests and claims for GPUs that the cluster currently offers.

    A resource that is offered only by pools with a schedule is excluded while no node offers it, because these
    pools are off on purpose.
    """
    at_times = _offered_at_times(pools)
    # The metric for claims has existed since kube-state-metrics 2.19.
    # The metric for resource requests of pods does not include ResourceClaims.
    # Source: kubernetes/kube-state-metrics#3005, read 2026-11-28.
    claims = " or kube_pod_resourceclaim_info" if any(pool.devices for pool in pools) else ""
    if not at_times:
        return f'kube_pod_container_resource_requests{{resource=~"{_GPUS}"}} > 0{claims}'
    of_schedules = "|".join(sorted(map(_of_kube_state, at_times)))
    return (
        f'kube_pod_container_resource_requests{{resource=~"{_GPUS}", resource!~"{of_schedules}"}} > 0 or '
        f'(kube_pod_container_resource_requests{{resource=~"{of_schedules}"}} > 0 and on (resource) '
        f'group by (resource) (kube_node_status_allocatable{{resource=~"{of_schedules}"}} > 0)){claims}'
    )


def _waits_for_a_start(pools: Sequence[PoolPlan]) -> str:
    """Return a PromQL clause that excludes a queue if its workloads wait only for pools that are off by schedule.

    `kueue_cluster_queue_resource_pending` (with `enableClusterQueueResources`) contains the pending requests of
    each queue by resource. Without this metric, nothing is excluded. It may be missing if the cluster's owner
    installed Kueue.
    """
    at_times = _offered_at_times(pools)
    if not at_times:
        return ""
    always = sorted({offer.name for pool in pools for offer in pool.resources} - at_times.keys())
    off: list[str] = []
    on: list[str] = []
    for name, with_it in sorted(at_times.items()):
        pending = f'kueue_cluster_queue_resource_pending{{resource="{name}"}} > 0'
        offered = f'group (kube_node_status_allocatable{{resource="{_of_kube_state(name)}"}} > 0)'
        if "/" not in name:  # device classes do not appear in the status of a node
            offered = f'group (pool:nodes:count{{pool=~"{"|".join(with_it)}"}})'
        off.append(f"({pending} unless on () {offered})")
        on.append(f"({pending} and on () {offered})")
    on += [f'(kueue_cluster_queue_resource_pending{{resource="{name}"}} > 0)' for name in always]
    queues = "group by (cluster_queue) ({})"
    return (
        f" unless on (cluster_queue) ({queues.format(' or '.join(off))} "
        f"unless on (cluster_queue) {queues.format(' or '.join(on))})"
    )


def _offered_at_times(pools: Sequence[PoolPlan]) -> dict[str, tuple[str, ...]]:
    """Return each resource that is offered only by pools with a schedule, with the names of these pools."""
    always = {offer.name for pool in pools if pool.schedule is None for offer in pool.resources}
    at_times: dict[str, tuple[str, ...]] = {}
    for pool in pools:
        if pool.schedule is not None:
            for name in {offer.name for offer in pool.resources} - always:
                at_times[name] = (*at_times.get(name, ()), pool.name)
    return at_times


def _of_kube_state(resource: str) -> str:
    """Return the name of a resource in the spelling of kube-state-metrics."""
    return re.sub(r"[^a-zA-Z0-9]", "_", resource)


def unused_capacity(pools: Sequence[PoolPlan]) -> Iterator[AlertRule]:
    """Yield alerts on reserved capacity that has no nodes, or fewer than are paid for, while the reservation is
    active.
    """
    for pool in pools:
        windows = pool.cloud_nodes.windows
        if not pool.has_gpus or not windows or pool.nodes.desired == 0:
            continue
        open_ = " or ".join(
            f"vector(time()) >= {int(each.starts.timestamp()) if each.starts is not None else 0}"
            + (f" < {int(each.drains.timestamp())}" if each.drains is not None else "")
            for each in windows
        )
        yield AlertRule(
            alert="GpuReservationUnused",
            expr=f'(sum(pool:nodes:count{{pool="{pool.name}"}}) or vector(0)) < {pool.nodes.desired} '
            f"and on () ({open_})",
            for_="30m",
            severity="warning",
            summary=f"pool {pool.name} has {{{{ $value }}}} of {pool.nodes.desired} reserved nodes",
            labels={"pool": pool.name},
        )


BUDGET_ALERT: Final = "GpuCostAboveBudget"


def budget_alert(usd_per_month: float) -> AlertRule:
    """Return the alert on the cost of running GPU nodes, at the plan's prices.

    A pool without nodes has no series of its cost, so `avg_over_time` would average only the hours in which the
    pool had nodes. The price always has a series, so it counts all hours.
    """
    return AlertRule(
        alert=BUDGET_ALERT,
        expr="sum(sum_over_time(pool:cost:usd_per_hour[1d]) / on (pool) "
        f"count_over_time(pool:node_price:usd_per_hour[1d])) * {_HOURS_PER_MONTH} > {usd_per_month:.10g}",
        for_="1h",
        severity="warning",
        summary=f"GPU nodes cost {{{{ $value | humanize }}}} USD a month at the rate of the last day, "
        f"above the budget of {usd_per_month:.10g}",
    )

"""Recording rules: GPU metrics under the program's names, and their sums by pool, team, workload and GPU model.

A rule `gpu:...` has a series for each GPU or MIG instance and each pod that the exporter reports for it, in base
units. The labels are the same for every exporter version: node, pool, gpu, UUID, modelName, GPU_I_ID,
GPU_I_PROFILE, namespace, pod, container. All other rules, the alerts and the dashboards use only these series.
Sources: dcgm-exporter (labels; one pod for a GPU that several share, unless --kubernetes-virtual-gpus); Prometheus
docs, Recording rules; kube-state-metrics docs (kube_pod_owner, kube_pod_container_resource_requests); 2026-11-25;
prometheus/node_exporter, collector/infiniband_linux.go, and its pull request 3670 (EFA, not merged); 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.planning.monitoring.exporter import Exporter
from gpu_platform.planning.monitoring.section import RecordingRule
from gpu_platform.planning.pools.section import PoolPlan

GPU_LABELS: Final = "node, pool, gpu, UUID, modelName, GPU_I_ID, GPU_I_PROFILE, namespace, pod, container"
HELD: Final = f'pod!="", namespace!="{names.HEADROOM_NAMESPACE}"'
"""Label matcher for GPUs in use. Headroom pods do not count, because their GPUs are free for everybody."""
_ONE: Final = "node, pool, UUID, GPU_I_ID, modelName"
"""Labels that identify a GPU or MIG instance without its user."""
_ENDED: Final = "pod:ended:info"

# Each entry: the rule's name, the exporter's metric, and labels in addition to the labels of every GPU.
_OF_GPU: Final = (
    ("gpu:busy:ratio", "busy", ""),
    ("gpu:sm_active:ratio", "sm_active", ""),
    ("gpu:tensor_active:ratio", "tensor_active", ""),
    ("gpu:dram_active:ratio", "dram_active", ""),
    ("gpu:memory_used:bytes", "memory_used", ""),
    ("gpu:sm_clock:hertz", "sm_clock", ""),
    ("gpu:clock_events:count5m", "clock_events", "clock_event"),
    ("gpu:temperature:celsius", "temperature", ""),
    ("gpu:temperature_limit:celsius", "temperature_limit", ""),
    ("gpu:memory_temperature:celsius", "memory_temperature", ""),
    ("gpu:power:watts", "power", ""),
    ("gpu:energy:joules", "energy", ""),
    ("gpu:pcie_replays:total", "pcie_replays", ""),
    ("gpu:last_xid:code", "last_xid", ""),
    ("gpu:xid_errors:count5m", "xid_errors", "xid"),
    ("gpu:ecc_corrected:total", "ecc_corrected", ""),
    ("gpu:ecc_uncorrectable:total", "ecc_uncorrectable", ""),
    ("gpu:rows_remapped:total", "rows_remapped", ""),
    ("gpu:remap_failed:bool", "remap_failed", ""),
    ("gpu:remap_pending:bool", "remap_pending", ""),
    ("gpu:nvlink_recoveries:total", "nvlink_recoveries", ""),
    ("gpu:nvlink_replays:total", "nvlink_replays", ""),
)
# The node agent's metrics for nodes without DCGM, and the factor that converts each to the recorded unit.
AGENT_METRICS: Final[Mapping[str, tuple[str, float]]] = {
    "busy": ("gpu_utilization_percent", 0.01),
    "memory_used": ("gpu_memory_used_bytes", 1),
    "memory_size": ("gpu_memory_size_bytes", 1),
    "sm_clock": ("gpu_sm_clock_hertz", 1),
    "temperature": ("gpu_temperature_celsius", 1),
    "power": ("gpu_power_watts", 1),
    "energy": ("gpu_energy_joules_total", 1),
    "pcie_replays": ("gpu_pcie_replays_total", 1),
    "ecc_corrected": ("gpu_ecc_corrected_errors_total", 1),
    "ecc_uncorrectable": ("gpu_ecc_uncorrectable_errors_total", 1),
    "rows_remapped": ("gpu_rows_remapped_total", 1),
    "remap_failed": ("gpu_row_remap_failed", 1),
    "remap_pending": ("gpu_row_remap_pending", 1),
    "nvlink_recoveries": ("gpu_nvlink_recoveries_total", 1),
    "nvlink_replays": ("gpu_nvlink_replays_total", 1),
}
_AGENT_LABELS: Final = "node, pool, gpu, UUID, modelName, GPU_I_ID, GPU_I_PROFILE"
# Each entry: the rule's name, and the metrics for the two directions of a link, which the rule adds up.
_LINKS: Final = (
    ("gpu:nvlink:bytes_per_second", "nvlink_sent", "nvlink_received"),
    ("gpu:pcie:bytes_per_second", "pcie_sent", "pcie_received"),
)


def recording_rules(
    exporter: Exporter, pools: Sequence[PoolPlan], *, exported: bool, kube_state: bool, agent: bool = False
) -> tuple[RecordingRule, ...]:
    """Return all recording rules.

    `exported` means that the scrape keeps its own labels `pod` and `namespace`, and renames the exporter's labels
    to `exported_...`. `kube_state` means that kube-state-metrics is scraped. `agent` means that the node agent
    serves metrics, which are used on nodes without DCGM metrics.
    """
    return (
        *_of_gpus(exporter, exported=exported, agent=agent),
        *(_ended_pods() if kube_state else ()),
        *_sums(),
        *_costs(pools),
        *(_workloads() if kube_state else ()),
        *_fabric(node_exporter=kube_state, agent=agent),
    )


def _of_gpus(exporter: Exporter, *, exported: bool, agent: bool) -> Iterator[RecordingRule]:
    def both(text: str, metric: str) -> str:
        if not agent or metric not in AGENT_METRICS:
            return text
        name, factor = AGENT_METRICS[metric]
        # The pod label of this series names the agent itself, which uses no GPU.
        own = f"max by ({_AGENT_LABELS}) ({name})" + ("" if factor == 1 else f" * {factor:.10g}")
        return f"({text}) or on (node) ({own})"

    def series(metric: str, extra: str = "") -> str:
        found = exporter.metrics[metric]
        labels = f"{GPU_LABELS}, {extra}" if extra else GPU_LABELS
        inner = f'label_replace({found.field}, "node", "$1", "{exporter.node_label}", "(.+)")'
        if exported:
            # If no pod uses the GPU, exported_pod is missing, and the label must not name the exporter's pod.
            for label in ("namespace", "pod", "container"):
                inner = f'label_replace({inner}, "{label}", "$1", "exported_{label}", "(.*)")'
        text = f"max by ({labels}) ({inner})"
        return text if found.factor == 1 else f"{text} * {found.factor:.10g}"

    # Profiling metrics are missing while a profiler runs, and on GPUs other than data-centre GPUs.
    # They may stay 0 on busy GPUs, so 0 counts only if no kernel runs (NVIDIA/dcgm-exporter#662; 2026-12-01).
    measured = series("active")
    active = both(f"{measured} > 0 or {series('busy')} or {measured}", "busy")
    yield RecordingRule(record="gpu:active:ratio", expr=active)
    for name, metric, extra in _OF_GPU:
        yield RecordingRule(record=name, expr=both(series(metric, extra), metric))
    for name, sent, received in _LINKS:
        yield RecordingRule(record=name, expr=f"{series(sent)} + {series(received)}")
    if "memory_size" in exporter.metrics:
        size = series("memory_size")
    else:
        size = f"{series('memory_used')} + {series('memory_free')}"
    yield RecordingRule(record="gpu:memory_size:bytes", expr=both(size, "memory_size"))
    yield RecordingRule(record="gpu:memory_used:ratio", expr="gpu:memory_used:bytes / (gpu:memory_size:bytes > 0)")


def _ended_pods() -> Iterator[RecordingRule]:
    """Yield a rule for the pods that have ended but that the exporter still names as users of GPUs.

    Before Kubernetes 1.34, the kubelet lists the devices of a pod that ended until another pod of the node gets
    devices. Sources: kubernetes/kubernetes#119423 and #132028, NVIDIA/dcgm-exporter#16; read 2026-12-01.
    """
    phase = 'kube_pod_status_phase{phase=~"Succeeded|Failed"} == 1'
    named = f"group by (namespace, pod) (gpu:active:ratio{{{HELD}}})"
    yield RecordingRule(record=_ENDED, expr=f"{named} and on (namespace, pod) {phase}")


def held(metric: str = "active") -> str:
    """Return a PromQL expression for `gpu:METRIC:ratio` of the GPUs that pods hold.

    Without kube-state-metrics, the series of ended pods does not exist, and no GPU is excluded.
    """
    return f"(gpu:{metric}:ratio{{{HELD}}} unless on (namespace, pod) {_ENDED})"


def _sums() -> Iterator[RecordingRule]:
    for metric in ("active", "sm_active", "tensor_active", "memory_used"):
        # First take one value per GPU, because the exporter may report a shared GPU once for each of its pods.
        one = f"max by ({_ONE}) (gpu:{metric}:ratio)"
        yield RecordingRule(record=f"pool:{metric}:ratio", expr=f"avg by (pool) ({one})")
        yield RecordingRule(record=f"model:{metric}:ratio", expr=f"avg by (modelName) ({one})")
        used = f"max by (namespace, UUID, GPU_I_ID) {held(metric)}"
        yield RecordingRule(record=f"namespace:{metric}:ratio", expr=f"avg by (namespace) ({used})")
    yield RecordingRule(record="pool:power:watts", expr="sum by (pool) (max by (pool, UUID) (gpu:power:watts))")
    yield RecordingRule(
        record="pool:gpus:count", expr="count by (pool) (group by (pool, UUID) (gpu:temperature:celsius))"
    )
    yield RecordingRule(
        record="node:gpus:count",
        expr="count by (node, pool) (group by (node, pool, UUID) (gpu:temperature:celsius))",
    )
    yield RecordingRule(
        record="pool:nodes:count", expr="count by (pool) (group by (pool, node) (gpu:temperature:celsius))"
    )
    yield RecordingRule(record="pool:gpus_held:count", expr=f"count by (pool) (group by (pool, UUID) {held()})")
    yield RecordingRule(
        record="namespace:gpus_held:count",
        expr=f"count by (namespace) (group by (namespace, UUID, GPU_I_ID) {held()})",
    )


def _costs(pools: Sequence[PoolPlan]) -> Iterator[RecordingRule]:
    """Yield rules for the costs of pools at the plan's prices. A pool without a known price has no series."""
    priced = [pool for pool in pools if pool.has_gpus and pool.price_usd_per_hour is not None]
    for pool in priced:
        labels = {"pool": pool.name}
        yield RecordingRule(
            record="pool:node_price:usd_per_hour", expr=f"vector({pool.price_usd_per_hour:.10g})", labels=labels
        )
        # A GPU's price can be charged to a team only if the team uses the whole GPU.
        if pool.sharing.mode == "none" and pool.price_usd_per_hour is not None:
            yield RecordingRule(
                record="pool:gpu_price:usd_per_hour",
                expr=f"vector({pool.price_usd_per_hour / pool.gpus_per_node:.10g})",
                labels=labels,
            )
    if priced:
        yield RecordingRule(
            record="pool:cost:usd_per_hour", expr="pool:nodes:count * on (pool) pool:node_price:usd_per_hour"
        )
    if any(pool.sharing.mode == "none" for pool in priced):
        gpus = f"count by (namespace, pool) (group by (namespace, pool, UUID) {held()})"
        yield RecordingRule(
            record="namespace:cost:usd_per_hour",
            expr=f"sum by (namespace) ({gpus} * on (pool) group_left () pool:gpu_price:usd_per_hour)",
        )
        one = f"max by ({_ONE}) (gpu:active:ratio)"
        yield RecordingRule(
            record="pool:idle_cost:usd_per_hour",
            expr=f"sum by (pool) ((1 - {one}) * on (pool) group_left () pool:gpu_price:usd_per_hour)",
        )


# Each entry: the rule's name, the node agent's counter, and node_exporter's counter.
# The counters of node_exporter cover mlx5 ports, but not EFA.
_FABRIC: Final = (
    (
        "node:fabric_transmitted:bytes_per_second",
        "fabric_transmitted_bytes_total",
        "node_infiniband_port_data_transmitted_bytes_total",
    ),
    (
        "node:fabric_received:bytes_per_second",
        "fabric_received_bytes_total",
        "node_infiniband_port_data_received_bytes_total",
    ),
    (
        "node:fabric_dropped:per_second",
        "fabric_dropped_packets_total",
        "node_infiniband_port_discards_transmitted_total",
    ),
    ("node:fabric_timeouts:per_second", "fabric_timeouts_total", ""),
)


def _fabric(*, node_exporter: bool, agent: bool) -> Iterator[RecordingRule]:
    """Yield rules for the traffic and errors of the NICs that connect GPU nodes.

    `agent` means that the node agent serves metrics for these NICs. `node_exporter` means that
    kube-prometheus-stack scrapes both node_exporter and kube-state-metrics, which maps node_exporter's pods to
    nodes.
    """
    node = "on (namespace, pod) group_left (node) max by (namespace, pod, node) (kube_pod_info)"
    for record, of_agent, of_exporter in _FABRIC:
        sources = [f"sum by (node) (rate({of_agent}[5m]))"] if agent else []
        if node_exporter and of_exporter:
            sources.append(f"sum by (node) (rate({of_exporter}[5m]) * {node})")
        if sources:
            yield RecordingRule(record=record, expr=" or ".join(sources))


# Kinds that own pods directly, and a pattern that finds the workload's name in the owner's name.
_OWNER: Final[Mapping[str, str]] = {
    "ReplicaSet": "(.+)-[^-]+",
    **dict.fromkeys(("Job", "StatefulSet", "DaemonSet", "RayCluster", "PyTorchJob", "MPIJob"), "(.+)"),
}


def _workloads() -> Iterator[RecordingRule]:
    """Yield rules for the GPU usage of each workload, such as a Deployment, a Job or a Ray cluster."""
    owners = " or ".join(
        f'label_replace(kube_pod_owner{{owner_is_controller="true", owner_kind="{kind}"}}, '
        f'"workload", "$1", "owner_name", "{pattern}")'
        for kind, pattern in _OWNER.items()
    )
    yield RecordingRule(record="pod:workload:info", expr=f"max by (namespace, pod, workload) ({owners})")
    for metric, record, function in (
        ("active", "workload:active:ratio", "avg"),
        ("memory_used", "workload:memory_used:ratio", "avg"),
        ("active", "workload:gpus_held:count", "count"),
    ):
        used = f"max by (namespace, pod, UUID, GPU_I_ID) {held(metric)}"
        joined = f"{used} * on (namespace, pod) group_left (workload) pod:workload:info"
        yield RecordingRule(record=record, expr=f"{function} by (namespace, workload) ({joined})")

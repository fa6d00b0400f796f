"""DCGM metrics and alerts.

Sources: dcgm-exporter's default counters (etc/default-counters.csv) and the DCGM field identifiers; 2026-11-21.
GKE docs, Collect and view DCGM metrics; 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform import names
from gpu_platform.planning.clouds.gpu_parts import gpu_parts
from gpu_platform.planning.config_maps import ConfigMapPlan, hashed_config_map
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.monitoring.ends import ends_of_capacity
from gpu_platform.planning.monitoring.section import AlertRule, MonitoringPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.spec.operations import Monitoring

METRICS_KEY = "dcgm-metrics.csv"

# (DCGM field, Prometheus type, help)
_METRICS: tuple[tuple[str, str, str], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot (in mJ)."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error."),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Bit mask of why clocks are lowered."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Single-bit ECC errors since boot."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit ECC errors since boot."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for uncorrectable errors."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries."),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink bandwidth over all lanes."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active."),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the memory interface is busy."),
)


def metrics_config_map(monitoring: Monitoring) -> ConfigMapPlan | None:
    """Return dcgm-exporter's counters as a content-hashed ConfigMap, or None where monitoring is off."""
    if not monitoring.enabled:
        return None
    lines = ["# DCGM field, Prometheus type, help", *(", ".join(metric) for metric in _METRICS)]
    data = {METRICS_KEY: "\n".join(lines) + "\n"}
    return hashed_config_map("dcgm-metrics", names.OPERATOR_NAMESPACE, data)


def plan(context: CompleteContext, pools: Sequence[PoolPlan]) -> Decided[MonitoringPlan | None]:
    """Return scraping and alerts, or None where monitoring is off."""
    monitoring, parts = context.environment.monitoring, gpu_parts(context.cloud.cluster)
    if not monitoring.enabled or parts.gpu_operator == "present":
        return Decided(None)
    own_exporter = parts.dcgm_exporter == "install"
    new = context.cloud.creates_cluster
    decisions: tuple[Decision, ...] = ()
    # Before the section of add-ons exists; the cluster has it by whomever it was installed.
    has_operator = not new or context.environment.addons.prometheus is not None
    service_monitor = has_operator if monitoring.prometheus_operator is None else monitoring.prometheus_operator
    # Google's own exporter reads only GPUs whose driver GKE has installed.
    operands = any(pool.software.operands for pool in pools)
    pod_monitoring = context.cloud.managed_prometheus and operands and own_exporter and not service_monitor
    if monitoring.prometheus_operator is None and pod_monitoring:
        why = "the new cluster has managed Prometheus, billed by the sample; prometheus_operator: true uses yours"
        decisions = (Decision(subject="monitoring", what="scraping", chosen="a PodMonitoring", why=why),)
    elif monitoring.prometheus_operator is None and not has_operator:
        why = "a new cluster has no Prometheus operator: write addons: {prometheus: install}"
        decisions = (Decision(subject="monitoring", what="ServiceMonitor and rules", chosen="none", why=why),)
    section = MonitoringPlan(
        service_monitor=service_monitor,
        pod_monitoring=pod_monitoring,
        # A GPUCluster's exporter has a name of its own.
        exporter="nvidia-dcgm-exporter" + ("-dra" if any(pool.devices for pool in pools) else "")
        if own_exporter
        else "",
        interval=monitoring.interval,
        labels=monitoring.labels,
        alerts=(*_alerts(monitoring), *ends_of_capacity(pools)),
    )
    return Decided(section, decisions)


def _alerts(monitoring: Monitoring) -> tuple[AlertRule, ...]:
    where = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"
    return (
        AlertRule(
            alert="GpuXidError",
            # 13, 31, 43 and 45 are faults of the application, not of the GPU.
            expr="DCGM_FI_DEV_XID_ERRORS > 0 unless on (gpu, Hostname) "
            "(DCGM_FI_DEV_XID_ERRORS == 13 or DCGM_FI_DEV_XID_ERRORS == 31 "
            "or DCGM_FI_DEV_XID_ERRORS == 43 or DCGM_FI_DEV_XID_ERRORS == 45)",
            for_="0m",
            severity="critical",
            summary=f"{where} reports XID {{{{ $value }}}}",
        ),
        AlertRule(
            alert="GpuDoubleBitEccError",
            expr="increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[10m]) > 0",
            for_="0m",
            severity="critical",
            summary=f"{where} has uncorrectable ECC errors",
        ),
        AlertRule(
            alert="GpuRowRemapFailure",
            expr="DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
            for_="0m",
            severity="critical",
            summary=f"{where} could not remap a row: replace it",
        ),
        AlertRule(
            alert="GpuTemperatureHigh",
            expr=f"DCGM_FI_DEV_GPU_TEMP > {monitoring.temperature_celsius}",
            for_="5m",
            severity="warning",
            summary=f"{where} is at {{{{ $value }}}} °C, above {monitoring.temperature_celsius} °C",
        ),
        AlertRule(
            alert="GpuPcieReplays",
            expr="rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[15m]) > 1",
            for_="15m",
            severity="warning",
            summary=f"{where} retries PCIe transfers",
        ),
        AlertRule(
            alert="GpuAllocatedButIdle",
            expr='max by (Hostname, gpu, pod, namespace) (DCGM_FI_DEV_GPU_UTIL{pod!=""}) < 1',
            for_="1h",
            severity="info",
            summary="{{ $labels.namespace }}/{{ $labels.pod }} holds a GPU and has not used it for an hour",
        ),
        AlertRule(
            alert="GpuMetricsMissing",
            expr="absent(DCGM_FI_DEV_GPU_TEMP)",
            for_="10m",
            severity="warning",
            summary="no GPU reports metrics: dcgm-exporter is down or is not scraped",
        ),
    )

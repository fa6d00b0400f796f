"""Plan the validation gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_platform import names
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.validation.section import AgentMetricsPlan, ValidationPlan
from gpu_platform.quantity import parse_duration

_METRICS_PORT: Final = 9401  # beside dcgm-exporter's 9400
_WARM_CELSIUS: Final = 85
AGENT_IMAGE = "node-agent-python"  # name of an image in the catalogue


def check(context: CompleteContext) -> None:
    """Record a share of failing nodes where no pool holds failing nodes back."""
    validation = context.environment.validation
    gates = [pool.gate_nodes or validation.gate_nodes for pool in context.environment.pools]
    if "max_held_percent" in validation.model_fields_set and "always" not in gates:
        context.at("validation").at("max_held_percent").add(
            f"{validation.max_held_percent}, and no pool holds failing nodes back",
            "max_held_percent only with gate_nodes: always",
            "write validation.gate_nodes: always, or remove max_held_percent",
        )


def plan(
    context: CompleteContext, pools: Sequence[PoolPlan], *, pod_monitor: bool, pod_monitoring: bool
) -> ValidationPlan:
    """Return the gate: privileges only where no runtime adds NVML to the agent's container.

    `pod_monitor`, `pod_monitoring`: who scrapes the cluster's GPU metrics, the Prometheus operator or Google's.
    """
    validation = context.environment.validation
    access = [pool.software.gpu_access for pool in pools if pool.has_gpus]
    return ValidationPlan(
        gate=validation.gate,
        timeout_seconds=parse_duration(validation.timeout),
        image=context.catalog.images[AGENT_IMAGE].reference,
        namespace=names.VALIDATION_NAMESPACE,
        pod_security="privileged" if any(one.privileged for one in access) else "baseline",
        most_held={
            pool.name: max(1, pool.nodes.max * validation.max_held_percent // 100) if pool.failed_taints else 0
            for pool in pools
            if pool.startup_taints
        },
        metrics=_metrics(context, pod_monitor=pod_monitor, pod_monitoring=pod_monitoring),
        claims_devices=any(one.claim for one in access),
    )


def _metrics(context: CompleteContext, *, pod_monitor: bool, pod_monitoring: bool) -> AgentMetricsPlan | None:
    if not context.environment.validation.metrics:
        return None
    monitoring = context.environment.monitoring
    return AgentMetricsPlan(
        port=_METRICS_PORT,
        interval=monitoring.interval,
        temperature_celsius=monitoring.temperature_celsius or _WARM_CELSIUS,
        pod_monitor=pod_monitor,
        pod_monitoring=pod_monitoring,
        labels=monitoring.labels,
    )

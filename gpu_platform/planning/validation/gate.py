"""Plan the validation gate."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform import names
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.validation.section import ValidationPlan
from gpu_platform.quantity import parse_duration

AGENT_IMAGE = "node-agent-python"  # name of an image in the catalogue


def plan(context: CompleteContext, pools: Sequence[PoolPlan]) -> ValidationPlan:
    """Return the gate: privileges only where no runtime adds NVML to the agent's container."""
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
        claims_devices=any(one.claim for one in access),
    )

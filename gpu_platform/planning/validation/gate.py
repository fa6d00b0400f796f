"""Plan the validation gate, which keeps team pods off nodes that have not passed validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import duration_text, parse_duration
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.expectations.hardware import FABRIC_MANAGER
from gpu_platform.planning.pools.declared_fields import check_declared_field
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.requirements.requirements import node_gate
from gpu_platform.planning.system_priorities import NODE_CRITICAL, PriorityQuotaPlan
from gpu_platform.planning.validation.section import AgentMetricsPlan, ValidationPlan
from gpu_platform.stack._types import NodeGate
from gpu_platform.stack.declared import takes
from gpu_platform.stack.operations import Validation
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Mig

_METRICS_PORT: Final = 9401  # differs from dcgm-exporter's port, 9400
_WARM_CELSIUS: Final = 85
_ANY_NUMBER_OF_PODS: Final = 1_000_000  # the quota only admits the pods and does not limit their number
# Older versions can taint a node again after its release, and may never remove this taint.
# Source: kubernetes-sigs/node-readiness-controller#382, and node_controller.go of v0.4.1 and v0.5.0.
# Read 2026-11-30.
_READINESS_CONTROLLER: Final = "v0.5.0"
AGENT_IMAGE = "node-agent-python"  # name of an image in the catalogue


def gate_name(pool: str) -> str:
    """Return the name of the DaemonSet whose ready pods mark the nodes of a pool that pass validation."""
    return f"validate-{pool}"


def check(context: CompleteContext) -> None:
    """Record a problem for each setting for new or failing nodes if no pool taints such nodes, because the setting
    then has no effect.
    """
    validation = context.environment.validation
    gates = [node_gate(pool, validation, partitioned=_is_mig(pool, context)) for pool in context.environment.pools]
    _check_inherited(context, gates)
    if "max_held_percent" in validation.model_fields_set and "always" not in gates:
        context.at("validation").at("max_held_percent").add(
            f"{validation.max_held_percent}, but no pool taints failing nodes",
            "max_held_percent only with gate_nodes: always",
            _fix("always", "max_held_percent", context),
        )
    if validation.node_readiness and all(gate == "never" for gate in gates):
        context.at("validation").at("node_readiness").add(
            "true, but no pool taints new nodes",
            "node_readiness with gate_nodes: startup or always",
            _fix("startup", "node_readiness", context),
        )
    for field in ("on_failure", "failing_for"):
        if field in validation.model_fields_set and validation.on_failure != "report" and "always" not in gates:
            context.at("validation").at(field).add(
                f"{getattr(validation, field)}, but no pool taints failing nodes",
                f"{field} only with gate_nodes: always, which limits how many nodes of a pool are affected",
                _fix("always", field, context),
            )
    if "failing_for" in validation.model_fields_set and validation.on_failure == "report":
        context.at("validation").at("failing_for").add(
            f"{validation.failing_for} with on_failure: report",
            "failing_for with on_failure: cordon or replace",
            "write on_failure: cordon, or remove failing_for",
        )


def _check_inherited(context: CompleteContext, gates: Sequence[NodeGate]) -> None:
    """Record a problem if the provider has no taints for the gate of a GPU pool that does not set `gate_nodes`."""
    validation, provider = context.environment.validation, context.cloud.cluster.provider
    for index, (pool, gate) in enumerate(zip(context.environment.pools, gates, strict=True)):
        if pool.gate_nodes is not None or not context.catalog.has_gpus(pool.machine_type):
            continue
        if "gate_nodes" in validation.model_fields_set:
            check_declared_field(validation, "gate_nodes", provider, context.at("validation"))
            return
        effective = pool.model_copy(update={"gate_nodes": gate})
        check_declared_field(effective, "gate_nodes", provider, context.at(f"pools[{index}]"))


def _fix(gate: NodeGate, field: str, context: CompleteContext) -> str:
    """Return the fix for a field that needs a gate. Some clouds have no gates."""
    has_gate = takes(Validation, "gate_nodes", gate, context.cloud.cluster.provider)
    return f"write validation.gate_nodes: {gate}, or remove {field}" if has_gate else f"remove {field}"


def _is_mig(pool: Pool, context: CompleteContext) -> bool:
    """Return whether a pool uses MIG, either directly or through a named sharing configuration."""
    declared = pool.declared_sharing
    sharing = context.environment.sharing.get(declared) if isinstance(declared, str) else declared
    return isinstance(sharing, Mig)


def check_replaced(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem for each setting that no pool supports.

    These are `on_failure: replace` if nothing replaces nodes, `host_processes` if no pool has a fabric manager,
    and `node_readiness` if the cloud's autoscaler would treat the taint of new nodes as permanent, or if the
    controller would refuse the rule of a pool.
    """
    _check_readiness_selectors(context, pools)
    if context.environment.validation.host_processes and not any(map(_has_fabric_manager, pools)):
        context.at("validation").at("host_processes").add(
            "true, but no pool has machines with a fabric manager",
            "host_processes with a pool of machines that have eight GPUs on NVLink switches, such as p5.48xlarge",
            "remove host_processes",
        )
    if (grown := _grown_with_readiness(context, pools)) and context.cloud.autoscaler_flags == "nobody":
        # If a pool's nodes are created only when the cloud has capacity, the pool cannot have a fixed size.
        sized = not any(pool.cloud_nodes.created_on_demand for pool in grown)
        context.at("validation").at("node_readiness").add(
            f"true, but the cloud's autoscaler adds nodes to {', '.join(pool.name for pool in grown)}",
            "node_readiness with pools of a fixed size; without --startup-taint, which the cloud does not allow, "
            "an autoscaler treats the taint as permanent and adds no nodes to an empty pool",
            "remove node_readiness; the agents then use a taint that the autoscaler knows"
            + ("; or write a fixed size, such as count: {desired: 2}" if sized else ""),
        )
    wanted = context.environment.validation.on_failure == "replace"
    held = [pool for pool in pools if pool.failed_taints]
    if wanted and held and not any(_replaceable(pool) for pool in held):
        context.at("validation").at("on_failure").add(
            "replace, but Karpenter manages no pool that taints failing nodes",
            "`on_failure: replace` only with a Karpenter pool; EKS' node repair and GKE's auto-repair act only "
            "on their own conditions, and nothing else replaces a node on request",
            "write on_failure: cordon",
        )


def _check_readiness_selectors(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem for each pair of pools whose NodeReadinessRules cannot exist together.

    The controller's webhook refuses a rule if a node could match its selector and the selector of another rule for
    the same taint. Source: kubernetes-sigs/node-readiness-controller v0.5.0, internal/webhook/selector_overlap.go;
    read 2026-11-30.
    """
    if not context.environment.validation.node_readiness:
        return
    for first, second in combinations([pool for pool in pools if pool.startup_taints], 2):
        one, other = first.node_selector, second.node_selector
        if all(other.get(key, value) == value for key, value in one.items()):
            context.at("validation").at("node_readiness").add(
                f"true, but a node could match the selectors of pools {first.name} and {second.name}, "
                "and the controller refuses two such rules",
                "node_readiness only if all selectors contain the same label, with a different value in each pool",
                "remove node_readiness; the agents then remove the taint themselves",
            )


def _grown_with_readiness(context: CompleteContext, pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Return the pools that a Cluster Autoscaler scales and whose new nodes the Node Readiness Controller
    releases.
    """
    if not context.environment.validation.node_readiness:
        return []
    return [
        pool
        for pool in pools
        if pool.startup_taints
        and (pool.by_cluster_autoscaler or (pool.nodes.ownership == "selected" and pool.nodes.vary))
    ]


def readiness_decisions(context: CompleteContext, pools: Sequence[PoolPlan]) -> Iterator[Decision]:
    """Yield decisions about what the cluster's owner must set up for the Node Readiness Controller, and for an
    autoscaler in the same cluster.
    """
    if not context.environment.validation.node_readiness:
        return
    new = context.cloud.creates_cluster
    yield Decision(
        subject="validation",
        what="warning: node readiness" if new else "node readiness",
        chosen=f"the Node Readiness Controller {_READINESS_CONTROLLER} or newer and its CRD must be installed "
        "before `up`",
        why="on a new cluster, `up` fails when it creates the NodeReadinessRules, and nothing releases the nodes; "
        "leave node_readiness out until the controller is installed"
        if new
        else "the controller releases new nodes when the agents set their condition; when `up` creates the "
        "NodeReadinessRules, the controller also taints each existing node that does not pass at that moment, "
        "whatever max_held_percent is",
    )
    if (grown := _grown_with_readiness(context, pools)) and context.cloud.autoscaler_flags == "owner":
        pools_that_grow = ", ".join(pool.name for pool in grown)
        yield Decision(
            subject="validation",
            what="warning: autoscaler",
            chosen=f"the autoscaler of {pools_that_grow} needs --startup-taint={names.READINESS_TAINT_KEY}",
            why="without this flag, the autoscaler treats the taint of new nodes as permanent, "
            "and adds no nodes to an empty pool",
        )


def decisions(validation: ValidationPlan, pools: Sequence[PoolPlan]) -> tuple[Decision, ...]:
    """Return decisions about what happens to nodes that keep failing checks, with the reason."""
    after = duration_text(validation.failing_seconds)
    why = {
        "cordon": "the node agent cordons its node, and uncordons it when the node passes",
        "replace": "the node agent cordons its node and deletes its NodeClaim; Karpenter drains and terminates it",
    }
    return tuple(
        Decision(
            subject=f"pool {pool.name}",
            what="nodes that keep failing",
            chosen=f"{action} after {after}",
            why=why[action],
        )
        for pool in pools
        if (action := validation.on_failure.get(pool.name)) is not None
    )


def _has_fabric_manager(pool: PoolPlan) -> bool:
    """Return whether a fabric manager runs on the nodes of a pool."""
    return FABRIC_MANAGER in pool.expectations.expect


def _replaceable(pool: PoolPlan) -> bool:
    return pool.cloud_nodes.replaced_by_claim


def plan(
    context: CompleteContext, pools: Sequence[PoolPlan], *, pod_monitor: bool, pod_monitoring: bool
) -> ValidationPlan:
    """Return the plan for the validation gate. The agent is privileged only if no runtime adds NVML to its
    container.

    `pod_monitor` and `pod_monitoring` indicate whether the Prometheus operator or Google's managed Prometheus
    scrapes the cluster's GPU metrics.
    """
    validation = context.environment.validation
    access = [pool.software.gpu_access for pool in pools if pool.has_gpus]
    # Planned pools that `per_node` creates from one pool in the stack file share the limit of that pool.
    declared_pools = {f"pools[{index}]": pool.name for index, pool in enumerate(context.environment.pools)}
    nodes = Counter[str]()
    for pool in pools:
        nodes[pool.path] += pool.nodes.max
    return ValidationPlan(
        gate=validation.gate,
        timeout_seconds=parse_duration(validation.timeout),
        image=context.catalog.images[AGENT_IMAGE].reference,
        namespace=names.VALIDATION_NAMESPACE,
        priority_class=NODE_CRITICAL,
        quota=PriorityQuotaPlan(
            name=f"{names.VALIDATION_APP}-system-critical",
            pods=_ANY_NUMBER_OF_PODS,
            priority_classes=(NODE_CRITICAL,),
        ),
        pod_security="privileged"
        if validation.host_processes or any(one.privileged for one in access)
        else "baseline",
        host_processes=tuple(
            pool.name for pool in pools if validation.host_processes and _has_fabric_manager(pool)
        ),
        most_held={
            pool.name: max(1, nodes[pool.path] * validation.max_held_percent // 100) if pool.failed_taints else 0
            for pool in pools
            if pool.startup_taints
        },
        held_with={
            pool.name: declared
            for pool in pools
            if pool.failed_taints and (declared := declared_pools[pool.path]) != pool.name
        },
        on_failure={
            pool.name: "replace" if validation.on_failure == "replace" and _replaceable(pool) else "cordon"
            for pool in pools
            if pool.failed_taints and validation.on_failure != "report"
        },
        readiness={
            pool.name: pool.node_selector for pool in pools if validation.node_readiness and pool.startup_taints
        },
        readiness_taint=next(
            (one for pool in pools if validation.node_readiness for one in pool.startup_taints), None
        ),
        failing_seconds=int(parse_duration(validation.failing_for)),
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

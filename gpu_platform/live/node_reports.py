"""Collects the state of the nodes of a deployed stack and compares it with the plan."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpu_platform.base import names
from gpu_platform.base.errors import ExitCode
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.pods import daemon_gpu_pods, daemon_set_of, eviction_action, pod_name
from gpu_platform.live.usage import uses_gpus
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.burn_in.section import BurnInPlan
from gpu_platform.planning.changes.durations import driver_upgrades_at_a_time
from gpu_platform.planning.clouds.windows import closed_text
from gpu_platform.planning.pools.section import PoolPlan
from validators.burn_in import burn_in_checks, records_of
from validators.cluster import LeftPod, keeps_driver_upgrade, upgrade_failed
from validators.report import (
    ExpectedPool,
    NodeReport,
    ValidationReport,
    build_report,
    pod_uids_of,
    reports_of,
    with_replacement,
)
from validators.reservations import ExpectedReservation

_POLL_SECONDS = 1.0


def collect_report(
    client: KubernetesClient, plan: EnvironmentPlan, now: datetime | None = None
) -> ValidationReport:
    """Return a report about the current state of all nodes of a stack. `now` defaults to the time of the call."""
    namespace = plan.validation.namespace
    now = now or datetime.now(UTC)
    pools = [expected_pool(pool, now) for pool in plan.pools]
    nodes = list(client.objects("v1", "Node"))
    failed = {str(node["metadata"]["name"]): node for node in nodes if upgrade_failed(node)}
    kept = sorted(str(node["metadata"]["name"]) for node in nodes if keeps_driver_upgrade(node))
    report = build_report(
        pools,
        nodes,
        reports_of(
            client.objects("v1", "ConfigMap", namespace=namespace, label_selector=names.VALIDATION_REPORT_LABEL)
        ),
        pod_uids_of(
            client.objects(
                "v1",
                "Pod",
                namespace=namespace,
                label_selector=f"{names.NAME_LABEL}={names.VALIDATION_APP}",
            )
        ),
        # Clusters with an old Kubernetes version do not have this kind.
        list(client.objects("resource.k8s.io/v1", "ResourceSlice"))
        if any(pool.devices or pool.node_expectation.nic_driver is not None for pool in plan.pools)
        else None,
        list(client.objects("karpenter.k8s.aws/v1", "EC2NodeClass"))
        if any(pool.reservations for pool in pools)
        else None,
        now.isoformat(timespec="seconds"),
        {name: left_pods(client, node) for name, node in failed.items()},
        kept if len(kept) >= driver_upgrades_at_a_time(plan) else (),
    )
    if plan.burn_in is None:
        return report
    maps = client.objects(
        "v1", "ConfigMap", namespace=plan.burn_in.namespace, label_selector=f"{names.BURN_IN_LABEL}=result"
    )
    return with_burn_in(
        report, plan.burn_in, records_of(maps), nodes, {pool.name: pool.replacement for pool in pools}
    )


def left_pods(client: KubernetesClient, node: Mapping[str, Any]) -> tuple[LeftPod, ...]:
    """Return the GPU pods on a node that a drain does not evict. Only their owners can stop them."""
    pods = list(client.objects("v1", "Pod", field_selector=f"spec.nodeName={node['metadata']['name']}"))
    bare = (LeftPod(pod_name(pod)) for pod in pods if eviction_action(pod) == "unmanaged" and uses_gpus(pod))
    return (*bare, *(LeftPod(pod_name(pod), daemon_set_of(pod)) for pod in daemon_gpu_pods(pods)))


def with_burn_in(
    report: ValidationReport,
    burn_in: BurnInPlan,
    records: Mapping[str, Mapping[str, Any]],
    nodes: Iterable[Mapping[str, Any]],
    replacements: Mapping[str, str],
) -> ValidationReport:
    """Return a report that includes the results of active checks.

    `records` are the results by node. `nodes` are `v1/Node` objects. `replacements` contains, for each pool, the
    service or controller that recreates its nodes.
    """
    uids = {node["metadata"]["name"]: node["metadata"]["uid"] for node in nodes}
    pools = {pool.pool: pool for pool in burn_in.pools}

    def checked(node: NodeReport) -> NodeReport:
        pool = pools.get(node.pool)
        if node.node is None or pool is None:
            return node
        checks = burn_in_checks(records.get(node.node), pool, uids.get(node.node, ""))
        replacement = replacements.get(node.pool, "")
        return replace(node, checks=(*node.checks, *(with_replacement(one, replacement) for one in checks)))

    return replace(report, nodes=tuple(checked(node) for node in report.nodes))


def wait_for_report(
    client: KubernetesClient,
    plan: EnvironmentPlan,
    timeout_seconds: float,
) -> ValidationReport:
    """Return the first report in which every node passes, or the last report before the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        report = collect_report(client, plan)
        if report.exit_code is ExitCode.GOOD or time.monotonic() >= deadline:
            return report
        time.sleep(_POLL_SECONDS)


def expected_pool(pool: PoolPlan, now: datetime) -> ExpectedPool:
    """Return the expected state of a pool at a time.

    No nodes are required before the pool's reserved capacity is available or after it expires.
    """
    least, most, usual, why = _size(pool, now)
    return ExpectedPool(
        hardware=pool.expectations,
        node=pool.node_expectation,
        selector=pool.node_selector,
        least=least,
        most=most,
        usual=usual,
        why=why,
        added_taints=tuple((taint.key, taint.effect) for taint in pool.added_taints),
        reservations=_reservations(pool, now),
        replacement=pool.cloud_nodes.replacement,
    )


def _reservations(pool: PoolPlan, now: datetime) -> tuple[ExpectedReservation, ...]:
    """Return the reservations that Karpenter must currently find for a pool, without future and expired
    reservations.
    """
    windows = pool.cloud_nodes.node_class_reservations
    return tuple(
        ExpectedReservation(
            node_class=pool.name,
            reservation=window.reservation,
            machine_type=pool.machine_type,
            zone=window.zone,
            source=f"stack: {pool.path}.capacity",
        )
        for window in windows
        if window.is_open(now)
    )


def _size(pool: PoolPlan, now: datetime) -> tuple[int, int, int | None, str]:
    """Return the minimum, maximum and usual node count of a pool, and what sets the count.

    The usual count is the desired count of a pool that an autoscaler other than Karpenter resizes. It is None for
    any other pool.
    """
    nodes = pool.nodes
    if closed := closed_text(pool.cloud_nodes.windows, now):
        return 0, nodes.max, None, closed
    if pool.schedule is not None and (off := pool.schedule.off_text(now)):
        return 0, nodes.max, None, off
    if pool.autoscaler is not None:
        return nodes.desired, nodes.max, None, "Karpenter adds nodes for pending pods"
    if nodes.ownership in {"created", "labelled"}:
        return nodes.desired, nodes.desired, None, ""
    if pool.cloud_nodes.created_on_demand is not None:
        return 0, nodes.max, None, pool.cloud_nodes.created_on_demand
    if pool.cloud is not None and not nodes.vary:
        return nodes.least, nodes.max, None, ""
    return nodes.min, nodes.max, nodes.desired, "an autoscaler sets the node count"

"""Explains why no node of a cluster can ever run a waiting workload: no node matches its node selector, or no node
is large enough for its requests.

Kueue compares only quotas and the labels of flavors. Its message about such a workload names the quota of other
pools, or, once the quota is in use, does not contain the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import amount_of, amount_text, parse_quantity
from gpu_platform.live.objects import items_at, mapping_at

_HELD_BACK: Final = frozenset({names.STARTUP_TAINT_KEY, names.READINESS_TAINT_KEY, names.FAILED_TAINT_KEY})
"""Taints of nodes that have not passed validation."""


def takes_pods(node: Mapping[str, Any]) -> bool:
    """Return whether pods can start on a node now: it is ready, not cordoned, and not tainted because of
    validation.
    """
    spec = mapping_at(node, "spec")
    if spec.get("unschedulable") or any(taint["key"] in _HELD_BACK for taint in items_at(spec, "taints")):
        return False
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in items_at(node, "status", "conditions")
    )


def why_no_node_takes_pods(
    workload: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], pools: Iterable[str]
) -> str:
    """Return why Kueue finds no node for a workload that fits the quota, or "" if the reason is not known.

    Kueue chooses a pool by its quota. If no node of that pool accepts pods, Kueue does not try the next pool.
    Source: kubernetes-sigs/kueue#10824; read 2026-11-30.
    """
    open_pools = {_labels(node).get(names.POOL_LABEL, "") for node in nodes if takes_pods(node)}
    named = {
        str(pool)
        for pods in items_at(workload, "spec", "podSets")
        if (pool := mapping_at(pods, "template", "spec", "nodeSelector").get(names.POOL_LABEL)) is not None
    }
    known = {*pools}
    closed = sorted((named or known) - open_pools)
    if not closed:
        return ""
    pool = "pools" if len(closed) > 1 else "pool"
    why = f"no node of {pool} {' and '.join(closed)} accepts pods now (cordoned, held back, not ready or missing)"
    others = " or ".join(sorted(known & open_pools))
    if not others:
        return why
    return f"{why}, and Kueue does not try another pool by itself: name pool {others} in the node selector"


def why_no_node_fits(workload: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], pools: Iterable[str]) -> str:
    """Return why no node can run a pod of a Kueue Workload. Return an empty string if a node can run the pod, or
    if a suitable node may still be added.

    `nodes` are the nodes of all pools. `pools` are the names of the pools for which the queue has flavors. A pool
    without nodes may scale up, and nothing is known about its future nodes.
    """
    with_nodes = {_labels(node).get(names.POOL_LABEL, "") for node in nodes}
    for pods in items_at(workload, "spec", "podSets"):
        template = mapping_at(pods, "template", "spec")
        selector = {str(key): str(value) for key, value in mapping_at(template, "nodeSelector").items()}
        pool = selector.get(names.POOL_LABEL)
        known = sorted(with_nodes | {*pools})
        if pool is not None and pool not in known:
            return f"its node selector names pool {pool}, but the pools are {', '.join(known)}"
        if not {*(pools if pool is None else [pool])} <= with_nodes:
            continue
        selected = [node for node in nodes if selector.items() <= _labels(node).items()]
        if not selected:
            return f"no node has all labels of its node selector: {_text(selector)}"
        if too_large := _too_large(template, selected, selector):
            return too_large
    return ""


def _too_large(
    template: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], selector: Mapping[str, str]
) -> str:
    """Return a message if a pod's request exceeds the resources of every node, or else an empty string."""
    for resource, amount in _requests(template).items():
        most = max(
            amount_of(resource, str(mapping_at(node, "status", "allocatable").get(resource, "0")))
            for node in nodes
        )
        if not most and amount:
            which = f"the nodes that match its node selector ({_text(selector)})" if selector else "the nodes"
            offered = sorted({name for node in nodes for name in _gpu_resources(node)})
            has = f"; they have {', '.join(offered)}" if offered else ""
            return f"it requests {resource}, which {which} do not have{has}"
        if amount > most:
            return (
                f"a pod requests {amount_text(resource, amount)} {resource}, but a node has at most "
                f"{amount_text(resource, most)}"
            )
    return ""


def _requests(template: Mapping[str, Any]) -> dict[str, int]:
    """Return the requests of a pod, converted by `amount_of`.

    For each resource, the request is the sum over the containers, or the request of an init container if that is
    larger.
    """
    sums = _sum(items_at(template, "containers"))
    for container in items_at(template, "initContainers"):
        for resource, amount in _sum([container]).items():
            sums[resource] = max(sums.get(resource, 0), amount)
    return sums


def _sum(containers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for container in containers:
        limits = mapping_at(container, "resources", "limits")
        for resource, quantity in {**limits, **mapping_at(container, "resources", "requests")}.items():
            sums[str(resource)] = sums.get(str(resource), 0) + amount_of(str(resource), str(quantity))
    return sums


def _gpu_resources(node: Mapping[str, Any]) -> list[str]:
    allocatable = mapping_at(node, "status", "allocatable")
    return [
        str(name)
        for name, amount in allocatable.items()
        if names.is_gpu_resource(str(name)) and parse_quantity(str(amount)) > Decimal(0)
    ]


def _labels(node: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping_at(node, "metadata", "labels").items()}


def _text(selector: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in selector.items())

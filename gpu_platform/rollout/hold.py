"""Keeps live nodes' MIG config from being changed by an engine that does not drain them.

`up` owns the label `nvidia.com/mig.config` of each node by server-side apply, beside the engine. An engine that
applies another value without force, as Pulumi's provider does, is refused with a conflict that names this manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_platform import names
from gpu_platform.engine.client import KubernetesClient
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.rollout.annotations import field_manager, is_alone, labels_by, mark_of, node_document
from gpu_platform.rollout.plan import nodes_of


def hold(client: KubernetesClient, plan: EnvironmentPlan) -> None:
    """Hold the label of every node whose label this stack declares, and let go of nodes that it no longer has."""
    manager = field_manager(plan.stack)
    nodes = list(client.objects("v1", "Node"))
    mine = {node["metadata"]["name"] for pool in plan.pools for node in nodes_of(pool, nodes)}
    for node in nodes:
        if mark_of(node) is None:
            _hold(client, manager, node, held=node["metadata"]["name"] in mine)


def release(client: KubernetesClient, stack: str) -> None:
    """Let go of every node that a stack held: labels that nobody else says go."""
    for node in client.objects("v1", "Node"):
        _hold(client, field_manager(stack), node, held=False)


def _hold(client: KubernetesClient, manager: str, node: Mapping[str, Any], *, held: bool) -> None:
    present = labels_by(manager, node)
    labels: Mapping[str, str] = {}
    if held:
        config = str(node["metadata"]["labels"].get(names.MIG_CONFIG_LABEL, ""))
        # What the rollout said alone is not taken away again before the engine says it too.
        own = {key: value for key, value in present.items() if is_alone(manager, node, key)}
        labels = {**own, **({names.MIG_CONFIG_LABEL: config} if config else {})}
    if labels != present:
        client.apply(node_document(node, labels), manager=manager)

"""Owns the MIG label of live nodes, so that Pulumi cannot change the label before `up` has drained the nodes.

In addition to the engine that deploys the stack, `up` owns the label `nvidia.com/mig.config` of each node through
server-side apply. If an engine applies another value without force, as Pulumi's provider does, the API server
refuses the apply with a conflict that names this field manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_platform.base import names
from gpu_platform.deploy.rollout.annotations import (
    field_manager,
    is_only_owner,
    labels_by,
    node_document,
    rollout_annotation,
)
from gpu_platform.deploy.rollout.plan import nodes_of
from gpu_platform.live.client import KubernetesClient
from gpu_platform.planning.plan import EnvironmentPlan


def hold(client: KubernetesClient, plan: EnvironmentPlan) -> None:
    """Take ownership of the MIG label of every node of this stack, and release nodes that no longer belong to the
    stack.
    """
    manager = field_manager(plan.stack)
    nodes = list(client.objects("v1", "Node"))
    mine = {node["metadata"]["name"] for pool in plan.pools for node in nodes_of(pool, nodes)}
    for node in nodes:
        if rollout_annotation(node) is None:
            _hold(client, manager, node, held=node["metadata"]["name"] in mine)


def release(client: KubernetesClient, stack: str) -> None:
    """Release the MIG labels of all nodes of a stack. Labels without another owner are removed."""
    for node in client.objects("v1", "Node"):
        _hold(client, field_manager(stack), node, held=False)


def _hold(client: KubernetesClient, manager: str, node: Mapping[str, Any], *, held: bool) -> None:
    present = labels_by(manager, node)
    labels: Mapping[str, str] = {}
    if held:
        config = str(node["metadata"]["labels"].get(names.MIG_CONFIG_LABEL, ""))
        # Labels that only the rollout owns stay until the engine owns them too.
        own = {key: value for key, value in present.items() if is_only_owner(manager, node, key)}
        labels = {**own, **({names.MIG_CONFIG_LABEL: config} if config else {})}
    if labels != present:
        client.apply(node_document(node, labels), manager=manager)

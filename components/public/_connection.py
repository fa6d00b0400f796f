"""`Connection`: how public components create the pools and plugins of one provider in a user's program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from components.node_pool import NodePool
from gpu_platform.base.errors import Problem
from gpu_platform.planning.pools.section import PoolPlan

PoolNodes = tuple[pulumi.Input[str] | None, pulumi.Input[list[str]]]
"""Name of a pool in the cloud, and names of the nodes that the program created or labelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPool:
    """A pool to create, with the plan of its cluster."""

    component: pulumi.ComponentResource
    name: str
    """Name of the component."""
    pool: PoolPlan
    plan: Any
    """Plan of the cloud's cluster, or None without a cloud."""
    cluster: Mapping[str, Any]
    """The component's argument `cluster`."""
    opts: pulumi.ResourceOptions
    """Options of Kubernetes objects."""


def _label_nodes(new: NewPool) -> PoolNodes:
    return None, NodePool(new.pool.name, new.pool, new.opts).node_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How public components create and check the cloud resources of one provider.

    The defaults fit a provider without cloud resources. A function imports the cloud's SDK only if it creates
    cloud resources.
    """

    keys: tuple[str, ...] = ()
    """Keys of `GpuCluster` that only components use. They are removed before planning."""
    pool_problems: Callable[[PoolPlan, Mapping[str, Any]], list[Problem]] = lambda pool, cluster: []
    """Return a problem for each missing `cluster` argument that a pool needs."""
    create_pool: Callable[[NewPool], PoolNodes] = _label_nodes
    """Register the nodes of a pool."""
    plugin_problems: Callable[[Any, Mapping[str, Any]], list[Problem]] = lambda plan, cluster: []
    """Return a problem for each missing `cluster` argument that the cloud's plugins need."""
    create_plugins: Callable[[str, Any, Mapping[str, Any], pulumi.ResourceOptions], None] = (
        lambda name, plan, cluster, opts: None
    )
    """Install the cloud components that pools need once per cluster, in addition to the operator."""


def missing_keys(needed: Mapping[str, str], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each key that `cluster` lacks. `needed` maps each key to a description of its value."""
    return [
        Problem(f"cluster.{key}", "nothing", allowed, f"add {key}: to cluster")
        for key, allowed in needed.items()
        if cluster.get(key) is None
    ]

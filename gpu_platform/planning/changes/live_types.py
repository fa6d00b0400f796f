"""The state of a deployed cluster: pods, disruption budgets, nodes and data. It determines a change's impact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_platform.planning.changes.budgets import Block, unmanaged_block
from gpu_platform.planning.nodes.section import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A running pod, and whether a drain can evict it.

    `owner` is its controller, such as `Deployment web`, or the pod itself. `units` contains the quantity of each
    extended resource that it requests. `has_claims` indicates whether it uses devices through ResourceClaims.
    `tolerations` are the tolerations in its spec. `managed` indicates whether a controller starts it again.
    `block` is the reason why it cannot be evicted, if there is one. `stays` indicates whether the drain leaves it
    on its node.
    """

    namespace: str
    name: str
    owner: str
    node: str
    units: Mapping[str, int] = field(default_factory=dict[str, int])
    has_claims: bool = False
    tolerations: tuple[Mapping[str, Any], ...] = ()
    managed: bool = True
    block: Block | None = None
    stays: bool = False

    def endures(self, taints: Iterable[Taint]) -> bool:
        """Return whether the pod stays on a node with the given NoExecute taints because it tolerates them without
        a time limit.
        """
        lasting = [one for one in self.tolerations if one.get("tolerationSeconds") is None]
        return all(taint.tolerated_by(lasting) for taint in taints)

    def in_drain(self) -> RunningPod:
        """Return the pod with the reason, if any, why a drain leaves it on its node.

        Like `kubectl drain`, the drain does not evict a pod that has no controller to start it again.
        """
        if self.managed:
            return self
        return replace(self, block=unmanaged_block(self.namespace, self.name), stays=True)

    def deleted(self) -> RunningPod:
        """Return the pod without the reason why it cannot be evicted.

        Disruption budgets apply to evictions. They do not apply when a controller deletes its pod or when the
        namespace is deleted.
        """
        return replace(self, block=None)

    @property
    def budgets(self) -> tuple[str, ...]:
        """Names of the disruption budgets that prevent the pod's eviction."""
        return self.block.budgets if self.block is not None else ()

    @property
    def gpu(self) -> bool:
        """Whether the pod uses GPUs. A pod with ResourceClaims is assumed to use GPUs."""
        return bool(self.units) or self.has_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class DataObject:
    """An object that a member created in a namespace. `size` is the size of a claim in Kubernetes notation
    (`2Ti`).
    """

    kind: str
    namespace: str
    name: str
    size: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" + (f" ({self.size})" if self.size else "")

    def to_json(self) -> dict[str, Any]:
        """Return the object for a JSON report."""
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name, "size": self.size or None}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """State read from a cluster: nodes by pool, pods, and members' data by namespace.

    `held` contains the nodes that the node agent tainted or cordoned, each with the keys of the agent's taints and
    of its cordon annotation. `driver_failed` are the nodes whose last driver upgrade failed. `driver_skipped` are
    the nodes with the label that exempts them from driver upgrades.
    """

    kubernetes: str | None = None
    """Version of the API server, or None if it was not read."""
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    driver_failed: tuple[str, ...] = ()
    driver_skipped: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    pods: tuple[RunningPod, ...] = ()
    daemons: tuple[RunningPod, ...] = ()
    """Pods of DaemonSets that use GPUs. A drain leaves them on their nodes."""
    data: Mapping[str, tuple[DataObject, ...]] = field(default_factory=dict[str, tuple[DataObject, ...]])

    def pods_on(self, nodes: Iterable[str]) -> tuple[RunningPod, ...]:
        """Return the pods on the given nodes."""
        wanted = set(nodes)
        return tuple(pod for pod in self.pods if pod.node in wanted)

    def pods_in(self, namespace: str) -> tuple[RunningPod, ...]:
        """Return the pods of a namespace."""
        return tuple(pod for pod in self.pods if pod.namespace == namespace)

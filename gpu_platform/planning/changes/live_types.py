"""State of a deployed cluster for the impact of a change: pods, disruption budgets, nodes and data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_platform.planning.changes.budgets import Block, unmanaged_block
from gpu_platform.planning.nodes.section import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that runs on a node and that a drain would evict.

    `owner`: its controller, `Deployment web`, or the pod itself. `units`: units by extended resource.
    `has_claims`: it has devices by ResourceClaims. `tolerations`: of its spec. `managed`: a controller starts it
    again. `block`: what prevents its eviction. `stays`: the drain leaves it on its node.
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
        """Return whether it keeps running on a node that gets NoExecute taints: it tolerates them for ever."""
        lasting = [one for one in self.tolerations if one.get("tolerationSeconds") is None]
        return all(taint.tolerated_by(lasting) for taint in taints)

    def in_drain(self) -> RunningPod:
        """Return the pod in a drain by the rules of `kubectl drain`: it evicts no pod that nobody starts again."""
        if self.managed:
            return self
        return replace(self, block=unmanaged_block(self.namespace, self.name), stays=True)

    def deleted(self) -> RunningPod:
        """Return the pod where its controller or namespace deletes it: no budget holds what is not evicted."""
        return replace(self, block=None)

    @property
    def budgets(self) -> tuple[str, ...]:
        """Disruption budgets that prevent its eviction."""
        return self.block.budgets if self.block is not None else ()

    @property
    def gpu(self) -> bool:
        """Whether it uses GPUs; with claims it may."""
        return bool(self.units) or self.has_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class DataObject:
    """An object of a member that a namespace holds. `size`: of a claim, as Kubernetes writes it (`2Ti`)."""

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
    """Nodes by pool, pods, and members' data by namespace of a cluster.

    `held`: by node that the node agent holds back, the keys of its taints and of its cordon.
    `driver_failed`: nodes whose last driver upgrade has failed. `driver_skipped`: nodes with the label that keeps
    their driver.
    """

    kubernetes: str | None = None
    """Version of the API server; None: it was not read."""
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    driver_failed: tuple[str, ...] = ()
    driver_skipped: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    pods: tuple[RunningPod, ...] = ()
    daemons: tuple[RunningPod, ...] = ()
    """Pods of DaemonSets that have GPUs, and stay in a drain."""
    data: Mapping[str, tuple[DataObject, ...]] = field(default_factory=dict[str, tuple[DataObject, ...]])

    def pods_on(self, nodes: Iterable[str]) -> tuple[RunningPod, ...]:
        """Return the pods on some nodes."""
        wanted = set(nodes)
        return tuple(pod for pod in self.pods if pod.node in wanted)

    def pods_in(self, namespace: str) -> tuple[RunningPod, ...]:
        """Return the pods of a namespace."""
        return tuple(pod for pod in self.pods if pod.namespace == namespace)

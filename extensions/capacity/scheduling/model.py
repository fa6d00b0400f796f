"""Nodes, pods and quotas as kube-scheduler and quota admission see them.

Amounts are whole numbers by resource name: `cpu` in millicores, `memory` and `ephemeral-storage` in bytes, others
in units. A device class of DRA is a resource whose name has no slash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gpu_platform.api.plans import Labels, Taint
from gpu_platform.base import names

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL: Final = "ephemeral-storage"
GIB: Final = 2**30

Amounts = Mapping[str, int]

ProfileName = Literal["default", "most-allocated", "packed"]
"""By which scores kube-scheduler compares nodes: planning/scheduling/profiles.py."""

_EVERY_NODE_HAS: Final = (CPU, MEMORY, PODS, EPHEMERAL)
_BLOCKS: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod; an empty key with `Exists` tolerates every taint, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether a taint is tolerated (k8s.io/api/core/v1, `ToleratesTaint`)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A requirement of a node affinity."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels of a node meet it."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:  # Gt, Lt: of whole numbers
                return _compares(value, self.operator, self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node. `gpus`: for each GPU the units that it offers by resource; their sums are in `allocatable`.

    `numa`: NUMA node of each GPU where the kubelet refuses pods on more of these than need be; empty: it does not.
    `single_numa`: it refuses all on several.
    `planned`: it is one of the stack's plan, else one of the cluster.
    """

    name: str
    pool: str
    allocatable: Amounts
    labels: Labels = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    gpus: tuple[Amounts, ...] = ()
    numa: tuple[int, ...] = ()
    single_numa: bool = False
    planned: bool = True

    @property
    def gpu_resources(self) -> tuple[str, ...]:
        """Resources by which pods get its GPUs, parts of them or instances on them."""
        return tuple(dict.fromkeys(name for gpu in self.gpus for name in gpu))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """`count` equal pods of a team.

    `affinity`: terms of the required node affinity, of which one must match; empty: every node. `scored`: CPU and
    memory that the scheduler scores by, more than the requests where containers have none. `admitted`: the pods
    exist, so that no quota holds them back. `kind`: what the file has, `Deployment`.
    """

    name: str
    team: str
    requests: Amounts
    count: int = 1
    kind: str = "Pod"
    node_selector: Labels = field(default_factory=dict[str, str])
    affinity: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    priority_class: str = ""
    scored: Amounts = field(default_factory=dict[str, int])
    admitted: bool = False
    not_simulated: tuple[str, ...] = ()
    """Fields of the pod that decide about nodes, too, and that are left out here."""

    def __str__(self) -> str:
        return f"{self.team}/{self.name}"

    def selects(self, node: Node) -> bool:
        """Return whether node selector and required affinity match a node."""
        if not self.node_selector.items() <= node.labels.items():
            return False
        return not self.affinity or any(
            bool(term) and all(one.matches(node.labels) for one in term) for term in self.affinity
        )

    def not_tolerated(self, node: Node) -> Taint | None:
        """Return a taint that keeps the pods off a node; None: there is none."""
        return next(
            (
                taint
                for taint in node.taints
                if taint.effect in _BLOCKS and not any(one.tolerates(taint) for one in self.tolerations)
            ),
            None,
        )

    def disliked(self, node: Node) -> int:
        """Return how many taints `PreferNoSchedule` of a node the pods do not tolerate."""
        return sum(
            taint.effect == "PreferNoSchedule" and not any(one.tolerates(taint) for one in self.tolerations)
            for taint in node.taints
        )

    def may_run_on(self, node: Node) -> bool:
        """Return whether labels and taints of a node allow the pods."""
        return self.selects(node) and self.not_tolerated(node) is None

    def needs(self) -> dict[str, int]:
        """Return what a pod takes of a node, its place among the node's pods included."""
        return {**{name: amount for name, amount in self.requests.items() if amount}, PODS: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that holds its requests on a node, an index of `Scenario.nodes`.

    `controller`: what would start it again, `Deployment web`, empty: nothing; `pinned`: why it cannot be moved.
    """

    node: int
    pod: PodGroup
    controller: str = ""
    pinned: str = ""

    @property
    def movable(self) -> bool:
        """Whether its eviction is possible and a controller would start it again."""
        return bool(self.controller) and not self.pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to place, and where. `quotas`: what pods of a team may still request, by key of a ResourceQuota."""

    nodes: tuple[Node, ...]
    groups: tuple[PodGroup, ...]
    quotas: Mapping[str, Amounts] = field(default_factory=dict[str, Amounts])
    running: tuple[RunningPod, ...] = ()
    profile: ProfileName = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One pod of a group (indices) on a node, with the indices of GPUs there, one for each unit."""

    group: int
    node: int
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """What a node has too little of for a pod. `free` and `total`: amounts of the node.

    `misaligned`: it has enough, but not on as few NUMA nodes as its kubelet demands.
    """

    node: int
    resources: tuple[str, ...]
    free: Amounts
    total: Amounts
    misaligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """`count` pods of a group (its index) that stay pending.

    `cause`: `quota`: quota admission refuses them; `nodes`: labels or taints allow no node; `resources`: no node
    has enough free. `key`: the key of the quota. `lacks`: of the nodes that are allowed, when the first of the
    pods was tried. `excluded`: nodes whose labels do not match, and taints that are not tolerated with the number
    of their nodes.
    """

    group: int
    count: int
    cause: Literal["quota", "nodes", "resources"]
    key: str = ""
    quota_left: int = 0
    lacks: tuple[Lack, ...] = ()
    unmatched: int = 0
    untolerated: Mapping[str, int] = field(default_factory=dict[str, int])


def free_of(name: str, free: Amounts) -> int | None:
    """Return the free amount of a resource; None: the node reports none because nothing limits it.

    A node without an extended resource has 0 of it; planned nodes have no known ephemeral storage.
    """
    found = free.get(name)
    return 0 if found is None and name not in _EVERY_NODE_HAS else found


def quota_resource(key: str) -> str | None:
    """Return the resource that a key of a ResourceQuota limits; None: it limits no requests of pods."""
    if key.endswith(names.DEVICE_QUOTA_SUFFIX):
        return key.removesuffix(names.DEVICE_QUOTA_SUFFIX)
    if key in (PODS, CPU, MEMORY):
        return key
    found = key.removeprefix("requests.")
    return found if found != key and found != "storage" else None


def _compares(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    try:
        number, limit = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > limit if operator == "Gt" else operator == "Lt" and number < limit

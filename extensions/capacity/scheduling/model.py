"""Nodes, pods and quotas with the fields that kube-scheduler and quota admission use.

Amounts are whole numbers by resource name: `cpu` in millicores, `memory` and `ephemeral-storage` in bytes, and
other resources as counts. A DRA device class is treated as a resource whose name has no slash.
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
"""Scores that kube-scheduler uses to compare nodes; see `profiles.py`."""

_EVERY_NODE_HAS: Final = (CPU, MEMORY, PODS, EPHEMERAL)
_BLOCKS: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A pod's toleration.

    An empty key with `Exists` tolerates every taint. An empty effect matches all effects.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration tolerates a taint, as `ToleratesTaint` in k8s.io/api/core/v1 does."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One requirement of a node affinity term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels of a node meet the requirement."""
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
            case _:  # Gt and Lt compare whole numbers
                return _compares(value, self.operator, self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the plan or of the cluster.

    `gpus` contains, for each GPU, the number of units that it offers by resource. Their sums are in `allocatable`.
    `numa` contains the NUMA node of each GPU if the kubelet refuses pods whose units are on more NUMA nodes than
    necessary; otherwise it is empty. With `single_numa`, the kubelet refuses all pods whose units are on several
    NUMA nodes. `planned` is true for a node of the stack's plan and false for a node of the cluster.
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
        """Names of the resources that the node's GPUs offer: whole GPUs, shares or MIG instances."""
        return tuple(dict.fromkeys(name for gpu in self.gpus for name in gpu))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A group of `count` equal pods of a team.

    `affinity` contains the terms of the required node affinity. A node must match at least one term; without
    terms, every node matches. `scored` contains the CPU and memory that the scheduler uses for scores. They exceed
    the requests if some containers have no requests. `admitted` is true for existing pods, which no quota can
    reject. `kind` is the kind of the object in the file, such as `Deployment`.
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
    """Fields of the pod that also affect scheduling but are not simulated."""

    def __str__(self) -> str:
        return f"{self.team}/{self.name}"

    def selects(self, node: Node) -> bool:
        """Return whether the node selector and the required node affinity match a node."""
        if not self.node_selector.items() <= node.labels.items():
            return False
        return not self.affinity or any(
            bool(term) and all(one.matches(node.labels) for one in term) for term in self.affinity
        )

    def not_tolerated(self, node: Node) -> Taint | None:
        """Return a taint that keeps the pods off a node, or None if all such taints are tolerated."""
        return next(
            (
                taint
                for taint in node.taints
                if taint.effect in _BLOCKS and not any(one.tolerates(taint) for one in self.tolerations)
            ),
            None,
        )

    def disliked(self, node: Node) -> int:
        """Return the number of a node's `PreferNoSchedule` taints that the pods do not tolerate."""
        return sum(
            taint.effect == "PreferNoSchedule" and not any(one.tolerates(taint) for one in self.tolerations)
            for taint in node.taints
        )

    def may_run_on(self, node: Node) -> bool:
        """Return whether the labels and taints of a node allow the pods."""
        return self.selects(node) and self.not_tolerated(node) is None

    def needs(self) -> dict[str, int]:
        """Return the resources that one pod uses on a node, including one unit of the node's resource `pods`."""
        return {**{name: amount for name, amount in self.requests.items() if amount}, PODS: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A running pod with its requests on a node. `node` is an index of `Scenario.nodes`.

    `controller` is the controller that would recreate the pod, such as `Deployment web`, or empty if there is
    none. `pinned` is the reason why the pod cannot be moved.
    """

    node: int
    pod: PodGroup
    controller: str = ""
    pinned: str = ""

    @property
    def movable(self) -> bool:
        """Whether the pod can be evicted and a controller would recreate it."""
        return bool(self.controller) and not self.pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Pods to place and nodes to place them on.

    `quotas` contains the amounts that the pods of each team may still request, by ResourceQuota key.
    """

    nodes: tuple[Node, ...]
    groups: tuple[PodGroup, ...]
    quotas: Mapping[str, Amounts] = field(default_factory=dict[str, Amounts])
    running: tuple[RunningPod, ...] = ()
    profile: ProfileName = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Assignment of one pod of a group to a node.

    All fields are indices. `gpus` contains, for each unit that the pod requests, the index of its GPU.
    """

    group: int
    node: int
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Resources that a node lacks for a pod. `free` and `total` are the node's free and total amounts.

    `misaligned` is true if the node has enough units, but on more NUMA nodes than its kubelet accepts.
    """

    node: int
    resources: tuple[str, ...]
    free: Amounts
    total: Amounts
    misaligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Pods of a group that stay pending. `group` is its index and `count` the number of pods.

    `cause` is `quota` if quota admission refuses the pods, `nodes` if labels or taints allow no node, or
    `resources` if no node has enough free resources. `key` is the quota's key. `lacks` contains the shortages on
    the allowed nodes after the other pods of the group were placed. `unmatched` is the number of nodes whose
    labels do not match. `untolerated` contains the number of nodes by the taint that the pods do not tolerate.
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
    """Return the free amount of a resource, or None if the node does not limit it.

    If a node does not report an extended resource, the amount is 0. Any other resource that a node does not report
    is unlimited, such as the ephemeral storage of planned nodes.
    """
    found = free.get(name)
    return 0 if found is None and name not in _EVERY_NODE_HAS else found


def quota_resource(key: str) -> str | None:
    """Return the resource that a key of a ResourceQuota limits, or None if it does not limit pod requests."""
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

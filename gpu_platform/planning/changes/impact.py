"""Types that describe how planned changes affect nodes, GPUs, running pods, data and access."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from gpu_platform.base.errors import Problem
from gpu_platform.planning.changes.budgets import Block, merged
from gpu_platform.planning.changes.durations import Duration
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.live_types import DataObject, RunningPod
from gpu_platform.planning.changes.objects import ChangedField, object_effect


class Phase(IntEnum):
    """A phase of an `up` run. Both engines run the phases in this order. Changes in the same phase happen at the
    same time.
    """

    SANDBOX = 1  # update the sandbox's Kubernetes version before anything else
    LAYOUTS = 2  # change the MIG layouts of live nodes before the engine runs
    CLUSTER = 3  # update a cloud's control plane before its pools
    NODES = 4  # change the pools and the operator
    VALIDATION = 5  # validate each pool after its nodes and the operator have changed
    TEAMS = 6  # change the teams, whose objects depend on the validation
    DELETION = 7  # delete undeclared objects after everything else has succeeded


@dataclass(frozen=True, slots=True)
class Part:
    """Change to one subject, such as `pool train`, in one phase."""

    phase: Phase
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One planned change and its effect.

    `subject` is what changes, for example `pool train`, `team vision`, `operator` or an object. `field` is the
    path of the change in the stack file, or the changed property. `nodes` and `gpus` are the numbers of affected
    nodes and GPUs, or None if there are none. `pods` are the running pods that the change affects, or None if the
    cluster was not read. `duration` is None if neither nodes nor pods are affected. `parts` are the steps of `up`
    that make the change, in order.
    """

    subject: str
    effect: Effect
    field: str
    old: str
    new: str
    nodes: int | None = None
    gpus: int | None = None
    pods: tuple[RunningPod, ...] | None = ()
    data: tuple[DataObject, ...] = ()
    order: str = ""
    duration: Duration | None = None
    parts: tuple[Part, ...] = ()
    because: str = ""
    node_names: tuple[str, ...] = ()
    """Names of the nodes whose MIG layout changes, with remarks, in the order in which `up` changes the nodes."""
    changes_nodes: bool = False
    """Whether the change updates, replaces or removes nodes. Such changes may happen only in a maintenance window.
    """
    refusal: Problem | None = None
    """Why `up` refuses the change, and what to do instead, or None if `up` makes the change."""

    @property
    def stopping(self) -> tuple[RunningPod, ...]:
        """Pods that the change stops."""
        return tuple(pod for pod in self.pods or () if not pod.stays)

    @property
    def blocked(self) -> bool:
        """Whether a pod cannot be evicted until somebody intervenes."""
        return any(block.forever for block in self.blocks)

    @property
    def budgets(self) -> tuple[str, ...]:
        """Names of disruption budgets that currently allow no eviction of an affected pod."""
        return tuple(sorted({budget for pod in self.pods or () for budget in pod.budgets}))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Reasons why affected pods cannot be evicted, with the pods. Permanent reasons come first."""
        return merged(pod.block for pod in self.pods or () if pod.block is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the change for a JSON report."""
        return {
            "subject": self.subject,
            "effect": self.effect.value,
            "field": self.field,
            "old": self.old,
            "new": self.new,
            "nodes": self.nodes,
            "node_names": list(self.node_names),
            "gpus": self.gpus,
            "pods": None if self.pods is None else [_pod_to_json(pod) for pod in self.pods],
            "budgets": list(self.budgets),
            "blocks": [block.to_json() for block in self.blocks],
            "data": [item.to_json() for item in self.data],
            "order": self.order,
            "seconds_most": None if self.duration is None else self.duration.seconds,
            "duration": None if self.duration is None else str(self.duration),
            "because": self.because,
            "changes_nodes": self.changes_nodes,
            "refused": {"why": self.refusal.allowed, "fix": self.refusal.fix}
            if self.refusal is not None
            else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """A planned change to one object, as an engine reports it.

    `kind` is either `Kind.group` or a Pulumi type token.
    """

    action: str
    kind: str
    namespace: str
    name: str
    fields: tuple[ChangedField, ...] = ()

    @property
    def effect(self) -> Effect:
        """The worst effect of the changed fields."""
        return object_effect(self.action, self.kind, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigNodeChange:
    """A live node whose GPUs get another MIG layout.

    `at_a_time` is the number of the pool's nodes that may be out of service at the same time. `failed` indicates
    whether the node's last change failed. `remark` is a note about the node, such as why it stays unchanged.
    """

    node: str
    pool: str
    old: str
    new: str
    at_a_time: int
    failed: bool = False
    remark: str = ""

    def named(self, usual: str) -> str:
        """Return the node's name with its remark. Add its layout if it differs from the `usual` layout."""
        parts = [self.remark] if self.remark else []
        if self.old != usual:
            parts.append(f"from {self.old}")
        return f"{self.node} ({'; '.join(parts)})" if parts else self.node


def short(resource: str) -> str:
    """Return the name of an extended resource or its quota key without the vendor's prefix, such as
    `gpu.shared`.
    """
    return resource.removeprefix("requests.").removeprefix("nvidia.com/")


def _pod_to_json(pod: RunningPod) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "owner": pod.owner,
        "node": pod.node,
        "units": dict(pod.units),
        "stays": pod.stays,
        "budgets": list(pod.budgets),
    }

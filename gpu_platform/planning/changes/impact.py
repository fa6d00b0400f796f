"""Types of the impact of planned changes on nodes, GPUs, running pods, data and access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_platform.planning.changes.budgets import Block, merged
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.live import DataObject, RunningPod
from gpu_platform.planning.changes.objects import ChangedField, object_effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One planned change and its effect.

    `subject`: `pool train`, `team vision`, `operator`, or an object. `field`: its place in the stack file, or the
    changed property. `nodes`, `gpus`: affected ones, None where it has none. `pods`: running pods that stop; None:
    the cluster was not read. `keeps`: why running pods are not stopped. `seconds_most`: the longest that the
    change may take, None where no limit is known.
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
    seconds_most: int | None = None
    because: str = ""
    changes_nodes: bool = False
    """Whether nodes are rolled, replaced or removed, which a maintenance window limits."""

    @property
    def budgets(self) -> tuple[str, ...]:
        """Disruption budgets that allow no eviction of an affected pod now."""
        return tuple(sorted({budget for pod in self.pods or () for budget in pod.budgets}))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What prevents the eviction of affected pods, with the pods; what lasts for ever comes first."""
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
            "gpus": self.gpus,
            "pods": None if self.pods is None else [_pod_to_json(pod) for pod in self.pods],
            "budgets": list(self.budgets),
            "blocks": [block.to_json() for block in self.blocks],
            "data": [item.to_json() for item in self.data],
            "order": self.order,
            "seconds_most": self.seconds_most,
            "because": self.because,
            "changes_nodes": self.changes_nodes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """A planned change of one object, as an engine reports it. `kind`: `Kind.group`, or Pulumi's type."""

    action: str
    kind: str
    namespace: str
    name: str
    fields: tuple[ChangedField, ...] = ()

    @property
    def effect(self) -> Effect:
        """Its effect."""
        return object_effect(self.action, self.kind, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigNodeChange:
    """A live node whose GPUs are partitioned again. `seconds_most`: the limit of its drain."""

    node: str
    pool: str
    old: str
    new: str
    at_a_time: int
    seconds_most: int


def short(resource: str) -> str:
    """Return an extended resource or its quota without the vendor's prefix: `gpu.shared`, `mig-1g.10gb`."""
    return resource.removeprefix("requests.").removeprefix("nvidia.com/")


def _pod_to_json(pod: RunningPod) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "owner": pod.owner,
        "node": pod.node,
        "units": dict(pod.units),
        "budgets": list(pod.budgets),
    }

"""Types of the plan of storage classes, and of what a cloud puts behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassPlan:
    """A StorageClass.

    `parameters`: those that are known before a deploy; the cloud's component adds others, such as ids.
    `binding`: with WaitForFirstConsumer a volume is made in the zone of its first pod.
    """

    name: str
    provisioner: str
    parameters: Mapping[str, str]
    reclaim_policy: Literal["Delete", "Retain"]
    binding: Literal["Immediate", "WaitForFirstConsumer"]
    expandable: bool
    default: bool = False
    shared: bool = False
    """Whether its volumes are file systems that the pods of many nodes share, behind access that the stack has."""
    zones: tuple[str, ...] = ()
    """Zones of its volumes; empty: any."""
    topology_key: str = ""
    """Label of nodes that names the zone, by the driver; empty without zones."""


class CloudStorage(Protocol):
    """What of a cloud stands behind the classes: drivers, file systems, access to them."""

    @property
    def kind(self) -> str:
        """The provider; `components.<kind>` transcribes the plan."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """The storage classes of an environment. `retained`: what `destroy` does not delete, as text."""

    classes: tuple[StorageClassPlan, ...] = ()
    cloud: CloudStorage | None = None
    retained: tuple[str, ...] = ()

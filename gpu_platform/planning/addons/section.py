"""Types of the plan of add-ons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonPlan:
    """One add-on. `install` False: the owner of the cluster has installed it; other fields are expectations.

    `name`: its field in the stack file; `after`: add-ons that must be there first; `seconds`: how long Helm waits.
    """

    name: str
    install: bool
    chart: str
    repository: str
    version: str
    namespace: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    after: tuple[str, ...] = ()
    seconds: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonsPlan:
    """The add-ons, in the order of installation. `gateway_class`: name of the GatewayClass to create."""

    addons: tuple[AddonPlan, ...] = ()
    gateway_class: str | None = None

    def has(self, name: str) -> bool:
        """Return whether the cluster has an add-on, installed by the program or by the owner of the cluster."""
        return any(addon.name == name for addon in self.addons)

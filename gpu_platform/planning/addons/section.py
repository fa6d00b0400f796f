"""Types for the add-on plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonPlan:
    """An add-on. If `install` is False, the cluster's owner has installed it, and the other fields describe the
    expected installation.

    `name` is its field in the stack file. `after` lists add-ons that must be installed first. `seconds` is how
    long Helm waits.
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
    """The add-ons, in the order of installation. `gateway_class` is the name of the GatewayClass to create, if
    any.
    """

    addons: tuple[AddonPlan, ...] = ()
    gateway_class: str | None = None

    def has(self, name: str) -> bool:
        """Return whether the cluster has an add-on. It may be installed by the program or by the cluster's
        owner.
        """
        return any(addon.name == name for addon in self.addons)

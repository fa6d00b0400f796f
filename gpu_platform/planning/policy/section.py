"""Types for the configuration of the policy pack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPlan:
    """How the policy pack evaluates the stack. `config` has the format of CrossGuard."""

    level: str
    config: Mapping[str, Any]
    own_rules: tuple[str, ...] = ()
    """Python modules that contain the company's rules."""

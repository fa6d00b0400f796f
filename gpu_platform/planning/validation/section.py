"""Types of the validation gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPlan:
    """The gate: the agent's image, its deadline and what every pool's nodes are compared with."""

    gate: bool
    timeout_seconds: int
    image: str
    namespace: str
    pod_security: Literal["baseline", "privileged"]
    """Pod security level of the namespace: what the agent needs on some pool."""
    most_held: Mapping[str, int]
    """By pool whose new nodes are held back: how many failing ones are held back at a time, too."""
    claims_devices: bool
    """Whether the agent sees its GPUs by a resource claim with admin access."""

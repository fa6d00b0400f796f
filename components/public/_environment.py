"""A whole environment as the child of a component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.runtime import settings

from components.environment import build_environment
from gpu_platform.planning.plan import EnvironmentPlan


def create_environment(
    component: pulumi.ComponentResource, plan: EnvironmentPlan, opts: pulumi.ResourceOptions | None
) -> Mapping[str, Any]:
    """Register the environment below `component`; return its outputs by the names of the stack's outputs."""
    # The environment gives its components no parent: make the component their default one.
    before = settings.ROOT.set(component)
    try:
        return build_environment(plan)
    finally:
        settings.ROOT.reset(before)

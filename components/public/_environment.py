"""Creates a whole environment as the child of a component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.runtime import settings

from components.environment import Environment
from gpu_platform.planning.plan import EnvironmentPlan


def passing_on(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions | None:
    """Return options that make the resources of an environment wait for the dependencies of its component.

    Pulumi does not pass `depends_on` to children. Every resource of an environment uses one of the environment's
    own providers, so it is enough if these providers wait.
    """
    waits = opts.depends_on if opts is not None else None
    if not waits:
        return opts

    def wait(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith("pulumi:providers:"):
            return None
        merged = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(depends_on=waits))
        return pulumi.ResourceTransformationResult(args.props, merged)

    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(transformations=[wait]))


def create_environment(component: pulumi.ComponentResource, name: str, plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Register the environment below `component`. Return its outputs, which have the same names as a stack's
    outputs.
    """
    # A cloud's provider has no explicit parent, so make the component the default parent.
    before = settings.ROOT.set(component)
    try:
        return Environment(name, plan).exports
    finally:
        settings.ROOT.reset(before)

"""The Pulumi program, which `__main__.py` of a project calls."""

from __future__ import annotations

from pathlib import Path

import pulumi

from gpu_platform.base import garbage
from gpu_platform.base.errors import BadInput
from gpu_platform.base.paths import stacks_dir
from gpu_platform.planning.changes import protected
from gpu_platform.stack.loaded import plan_platform
from gpu_platform.stack.project import VERSION_OUTPUT, check_project, version


def create_platform() -> pulumi.ComponentResource:
    """Plan the stack, create its component, export the outputs, and return the component.

    Raises pulumi.RunError for bad input, which Pulumi prints without a traceback.
    """
    garbage.collect_seldom()
    config = pulumi.Config("gpu-platform")
    folder = Path(config.get("environmentFolder") or stacks_dir())
    try:
        check_project()
        plan = plan_platform(config.require_object("platform"), pulumi.get_stack(), folder=folder)
    except BadInput as error:
        raise pulumi.RunError(str(error)) from None

    options = pulumi.ResourceOptions(protect=plan.protect)
    # Components are imported for a valid stack alone: with the SDKs that is a third of the start-up time.
    if plan.kind == "environment":
        from components.environment import Environment

        component = Environment(plan.stack, plan, options)
    else:
        from components.team import Team

        component = Team(plan.stack, plan, options)
    # Depends on everything, so it is deleted first: Pulumi checks protection only as it deletes each resource.
    guard = pulumi.ResourceOptions(protect=bool(protected(plan)), depends_on=component)
    pulumi.Stash("protection", opts=guard, input=plan.stack)
    pulumi.export(VERSION_OUTPUT, version())
    for name, value in component.exports.items():
        pulumi.export(name, value)
    return component

"""The Pulumi program, which a project's `__main__.py` calls."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pulumi

from components._run_settings import run_setting
from gpu_platform.base import garbage
from gpu_platform.base.errors import BadInput
from gpu_platform.base.names import FAILED_VARIABLE
from gpu_platform.base.paths import stacks_dir
from gpu_platform.planning.changes import protected
from gpu_platform.stack.loaded import plan_platform
from gpu_platform.stack.project import VERSION_OUTPUT, check_project, version


def create_platform() -> pulumi.ComponentResource:
    """Plan the stack, create its component, export the outputs, and return the component.

    Raises pulumi.RunError for invalid input. Pulumi prints the error without a traceback.
    """
    garbage.collect_seldom()
    config = pulumi.Config("gpu-platform")
    folder = Path(config.get("environmentFolder") or stacks_dir())
    try:
        check_project()
        plan = plan_platform(config.require_object("platform"), pulumi.get_stack(), folder=folder)
    except BadInput as error:
        raise pulumi.RunError(str(error)) from None

    options = pulumi.ResourceOptions(protect=plan.protect, transformations=[delete_failed_first])
    # Import components and SDKs only for a valid stack, because the import takes a third of the start-up time.
    if plan.kind == "environment":
        from components.environment import Environment

        component = Environment(plan.stack, plan, options)
    else:
        from components.team import Team

        component = Team(plan.stack, plan, options)
    # This resource depends on everything and is therefore deleted first.
    # Pulumi checks the protection of each resource only when it deletes the resource.
    guard = pulumi.ResourceOptions(protect=bool(protected(plan)), depends_on=component)
    pulumi.Stash("protection", opts=guard, input=plan.stack)
    pulumi.export(VERSION_OUTPUT, version())
    for name, value in component.exports.items():
        pulumi.export(name, value)
    return component


def delete_failed_first(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
    """Delete a resource whose creation failed before Pulumi creates it again. Leave all other resources unchanged.

    The failed resource may still use its name, or the capacity and quota that its replacement needs. Pulumi does
    not replace a protected resource, and the failed one has nothing to protect.
    """
    failed = cast("list[str]", run_setting(FAILED_VARIABLE) or [])
    if f"{args.type_}::{args.name}" not in failed:
        return None
    first = pulumi.ResourceOptions(delete_before_replace=True, protect=False)
    return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, first))

"""The Pulumi program: load the spec, make the plan, build the components, export the outputs."""

from pathlib import Path

import pulumi

from components.environment import Environment
from components.team import Team
from gpu_platform.errors import BadInput
from gpu_platform.paths import stacks_dir
from gpu_platform.stacks import plan_platform

config = pulumi.Config("gpu-platform")
folder = Path(config.get("environmentFolder") or stacks_dir())
try:
    plan = plan_platform(config.require_object("platform"), pulumi.get_stack(), folder=folder)
except BadInput as error:
    raise pulumi.RunError(str(error)) from None

options = pulumi.ResourceOptions(protect=plan.protect)
component = (
    Environment(plan.stack, plan, options) if plan.kind == "environment" else Team(plan.stack, plan, options)
)
for name, value in component.exports.items():
    pulumi.export(name, value)

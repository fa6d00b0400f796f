"""The Pulumi program: load the spec, make the plan, build the components, export the outputs."""

from components.program import create_platform

create_platform()

"""The Pulumi program. It loads the stack, makes the plan, builds the components and exports the outputs."""

from components.program import create_platform

create_platform()

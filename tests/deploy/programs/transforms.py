"""Registers a stack transform, which only the Pulumi engine can run."""

import pulumi

pulumi.runtime.register_resource_transform(lambda args: None)

"""Karpenter in a sandbox: its own controllers with its provider for KWOK, which creates simulated nodes.

go.mod pins the program. Its CRDs are those of the same Go module. `instance_types` writes what it may create.
"""

"""Karpenter in a sandbox: its real controllers with its KWOK provider, which creates simulated nodes.

go.mod pins the version. The CRDs come from the same Go module. `instance_types` writes the machine types that
Karpenter may create.
"""

"""Deploys a stack: the recorded program, the embedded engine of sandboxes, the Pulumi CLI, and what members keep."""

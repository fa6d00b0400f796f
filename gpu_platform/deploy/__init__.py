"""Deploys a stack: recorded program, embedded engine of sandboxes, Pulumi CLI, and what is kept for members."""

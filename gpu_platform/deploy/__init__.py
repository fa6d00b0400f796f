"""Deploys a stack: recorded program, embedded engine for sandboxes, Pulumi CLI, and retained objects."""

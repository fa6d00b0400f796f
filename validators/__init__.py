"""Validation of GPU nodes against the plan: node agent, cluster checks and report."""

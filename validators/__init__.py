"""Validation of GPU nodes against the plan: the node agent, the cluster checks and the report."""

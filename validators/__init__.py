"""Validation of GPU nodes against the plan, by the node agent, cluster checks and a report."""

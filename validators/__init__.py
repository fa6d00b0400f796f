"""Validation of GPU nodes against the Plan: node agent, cluster checks, report."""

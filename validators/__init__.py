"""Proof that what was declared is what came up: node agent, cluster checks, one report."""

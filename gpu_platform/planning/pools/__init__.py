"""Check pools, and assemble the plan of each."""

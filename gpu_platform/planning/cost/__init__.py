"""Decide what the nodes cost, and the share of it that is not allocated to any team."""

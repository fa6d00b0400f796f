"""Decide quotas, priorities, members, claims and workloads of teams."""

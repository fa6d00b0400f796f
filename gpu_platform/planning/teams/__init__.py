"""Teams: quotas, priorities, members, claims and workloads."""

"""Rolls out a new MIG layout to live nodes, and drains each node before its GPUs are partitioned again.

`plan` finds the nodes to change and the pods on them. `run` changes the nodes within the pool's `max_unavailable`,
before an engine applies anything. `hold` prevents an engine without this step from changing all nodes at the same
time.
"""

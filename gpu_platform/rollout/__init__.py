"""Brings live nodes to another MIG layout without taking GPUs from under pods: drain, change, next.

`plan` says which nodes would be changed and which pods run there; `run` changes them within the pool's budget,
before an engine applies anything; `hold` keeps an engine without this step from changing them all at once.
"""

"""Decide how each pool's GPUs are shared: whole, time-slicing, MPS, MIG or DRA."""

"""Decide which MIG layouts a GPU can hold, and the minimum number of GPUs for a demand."""

"""Decide which MIG layouts a GPU can hold, and the fewest GPUs for a demand of instances."""

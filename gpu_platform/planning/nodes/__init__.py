"""Decide the CPU and memory that a node has for pods, and who installs its GPU software."""

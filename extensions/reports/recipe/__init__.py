"""Comparison of a stack with recipes of NVIDIA AI Cluster Runtime (AICR): constraints and components."""

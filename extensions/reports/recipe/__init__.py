"""Compares a stack with NVIDIA AI Cluster Runtime (AICR) recipes: constraints and components."""

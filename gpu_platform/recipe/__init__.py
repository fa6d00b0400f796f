"""Recipes of NVIDIA AI Cluster Runtime (AICR): which of their constraints and components a stack has."""

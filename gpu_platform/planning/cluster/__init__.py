"""Decide how clients reach the cluster, and how its cloud creates the cluster or looks it up."""

from gpu_platform.planning.cluster.cluster import check, check_documents, plan, plan_controllers

__all__ = ["check", "check_documents", "plan", "plan_controllers"]

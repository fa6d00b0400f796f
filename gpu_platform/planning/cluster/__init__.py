"""Decide how clients reach the cluster, and how the cluster is created or looked up in its cloud."""

from gpu_platform.planning.cluster.cluster import check, check_documents, plan, plan_controllers

__all__ = ["check", "check_documents", "plan", "plan_controllers"]

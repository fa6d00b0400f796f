"""Decide the labels, taints, kubelet settings, software and GPUs of nodes, independently of their provider."""

from gpu_platform.planning.requirements.requirements import plan

__all__ = ["plan"]

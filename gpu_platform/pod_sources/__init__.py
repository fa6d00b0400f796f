"""Reads the pods that `gpu-platform place` places: from a file, or as they are on a cluster."""

from gpu_platform.pod_sources.file import Workloads, read_workloads
from gpu_platform.pod_sources.live import ClusterSnapshot, read_cluster
from gpu_platform.pod_sources.pod_spec import Skipped

__all__ = ["ClusterSnapshot", "Skipped", "Workloads", "read_cluster", "read_workloads"]

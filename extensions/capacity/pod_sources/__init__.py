"""Readers that load the pods for `gpu-platform place` from a file or a cluster."""

from extensions.capacity.pod_sources.file import Workloads, read_workloads
from extensions.capacity.pod_sources.live_pods import ClusterSnapshot, read_cluster
from extensions.capacity.pod_sources.pod_spec import Skipped

__all__ = ["ClusterSnapshot", "Skipped", "Workloads", "read_cluster", "read_workloads"]

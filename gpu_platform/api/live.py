"""Access to a running cluster: its client, its current pods and nodes, and Prometheus."""

from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cluster_access import client_of
from gpu_platform.live.live_objects import LiveObjects, read_objects
from gpu_platform.live.live_state import running_pods
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.live.prometheus import Prometheus, QueryRefused, Series

__all__ = [
    "KubernetesClient",
    "LiveObjects",
    "Prometheus",
    "QueryRefused",
    "Series",
    "client_of",
    "items_at",
    "mapping_at",
    "read_objects",
    "running_pods",
]

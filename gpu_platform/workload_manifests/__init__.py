"""Manifests of teams' declared workloads. `gpu-platform guide` prints the manifests, and components create the
objects.
"""

from gpu_platform.workload_manifests.batch import batch_job
from gpu_platform.workload_manifests.inference import inference_service
from gpu_platform.workload_manifests.notebook import notebook
from gpu_platform.workload_manifests.pods import Manifest, TeamPods
from gpu_platform.workload_manifests.ray import ray_cluster
from gpu_platform.workload_manifests.training import training_job

__all__ = ["Manifest", "TeamPods", "batch_job", "inference_service", "notebook", "ray_cluster", "training_job"]

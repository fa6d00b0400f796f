"""Manifest of a Ray cluster for KubeRay.

The number of workers is fixed. Ray's own autoscaler would need a token and access to the API server. A team's pods
have neither.

Source: KubeRay docs, RayCluster configuration; read 2026-11-23.
"""

from __future__ import annotations

from gpu_platform.planning.workloads.section import RayClusterPlan
from gpu_platform.workload_manifests.pods import Manifest, TeamPods

_PORTS = (("gcs-server", 6379), ("dashboard", 8265), ("client", 10001))


def ray_cluster(team: TeamPods, cluster: RayClusterPlan) -> list[Manifest]:
    """Return the RayCluster, preceded by the ComputeDomains of its workers."""
    ports = [{"name": name, "containerPort": port} for name, port in _PORTS]
    head = team.template(cluster.head, {"ports": ports}, name="ray-head")
    return [
        *(domain for workers in cluster.workers for domain in team.compute_domain(workers.pod)),
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": team.metadata(cluster.name, queued=True),
            "spec": {
                "rayVersion": cluster.version,
                "enableInTreeAutoscaling": False,
                # KubeRay replaces pods with an outdated template only if the strategy is Recreate.
                **({"upgradeStrategy": {"type": "Recreate"}} if cluster.recreates else {}),
                # The head runs no tasks. A task that uses up the head's memory would stop the whole cluster.
                "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": head},
                "workerGroupSpecs": [
                    {
                        "groupName": workers.name,
                        "replicas": workers.pod.workload.replicas,
                        "minReplicas": workers.pod.workload.replicas,
                        "maxReplicas": workers.pod.workload.replicas,
                        "rayStartParams": {
                            **({"num-gpus": str(workers.gpus)} if workers.gpus else {}),
                            **({"plasma-directory": workers.object_store} if workers.object_store else {}),
                        },
                        "template": team.template(workers.pod, {}, name="ray-worker"),
                    }
                    for workers in cluster.workers
                ],
            },
        },
    ]

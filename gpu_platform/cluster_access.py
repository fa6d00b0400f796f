"""Which kubeconfig reaches a stack's cluster."""

from __future__ import annotations

from pathlib import Path

from gpu_platform.engine.client import KubernetesClient
from gpu_platform.errors import CouldNotTell
from gpu_platform.paths import sandbox_kubeconfig
from gpu_platform.planning import Plan


def client_of(plan: Plan) -> KubernetesClient:
    """Return a client for a stack's cluster; raises CouldNotTell where it cannot be reached from here."""
    cluster = plan.cluster
    match cluster.provider:
        case "sandbox":
            return KubernetesClient(sandbox_kubeconfig(cluster.name))
        case "existing":
            path = Path(cluster.kubeconfig).expanduser() if cluster.kubeconfig else None
            return KubernetesClient(path, cluster.context)
        case _:
            raise CouldNotTell(
                f"the kubeconfig of a cluster of provider {cluster.provider} is an output of its stack: "
                "not in this release; use provider existing with the cluster's kubeconfig"
            )

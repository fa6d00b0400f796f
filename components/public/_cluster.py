"""Chooses the Kubernetes provider and the connection of public components from their cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pulumi

from components._kubernetes_provider import cluster_identity, kubernetes_provider
from components.public._aks import AKS
from components.public._connection import Connection
from components.public._eks import EKS
from components.public._errors import BadArguments
from components.public._gke import GKE
from gpu_platform.base.errors import Problem
from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.planning.plan import EnvironmentPlan

_CONNECTIONS: Final = {"aks": AKS, "eks": EKS, "gke": GKE}
_WITHOUT_CLOUD: Final = Connection()
_KUBERNETES: Final = ("kubeconfig", "context")


def kubernetes_options(
    component: pulumi.ComponentResource,
    name: str,
    cluster: Mapping[str, Any],
    opts: pulumi.ResourceOptions | None,
) -> pulumi.ResourceOptions:
    """Return the options of a component's Kubernetes objects, with their provider and the resources they wait for.

    The provider comes from the resource options. Otherwise, `cluster.kubeconfig` and `cluster.context` configure a
    new provider. If neither is given, the program's default provider is used.
    """
    waits = opts.depends_on if opts is not None else None
    options = pulumi.ResourceOptions(parent=component, depends_on=waits)
    path, context = cluster.get("kubeconfig"), cluster.get("context")
    declared = path is not None or context is not None
    if component.get_provider("kubernetes:core/v1:Node") is not None:
        if declared:
            problem = Problem(
                "cluster.kubeconfig" if path is not None else "cluster.context",
                "a kubeconfig as well as a Kubernetes provider in the resource options",
                "only one of the two",
                "remove kubeconfig and context from cluster, or the provider from the options",
            )
            raise BadArguments(f"{type(component).__name__} {name}", [problem])
        return options
    if cluster["provider"] == "sandbox":
        path = str(sandbox_kubeconfig(cluster.get("name", "local")))
    elif not declared:
        return options
    child, identity = pulumi.ResourceOptions(parent=component), None
    if cluster["provider"] != "sandbox":
        identity = cluster_identity(name, child, kubeconfig=path, context=context)
    provider = kubernetes_provider(name, child, kubeconfig=path, context=context, identity=identity)
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(providers=[provider]))


def connection_keys(provider: str) -> tuple[str, ...]:
    """Return the keys of `cluster` that only components use. Planning does not accept these keys."""
    connection = _CONNECTIONS.get(provider)
    return (*connection.keys, *_KUBERNETES) if connection is not None else ()


def connection_of(plan: EnvironmentPlan) -> Connection:
    """Return how components create and check the cloud resources of the plan's provider."""
    cloud = plan.cluster.cloud
    return _CONNECTIONS[cloud.kind] if cloud is not None else _WITHOUT_CLOUD

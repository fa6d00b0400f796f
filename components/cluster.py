"""`Cluster`: the connection to a Kubernetes cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from components._kubernetes_provider import cluster_identity, kubernetes_provider
from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.planning.clouds.section import ClusterPlan

IDENTITY_OUTPUT: Final = "cluster_identity"
"""Name of an environment's output with the identity of its cluster. The teams' stacks read this output."""
ANNOTATIONS_OUTPUT: Final = "service_account_annotations"
"""Name of an environment's output with the annotations of service accounts that are not known before a deployment,
by team. The teams' stacks read this output.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArgs:
    """Connection to the cluster. `kubeconfig` is a path, or the kubeconfig's content if another stack provides it
    as an output. `identity` is the identity of the cluster if that stack provides it, too.
    """

    plan: ClusterPlan
    kubeconfig: pulumi.Input[str] | None = None
    identity: pulumi.Input[str] | None = None


class Cluster(pulumi.ComponentResource):
    """The Kubernetes provider of one cluster.

    The provider receives the path of the kubeconfig instead of its content, so that no credential is stored in the
    state.

    Outputs: `name`, `kubeconfig` (the path, or None for the client's default) and `context`.
    """

    kubeconfig: pulumi.Output[str | None]
    context: pulumi.Output[str | None]
    provider: k8s.Provider
    identity: pulumi.Input[str] | None

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Cluster", name, None, opts)
        plan = args.plan
        path = args.kubeconfig or plan.kubeconfig
        if plan.access == "sandbox":
            path = str(sandbox_kubeconfig(plan.name))
        child = pulumi.ResourceOptions(parent=self)
        self.identity = args.identity
        if plan.access != "sandbox" and args.kubeconfig is None:
            self.identity = cluster_identity(name, child, kubeconfig=path, context=plan.context)
        self.provider = kubernetes_provider(
            name, child, kubeconfig=path, context=plan.context, identity=self.identity
        )
        self.kubeconfig = pulumi.Output.from_input(path)
        self.context = pulumi.Output.from_input(plan.context)
        self.register_outputs({"name": plan.name, "kubeconfig": self.kubeconfig, "context": self.context})

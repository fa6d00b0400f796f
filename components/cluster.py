"""`Cluster`: the connection to a Kubernetes cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from components._options import FORCE, UPSERT
from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.planning.clouds.section import ClusterPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArgs:
    """Connection to the cluster. `kubeconfig` is a path, or the kubeconfig's content if another stack provides it
    as an output.
    """

    plan: ClusterPlan
    kubeconfig: pulumi.Input[str] | None = None


class Cluster(pulumi.ComponentResource):
    """The Kubernetes provider of one cluster.

    The provider receives the path of the kubeconfig instead of its content, so that no credential is stored in the
    state.

    Outputs: `name`, `kubeconfig` (the path, or None for the client's default) and `context`.
    """

    kubeconfig: pulumi.Output[str | None]
    context: pulumi.Output[str | None]
    provider: k8s.Provider

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Cluster", name, None, opts)
        plan = args.plan
        path = args.kubeconfig or plan.kubeconfig
        if plan.access == "sandbox":
            path = str(sandbox_kubeconfig(plan.name))
        self.provider = k8s.Provider(
            name,
            kubeconfig=path,
            context=plan.context,
            upsert_existing_objects=UPSERT,
            enable_patch_force=FORCE,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.kubeconfig = pulumi.Output.from_input(path)
        self.context = pulumi.Output.from_input(plan.context)
        self.register_outputs({"name": plan.name, "kubeconfig": self.kubeconfig, "context": self.context})

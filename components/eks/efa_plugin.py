"""`EfaDevicePlugin`: advertises EFA interfaces to pods as `vpc.amazonaws.com/efa`."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components._options import child_options
from gpu_platform.planning.clouds.daemonsets import HELM_SECONDS
from gpu_platform.planning.clouds.eks.cluster_plan import HelmChartPlan


class EfaDevicePlugin(pulumi.ComponentResource):
    """The EFA device plugin on nodes that have EFA interfaces.

    Outputs: `release`, the chart's version.
    """

    release: pulumi.Output[str]

    def __init__(self, name: str, args: HelmChartPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EfaDevicePlugin", name, None, opts)
        install(args, child_options(self, opts))
        self.release = pulumi.Output.from_input(args.version)
        self.register_outputs({"release": self.release})


def install(plan: HelmChartPlan, opts: pulumi.ResourceOptions) -> None:
    """Register the Helm release of a chart at its pinned version."""
    k8s.helm.v3.Release(
        plan.name,
        k8s.helm.v3.ReleaseArgs(
            name=plan.name,
            chart=plan.chart,
            version=plan.version,
            namespace=plan.namespace,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=plan.repository),
            values=dict(plan.values),
            atomic=True,
            timeout=HELM_SECONDS,
        ),
        opts=opts,
    )

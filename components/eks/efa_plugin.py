"""`EfaDevicePlugin`: advertises EFA interfaces to pods as `vpc.amazonaws.com/efa`."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components._options import child_options
from gpu_platform.planning.clouds.eks.plan import HelmChartPlan


class EfaDevicePlugin(pulumi.ComponentResource):
    """The EFA device plugin, on the nodes that have EFA interfaces.

    Outputs: `release`, the chart's version.
    """

    release: pulumi.Output[str]

    def __init__(self, name: str, plan: HelmChartPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EfaDevicePlugin", name, None, opts)
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
            ),
            opts=child_options(self, opts),
        )
        self.release = pulumi.Output.from_input(plan.version)
        self.register_outputs({"release": self.release})

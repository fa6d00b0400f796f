"""`EfaDraDriver`: publishes EFA interfaces as devices that pods can claim (DRANET)."""

from __future__ import annotations

import pulumi

from components._helm_release import install
from components._options import child_options
from gpu_platform.planning.clouds.section import HelmChartPlan


class EfaDraDriver(pulumi.ComponentResource):
    """The EFA DRA driver on nodes whose pods claim EFA interfaces. Its chart includes the DeviceClass.

    Outputs: `release`, the chart's version.
    """

    release: pulumi.Output[str]

    def __init__(self, name: str, args: HelmChartPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EfaDraDriver", name, None, opts)
        install(args, child_options(self, opts))
        self.release = pulumi.Output.from_input(args.version)
        self.register_outputs({"release": self.release})

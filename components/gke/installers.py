"""`GkeInstallers`: pinned DaemonSets that prepare GPU nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components._daemon_set import daemon_set
from components._options import child_options
from gpu_platform.planning.clouds.section import DaemonSetPlan


class GkeInstallers(pulumi.ComponentResource):
    """DaemonSets that install the driver and the GPUDirect plugins on the nodes of pools that need them.

    Outputs: `daemon_sets`, the names of the DaemonSets.
    """

    daemon_sets: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: Sequence[DaemonSetPlan], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-platform:index:GkeInstallers", name, None, opts)
        child = child_options(self, opts)
        for plan in args:
            daemon_set(plan, child)
        self.daemon_sets = pulumi.Output.from_input([plan.name for plan in args])
        self.register_outputs({"daemon_sets": self.daemon_sets})

"""`GkeInstallers`: pinned DaemonSets that prepare GPU nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.base import names
from gpu_platform.planning.clouds.gke.plan import DaemonSetPlan

# All nodes are updated at once, because the nodes of a job need the same version.
_MAX_UNAVAILABLE = "100%"
# The validation gate waits for nodes, with its own timeout, and can be switched off.
# Without this annotation, Pulumi waits ten minutes in each `up` while a single node is down, and then fails.
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}


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
            labels = {names.NAME_LABEL: plan.name}
            KubernetesObject(
                plan.name,
                "apps/v1/DaemonSet",
                metadata={
                    "name": plan.name,
                    "namespace": plan.namespace,
                    "labels": labels,
                    "annotations": _NOT_AWAITED,
                },
                spec={
                    "selector": {"matchLabels": labels},
                    "updateStrategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": _MAX_UNAVAILABLE},
                    },
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": dict(plan.pod_spec),
                    },
                },
                opts=child,
            )
        self.daemon_sets = pulumi.Output.from_input([plan.name for plan in args])
        self.register_outputs({"daemon_sets": self.daemon_sets})

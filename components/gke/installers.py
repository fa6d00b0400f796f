"""`GkeInstallers`: pinned DaemonSets that prepare GPU nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pulumi
import pulumi_kubernetes as k8s

from components._options import child_options
from gpu_platform import names
from gpu_platform.planning.clouds.gke.plan import DaemonSetPlan

# Nodes of one job need one version: all of them are changed at once.
_MAX_UNAVAILABLE = "100%"


class GkeInstallers(pulumi.ComponentResource):
    """DaemonSets that install the driver and the plugins of GPUDirect on the nodes of the pools that need them.

    Outputs: `daemon_sets`, their names.
    """

    daemon_sets: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: Sequence[DaemonSetPlan], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-platform:index:GkeInstallers", name, None, opts)
        child = child_options(self, opts)
        for plan in args:
            labels = {names.NAME_LABEL: plan.name}
            k8s.apps.v1.DaemonSet(
                plan.name,
                metadata=k8s.meta.v1.ObjectMetaArgs(name=plan.name, namespace=plan.namespace, labels=labels),
                spec=k8s.apps.v1.DaemonSetSpecArgs(
                    selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                    update_strategy=k8s.apps.v1.DaemonSetUpdateStrategyArgs(
                        type="RollingUpdate",
                        rolling_update=k8s.apps.v1.RollingUpdateDaemonSetArgs(max_unavailable=_MAX_UNAVAILABLE),
                    ),
                    template=k8s.core.v1.PodTemplateSpecArgs(
                        metadata=k8s.meta.v1.ObjectMetaArgs(labels=labels),
                        spec=cast("k8s.core.v1.PodSpecArgs", dict(plan.pod_spec)),
                    ),
                ),
                opts=child,
            )
        self.daemon_sets = pulumi.Output.from_input([plan.name for plan in args])
        self.register_outputs({"daemon_sets": self.daemon_sets})

"""Creates DaemonSets that prepare GPU nodes."""

from __future__ import annotations

from typing import Final

import pulumi

from components._kubernetes_object import KubernetesObject
from gpu_platform.base import names
from gpu_platform.planning.clouds.section import DaemonSetPlan

# All nodes are updated at once, because the nodes of a job need the same version.
_MAX_UNAVAILABLE: Final = "100%"
# The validation gate waits for nodes, with its own timeout, and can be switched off.
# Without this annotation, Pulumi waits ten minutes in each `up` while a single node is down, and then fails.
_NOT_AWAITED: Final = {"pulumi.com/skipAwait": "true"}


def daemon_set(plan: DaemonSetPlan, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Register a DaemonSet whose pods prepare the nodes on which they run."""
    labels = {names.NAME_LABEL: plan.name}
    return KubernetesObject(
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
        opts=opts,
    )

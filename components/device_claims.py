"""Objects of Dynamic Resource Allocation, such as `DeviceClasses` and the templates of teams' claims."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from gpu_platform.base import names
from gpu_platform.planning.dra.section import ClaimPlan, DeviceClassPlan


class DeviceClasses(pulumi.ComponentResource):
    """The DeviceClasses that the environment declares. The DRA driver's chart creates its own DeviceClasses.

    Outputs: `names`.
    """

    names: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: Sequence[DeviceClassPlan], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-platform:index:DeviceClasses", name, None, opts)
        child = child_options(self, opts)
        for plan in args:
            KubernetesObject(
                plan.name,
                "resource.k8s.io/v1/DeviceClass",
                metadata={"name": plan.name},
                spec={"selectors": _selectors(plan.selectors)},
                opts=child,
            )
        self.names = pulumi.Output.from_input([plan.name for plan in args])
        self.register_outputs({"names": self.names})


def claim_template(
    name: str,
    namespace: str,
    request: Manifest,
    opts: pulumi.ResourceOptions,
    *,
    logical_name: str,
) -> pulumi.Resource:
    """Register a ResourceClaimTemplate with one request."""
    return KubernetesObject(
        logical_name,
        "resource.k8s.io/v1/ResourceClaimTemplate",
        metadata={"name": name, "namespace": namespace},
        spec={"spec": {"devices": {"requests": [{"name": "devices", "exactly": request}]}}},
        opts=opts,
    )


def compute_domain(
    name: str, namespace: str, template: str, opts: pulumi.ResourceOptions, *, logical_name: str
) -> pulumi.Resource:
    """Register a ComputeDomain. The DRA driver creates the domain's ResourceClaimTemplate, named `template`.

    `numNodes` is 0, so the domain consists of the nodes that run pods with a claim from this template.
    """
    return KubernetesObject(
        logical_name,
        "resource.nvidia.com/v1beta1/ComputeDomain",
        metadata={"name": name, "namespace": namespace},
        spec={"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": template}}},
        opts=opts,
    )


def of_team(plan: ClaimPlan) -> Manifest:
    """Return the device request of a team's claim."""
    return {
        "deviceClassName": plan.device_class,
        "allocationMode": "ExactCount",
        "count": plan.count,
        "selectors": _selectors(plan.selectors) or None,
    }


def every_gpu() -> Manifest:
    """Return a request with admin access to all GPUs of a node. The request allocates no GPU."""
    return {"deviceClassName": names.GPU_DEVICE_CLASS, "allocationMode": "All", "adminAccess": True}


def _selectors(expressions: Sequence[str]) -> list[Manifest]:
    return [{"cel": {"expression": expression}} for expression in expressions]

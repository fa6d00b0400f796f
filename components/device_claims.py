"""Objects of Dynamic Resource Allocation: `DeviceClasses`, and the templates of teams' claims."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from components._options import child_options
from gpu_platform import names
from gpu_platform.planning.dra.section import ClaimPlan, DeviceClassPlan

# Its spec cannot be changed, and its name is what pods say: the old one has to go first.
_IMMUTABLE = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)


class DeviceClasses(pulumi.ComponentResource):
    """The DeviceClasses that the environment declares; those of the driver come with it.

    Outputs: `names`.
    """

    names: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: Sequence[DeviceClassPlan], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-platform:index:DeviceClasses", name, None, opts)
        child = child_options(self, opts)
        for plan in args:
            k8s.resource.v1.DeviceClass(
                plan.name,
                metadata=k8s.meta.v1.ObjectMetaArgs(name=plan.name),
                spec=k8s.resource.v1.DeviceClassSpecArgs(selectors=_selectors(plan.selectors)),
                opts=child,
            )
        self.names = pulumi.Output.from_input([plan.name for plan in args])
        self.register_outputs({"names": self.names})


def claim_template(
    name: str,
    namespace: str,
    request: k8s.resource.v1.ExactDeviceRequestArgs,
    opts: pulumi.ResourceOptions,
    *,
    logical_name: str,
) -> pulumi.Resource:
    """Register a ResourceClaimTemplate with one request."""
    return k8s.resource.v1.ResourceClaimTemplate(
        logical_name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=name, namespace=namespace),
        spec=k8s.resource.v1.ResourceClaimTemplateSpecArgs(
            spec=k8s.resource.v1.ResourceClaimSpecArgs(
                devices=k8s.resource.v1.DeviceClaimArgs(
                    requests=[k8s.resource.v1.DeviceRequestArgs(name="devices", exactly=request)]
                )
            )
        ),
        opts=pulumi.ResourceOptions.merge(opts, _IMMUTABLE),
    )


def compute_domain(
    name: str, namespace: str, template: str, opts: pulumi.ResourceOptions, *, logical_name: str
) -> pulumi.Resource:
    """Register a ComputeDomain, for which the DRA driver creates the ResourceClaimTemplate `template`.

    `numNodes` 0: the domain has the nodes on which pods with such a claim run.
    """
    return k8s.apiextensions.CustomResource(
        logical_name,
        api_version="resource.nvidia.com/v1beta1",
        kind="ComputeDomain",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=name, namespace=namespace),
        spec={"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": template}}},
        opts=pulumi.ResourceOptions.merge(opts, _IMMUTABLE),
    )


def of_team(plan: ClaimPlan) -> k8s.resource.v1.ExactDeviceRequestArgs:
    """Return the request of a team's claim."""
    return k8s.resource.v1.ExactDeviceRequestArgs(
        device_class_name=plan.device_class,
        allocation_mode="ExactCount",
        count=plan.count,
        selectors=_selectors(plan.selectors) or None,
    )


def every_gpu() -> k8s.resource.v1.ExactDeviceRequestArgs:
    """Return a request with admin access to all GPUs of a node, which allocates none of them."""
    return k8s.resource.v1.ExactDeviceRequestArgs(
        device_class_name=names.GPU_DEVICE_CLASS, allocation_mode="All", admin_access=True
    )


def _selectors(expressions: Sequence[str]) -> list[k8s.resource.v1.DeviceSelectorArgs]:
    return [
        k8s.resource.v1.DeviceSelectorArgs(cel=k8s.resource.v1.CELDeviceSelectorArgs(expression=expression))
        for expression in expressions
    ]

"""`DraDriver`: NVIDIA's DRA driver, which provides ComputeDomains in addition to the device plugin."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components._in_namespace import admit_priority_classes, own_namespace
from components._options import child_options
from gpu_platform.planning.clouds.daemonsets import HELM_SECONDS
from gpu_platform.planning.operator.section import DraDriverPlan

# The kubelet plugin and the IMEX daemons need access to the host.
_POD_SECURITY = "privileged"


class DraDriver(pulumi.ComponentResource):
    """The driver's namespace and its Helm release, which includes the CRD of ComputeDomains.

    Outputs: `release`, the driver's version.
    """

    release: pulumi.Output[str]

    def __init__(self, name: str, args: DraDriverPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:DraDriver", name, None, opts)
        namespace = own_namespace(args.namespace, _POD_SECURITY, child_options(self, opts))
        before: list[pulumi.Resource] = [namespace]
        if args.quota is not None:
            quota = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
            before.append(admit_priority_classes(args.namespace, args.quota, quota))
        k8s.helm.v3.Release(
            args.release,
            k8s.helm.v3.ReleaseArgs(
                name=args.release,
                chart=args.chart,
                version=args.version,
                namespace=args.namespace,
                values=dict(args.values),
                atomic=True,
                timeout=HELM_SECONDS,
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )
        self.release = pulumi.Output.from_input(args.version)
        self.register_outputs({"release": self.release})

"""`Addons`: controllers that team members' workloads need, installed from Helm charts."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.addons.section import AddonPlan, AddonsPlan

_ENVOY = "gateway.envoyproxy.io/gatewayclass-controller"


class Addons(pulumi.ComponentResource):
    """The add-ons of an environment, and the GatewayClass of its gateway.

    A release stays in the cluster after it is removed from the stack file. Deleting some charts also deletes their
    CRDs, and with them all custom resources that members created.

    Outputs: `versions` (chart version by name).
    """

    versions: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, args: AddonsPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Addons", name, None, opts)
        child = child_options(self, opts)
        releases: dict[str, pulumi.Resource] = {}
        for addon in args.addons:
            if addon.install:
                after = [releases[one] for one in addon.after if one in releases]
                releases[addon.name] = self._create(addon, child, after)
        if args.gateway_class is not None:
            KubernetesObject(
                "gateway-class",
                "gateway.networking.k8s.io/v1/GatewayClass",
                metadata={"name": args.gateway_class},
                spec={"controllerName": _ENVOY},
                opts=pulumi.ResourceOptions(parent=self, depends_on=[releases["gateway"]], retain_on_delete=True),
            )
        self.versions = pulumi.Output.from_input({one.name: one.version for one in args.addons if one.install})
        self.register_outputs({"versions": self.versions})

    def _create(
        self, addon: AddonPlan, opts: pulumi.ResourceOptions, after: list[pulumi.Resource]
    ) -> pulumi.Resource:
        kept = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=True))
        namespace = KubernetesObject(
            addon.namespace, "v1/Namespace", metadata={"name": addon.namespace}, opts=kept
        )
        oci = addon.repository.startswith("oci://")
        return k8s.helm.v3.Release(
            addon.chart,
            k8s.helm.v3.ReleaseArgs(
                name=addon.chart,
                chart=f"{addon.repository}/{addon.chart}" if oci else addon.chart,
                repository_opts=None if oci else k8s.helm.v3.RepositoryOptsArgs(repo=addon.repository),
                version=addon.version,
                namespace=addon.namespace,
                values=dict(addon.values),
                atomic=True,
                timeout=addon.seconds,
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[namespace, *after], retain_on_delete=True),
        )

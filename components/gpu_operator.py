"""`GpuOperator`: the NVIDIA GPU Operator, its namespace and its ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components._in_namespace import admit_priority_classes, own_namespace
from components._kubernetes_object import KubernetesObject
from components._options import child_options
from components.config_map import GpuSharing, MigLayout
from components.dra_driver import DraDriver
from gpu_platform.base import names
from gpu_platform.planning.clouds.daemonsets import HELM_SECONDS
from gpu_platform.planning.operator.section import OperatorPlan

_DRIVER = "default"  # name of the NVIDIADriver that the chart creates for all nodes
CHART_REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"
# Drivers and device plugins need access to the host.
_POD_SECURITY = "privileged"


class GpuOperator(pulumi.ComponentResource):
    """The operator's namespace, its content-hashed ConfigMaps, and the operator itself.

    `components.public.gpu_operator.GpuOperator` takes plain arguments, plans them, and creates this component.

    On a real cluster, a Helm release installs the operator. The release's chart creates the ClusterPolicy or, with
    DRA, the GPUCluster. In the sandbox, the component creates that object from the same values for the simulated
    operator. If NVLink connects nodes, the component also installs the DRA driver. The component creates nothing
    if the cluster already has the operator.

    Outputs: `release` (the operator's version), `namespace`.
    """

    release: pulumi.Output[str]
    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: OperatorPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GpuOperator", name, None, opts)
        self.release = pulumi.Output.from_input(args.release)
        self.namespace = pulumi.Output.from_input(args.namespace)
        if args.install != "none":
            self._install(args, opts)
        self.register_outputs({"release": self.release, "namespace": self.namespace})

    def _install(self, args: OperatorPlan, opts: pulumi.ResourceOptions | None) -> None:
        namespace = self._create_namespace(args, child_options(self, opts))
        in_namespace = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        configs = self._create_configs(args, in_namespace)
        if args.quota is not None:
            configs.append(admit_priority_classes(args.namespace, args.quota, in_namespace))
        ready = pulumi.ResourceOptions(parent=self, depends_on=[namespace, *configs])
        match args.install:
            case "helm":
                installed = self._install_chart(args, ready)
                if args.dra_driver is not None:
                    # The driver's pods select nodes by labels from the operator's feature discovery.
                    after = pulumi.ResourceOptions(parent=self, depends_on=[installed])
                    DraDriver("dra-driver", args.dra_driver, after)
            case "cluster-policy":
                spec = args.cluster_policy
                self._create_object("nvidia.com/v1", "ClusterPolicy", names.CLUSTER_POLICY, spec, args, ready)
            case "gpu-cluster":
                api, spec = "nvidia.com/v1alpha1", args.gpu_cluster
                self._create_object(api, "GPUCluster", names.GPU_CLUSTER, spec, args, ready)
                if args.nvidia_driver:
                    self._create_object(api, "NVIDIADriver", _DRIVER, args.nvidia_driver, args, ready)
            case "none":
                pass
        self.namespace = namespace.metadata["name"]

    def _create_namespace(self, args: OperatorPlan, opts: pulumi.ResourceOptions) -> KubernetesObject:
        return own_namespace(args.namespace, _POD_SECURITY, opts)

    def _create_configs(self, args: OperatorPlan, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        configs: list[pulumi.Resource] = []
        if args.device_plugin_config is not None:
            configs.append(GpuSharing("gpu-sharing", args.device_plugin_config, opts))
        if args.mig_config is not None:
            configs.append(MigLayout("mig-layout", args.mig_config, opts))
        if args.metrics_config is not None:
            metrics = args.metrics_config
            configs.append(
                KubernetesObject(
                    metrics.name,
                    "v1/ConfigMap",
                    metadata={"name": metrics.name, "namespace": metrics.namespace},
                    data=metrics.data,
                    opts=opts,
                )
            )
        return configs

    def _install_chart(self, args: OperatorPlan, opts: pulumi.ResourceOptions) -> pulumi.Resource:
        return k8s.helm.v3.Release(
            names.OPERATOR_CHART,
            k8s.helm.v3.ReleaseArgs(
                name=names.OPERATOR_CHART,
                chart=names.OPERATOR_CHART,
                version=args.release,
                namespace=args.namespace,
                repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=CHART_REPOSITORY),
                values=dict(args.helm_values),
                atomic=True,
                timeout=HELM_SECONDS,
            ),
            opts=opts,
        )

    def _create_object(
        self,
        api_version: str,
        kind: str,
        name: str,
        spec: Mapping[str, Any],
        args: OperatorPlan,
        opts: pulumi.ResourceOptions,
    ) -> None:
        KubernetesObject(
            name,
            f"{api_version}/{kind}",
            metadata={"name": name, "labels": {names.VERSION_LABEL: args.release}},
            spec=spec,
            opts=opts,
        )

"""`GpuSharing` and `MigLayout`: the ConfigMaps that the device plugin and the MIG manager read."""

from __future__ import annotations

from typing import ClassVar

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.config_maps import ConfigMapPlan


class _HashedConfigMap(pulumi.ComponentResource):
    """One ConfigMap whose name carries the hash of its content.

    Outputs: `config_map_name`.
    """

    resource_type: ClassVar[str]
    config_map_name: pulumi.Output[str]

    def __init__(self, name: str, args: ConfigMapPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(self.resource_type, name, None, opts)
        config_map = KubernetesObject(
            args.name,
            "v1/ConfigMap",
            metadata={"name": args.name, "namespace": args.namespace},
            data=args.data,
            opts=child_options(self, opts),
        )
        self.config_map_name = config_map.metadata["name"]
        self.register_outputs({"config_map_name": self.config_map_name})


class GpuSharing(_HashedConfigMap):
    """ConfigMap of the device plugin: one key per pool, chosen by node label `nvidia.com/device-plugin.config`."""

    resource_type = "gpu-platform:index:GpuSharing"


class MigLayout(_HashedConfigMap):
    """ConfigMap with MIG layouts for mig-parted, one per pool; the label `nvidia.com/mig.config` selects one."""

    resource_type = "gpu-platform:index:MigLayout"

"""`GpuSharing` and `MigLayout`: ConfigMaps for the device plugin and the MIG manager. `pod_file`: ConfigMaps that
pods mount.
"""

from __future__ import annotations

from typing import ClassVar

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.clouds.section import PodFile
from gpu_platform.planning.config_maps import ConfigMapPlan


class _HashedConfigMap(pulumi.ComponentResource):
    """One ConfigMap whose name contains the hash of its content.

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
    """ConfigMap for the device plugin, with one key per pool. The node label `nvidia.com/device-plugin.config`
    selects the key.
    """

    resource_type = "gpu-platform:index:GpuSharing"


class MigLayout(_HashedConfigMap):
    """ConfigMap with one MIG layout per pool for mig-parted. The node label `nvidia.com/mig.config` selects the
    layout.
    """

    resource_type = "gpu-platform:index:MigLayout"


def pod_file(file: PodFile, namespace: str, opts: pulumi.ResourceOptions, *, logical_name: str) -> pulumi.Resource:
    """Register the ConfigMap of a file in the namespace of the pods that mount it."""
    return KubernetesObject(
        logical_name,
        "v1/ConfigMap",
        metadata={"name": file.config_map, "namespace": namespace},
        data=dict(file.data),
        opts=opts,
    )

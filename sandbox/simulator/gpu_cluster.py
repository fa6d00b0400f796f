"""The GPUCluster fields that the DRA driver reads, with the operator's defaults, and its DeviceClasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from gpu_platform.base import names

TYPE_OF_CLASS: Final[Mapping[str, str]] = {
    names.GPU_DEVICE_CLASS: "gpu",
    names.MIG_DEVICE_CLASS: "mig",
    "vfio.gpu.nvidia.com": "vfio",
}


@dataclass(frozen=True, slots=True)
class GpuCluster:
    """The part of a GPUCluster's spec that the simulated DRA driver reads."""

    dynamic_mig: bool = False


def read_gpu_cluster(spec: Mapping[str, Any]) -> GpuCluster:
    """Return the fields of a spec that the DRA driver reads. Unknown feature gates are ignored."""
    driver = spec.get("draDriver")
    gates = cast("Mapping[str, Any]", driver).get("featureGates") if isinstance(driver, dict) else None
    dynamic = cast("Mapping[str, Any]", gates).get("DynamicMIG") if isinstance(gates, dict) else None
    return GpuCluster(dynamic_mig=dynamic is True)


def device_class(name: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return a DeviceClass of the DRA driver, owned by the GPUCluster `owner`.

    Source: gpu-operator v26.7.0, manifests/state-dra-driver.
    """
    kind = TYPE_OF_CLASS[name]
    expression = (
        f"device.driver == '{names.DRA_DRIVER}' && device.attributes['{names.DRA_DRIVER}'].type == '{kind}'"
    )
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {
        "metadata": {"name": name, "ownerReferences": [reference]},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }

"""GPU feature discovery: the labels that describe a node's GPUs.

Source: NVIDIA/k8s-device-plugin 0.20.0, internal/lm (nvml.go, resource.go, mig-strategy.go). The timestamp, and
the multiprocessors and engines of MIG devices, are not simulated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpu_platform.base import names
from sandbox.simulator.device_plugin import MIG_STRATEGIES, PluginConfig, PluginError, Sharing
from sandbox.simulator.hardware import Hardware, mig_instances, without_mig

Labels = dict[str, str]


def feature_labels(hardware: Hardware, config: PluginConfig, strategy: str) -> Labels:
    """Return every label that feature discovery sets. Raises PluginError if it fails."""
    if not hardware.driver_answers:
        raise PluginError("failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND")
    if not hardware.gpus:
        return {}
    if any(gpu.lost for gpu in hardware.gpus):
        raise PluginError("error getting device name: GPU is lost")
    if config.sharing.strategy == "mps" and any(layout is not None for layout in hardware.layouts):
        raise PluginError("failed to check MPS-capable: MPS sharing is not supported for mig devices")
    if strategy not in MIG_STRATEGIES:
        raise PluginError(f"unknown strategy: {strategy}")
    labels = {
        "nvidia.com/gpu.machine": sanitise(_dmi_product_name(hardware)),
        "nvidia.com/gpu.mode": "compute",
        names.MIG_CAPABLE_LABEL: _flag(hardware.mig is not None),
        "nvidia.com/mps.capable": _flag(config.sharing.strategy == "mps"),
        **_version_labels(hardware.driver_version, hardware.cuda_version),
        **_gpu_labels(hardware, config.sharing),
        **({names.GPU_CLIQUE_LABEL: f"{hardware.fabric}.0"} if hardware.fabric is not None else {}),
    }
    if strategy != "none":
        labels[names.MIG_STRATEGY_LABEL] = strategy
        labels |= _mig_labels(hardware, config.sharing, strategy)
    return labels


def _version_labels(driver: str, cuda: int) -> Labels:
    """Return the labels for a driver version `X.Y[.Z]` and for the newest CUDA version that it supports."""
    major, minor, revision = (*driver.split("."), "", "")[:3]
    cuda_major, cuda_minor = str(cuda // 1000), str(cuda % 1000 // 10)
    return {
        "nvidia.com/cuda.driver.major": major,
        "nvidia.com/cuda.driver.minor": minor,
        "nvidia.com/cuda.driver.rev": revision,
        "nvidia.com/cuda.runtime.major": cuda_major,
        "nvidia.com/cuda.runtime.minor": cuda_minor,
        "nvidia.com/cuda.driver-version.major": major,
        "nvidia.com/cuda.driver-version.minor": minor,
        "nvidia.com/cuda.driver-version.revision": revision,
        "nvidia.com/cuda.driver-version.full": driver,
        "nvidia.com/cuda.runtime-version.major": cuda_major,
        "nvidia.com/cuda.runtime-version.minor": cuda_minor,
        "nvidia.com/cuda.runtime-version.full": f"{cuda_major}.{cuda_minor}",
    }


def _gpu_labels(hardware: Hardware, sharing: Sharing) -> Labels:
    """Return the labels of the GPUs themselves. A GPU in MIG mode is not shared as a whole.

    If a node has several products, the real label has the last product in the random order of a Go map. The
    simulated label has the first GPU's product.
    """
    product = hardware.gpus[0].product
    same = [gpu for gpu in hardware.gpus if gpu.product == product]
    major, minor = hardware.gpu.compute_capability.split(".")
    return {
        **_resource_labels(names.GPU_RESOURCE, product, len(same), sharing if without_mig(same) else None),
        names.GPU_MEMORY_LABEL: str(hardware.gpus[0].memory_mib),
        "nvidia.com/gpu.family": architecture_family(int(major), int(minor)),
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
    }


def _mig_labels(hardware: Hardware, sharing: Sharing, strategy: str) -> Labels:
    product = hardware.gpus[0].product
    instances = mig_instances(hardware.gpus)
    if strategy == "single":
        whole = without_mig(hardware.gpus)
        if len(whole) == len(hardware.gpus):
            return {}
        empty = any(gpu.layout is not None and not any(gpu.layout.values()) for gpu in hardware.gpus)
        if whole or empty or len(instances) != 1:
            return {
                names.GPU_PRODUCT_LABEL: f"{sanitise(product)}-MIG-INVALID",
                names.GPU_COUNT_LABEL: "0",
                names.GPU_REPLICAS_LABEL: "0",
                names.GPU_SHARING_STRATEGY_LABEL: "",
                names.GPU_MEMORY_LABEL: "0",
            }
    labels: Labels = {}
    for profile, count in instances.items():
        resource = names.GPU_RESOURCE if strategy == "single" else names.mig_resource(profile)
        device = f"{product}-MIG-{profile.replace('+', '.')}"
        labels |= _resource_labels(resource, device, count, sharing)
        labels |= _mig_attributes(hardware, resource, profile)
    return labels


def _mig_attributes(hardware: Hardware, resource: str, profile: str) -> Labels:
    table = hardware.mig
    known = table.profile(profile) if table else None
    if table is None or known is None:
        return {}
    return {
        f"{resource}.memory": str(table.memory_mib(known, hardware.gpu.memory_mib)),
        f"{resource}.slices.gi": str(known.compute_slices),
        f"{resource}.slices.ci": str(known.compute_slices),
    }


def _resource_labels(resource: str, product: str, count: int, sharing: Sharing | None) -> Labels:
    """Return a resource's labels: product, count, replicas and sharing strategy. If `sharing` is None, replicas is
    0.
    """
    replicas = sharing.replicas_of(resource) if sharing else 0
    in_force = sharing if sharing is not None and replicas > 1 else None
    return {
        f"{resource}.product": sanitise(product) + ("-SHARED" if in_force and not in_force.renamed else ""),
        f"{resource}.count": str(count),
        f"{resource}.replicas": str(replicas),
        f"{resource}.sharing-strategy": in_force.strategy if in_force else "none",
    }


def architecture_family(major: int, minor: int) -> str:
    """Return the architecture family of a compute capability (resource.go, getArchFamily)."""
    match major:
        case 7:
            return "volta" if minor < 5 else "turing"
        case 8:
            return "ampere" if minor < 9 else "ada-lovelace"
        case 9:
            return "hopper"
        case 10 | 12:
            return "blackwell"
        case 13:
            return "rubin"
        case _:
            return "undefined"


def sanitise(text: str) -> str:
    """Return a valid label value: invalid characters are removed, and dashes replace spaces (resource.go,
    sanitise).
    """
    return "-".join(re.sub(r"[^A-Za-z0-9\-_. ]", "", text).split())


def _dmi_product_name(hardware: Hardware) -> str:
    """Return the content of /sys/class/dmi/id/product_name: the instance type on EC2, or the same name for all
    types on GCP.
    """
    return "Google Compute Engine" if hardware.machine.vendor == "gcp" else hardware.machine.name


def _flag(value: bool) -> str:
    return "true" if value else "false"


# Only operands set labels with these prefixes, apart from a few labels that users set.
_OWN_PREFIXES = ("nvidia.com/gpu.", "nvidia.com/cuda.", "nvidia.com/mig.", "nvidia.com/mig-", "nvidia.com/mps.")
_OTHERS = (names.MIG_CONFIG_LABEL, "nvidia.com/gpu.workload.config")
_OTHERS_PREFIX = "nvidia.com/gpu.deploy."


def is_operand_label(key: str) -> bool:
    """Return whether only operands set this node label. Such a label is removed when operands no longer set it."""
    return key.startswith(_OWN_PREFIXES) and key not in _OTHERS and not key.startswith(_OTHERS_PREFIX)


def stale_labels(present: Mapping[str, str], wanted: Mapping[str, str]) -> set[str]:
    """Return the operand labels on a node that are not in `wanted`."""
    return {key for key in present if is_operand_label(key) and key not in wanted}

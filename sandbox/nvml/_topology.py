"""Functions of the simulated NVML for the NVLinks, the CPU affinity, the topology of two devices, and the NVLink
fabric.
"""

from __future__ import annotations

from typing import Any, Final

from sandbox.nvml._hardware import FABRIC_NOT_SUPPORTED, SimulatedGpu, SimulatedNode
from sandbox.nvml._symbols import (
    ARGUMENT_VERSION_MISMATCH,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    Status,
    fill,
    resolve,
    symbol,
    value_of,
)

_ALL_NUMA_NODES: Final = 0b11  # NVML's answer if the platform does not report the NUMA node
_NVLINK_SWITCH: Final = 2
_SAME_DEVICE, _SAME_NODE, _ACROSS_NODES = 0, 40, 50  # nvmlGpuTopologyLevel_t
_P2P_OK, _P2P_CHIPSET_NOT_SUPPORTED, _P2P_NOT_SUPPORTED = 0, 1, 5
_P2P_NVLINK: Final = 2
_SWITCH_BUS: Final = 0xC0
FABRIC_VERSIONS: Final = (0x2000024, 0x3000028)  # struct version and size, encoded as in nvml.h
_HEALTHY, _UNHEALTHY = 1, 2  # NVML_GPU_FABRIC_HEALTH_SUMMARY_*
_SOUND, _DEGRADED = 0x2, 0x1  # NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_*


@symbol("nvmlDeviceGetNvLinkState")
def nvlink_state(gpu: SimulatedGpu, link: int) -> bool:
    return gpu.links[_link(gpu, link)]


@symbol("nvmlDeviceGetNvLinkVersion")
def nvlink_version(gpu: SimulatedGpu, link: int) -> int:
    _link(gpu, link)
    return gpu.nvlink_version


@symbol("nvmlDeviceGetNvLinkErrorCounter")
def nvlink_error_counter(gpu: SimulatedGpu, link: int, counter: int) -> int:
    del counter
    _active(gpu, link)
    return 0


@symbol("nvmlDeviceGetNvLinkRemoteDeviceType")
def nvlink_remote_device_type(gpu: SimulatedGpu, link: int) -> int:
    _active(gpu, link)
    return _NVLINK_SWITCH


@symbol("nvmlDeviceGetNvLinkRemotePciInfo_v2")
def nvlink_remote_pci_info(gpu: SimulatedGpu, link: int) -> dict[str, object]:
    _active(gpu, link)
    return {"domain": 0, "bus": _SWITCH_BUS + link % 6, "device": 0,
            "busId": f"00000000:{_SWITCH_BUS + link % 6:02X}:00.0".encode()}  # fmt: skip


def _link(gpu: SimulatedGpu, link: int) -> int:
    if not gpu.links:
        raise Status(NOT_SUPPORTED)
    if not 0 <= link < len(gpu.links):
        raise Status(INVALID_ARGUMENT)
    return link


def _active(gpu: SimulatedGpu, link: int) -> None:
    if not gpu.links[_link(gpu, link)]:
        raise Status(NOT_SUPPORTED)


@symbol("nvmlDeviceGetNumaNodeId")
def numa_node_id(gpu: SimulatedGpu) -> int:
    """Answer NOT_SUPPORTED. GPU memory is a NUMA node of the host only on Grace."""
    del gpu
    raise Status(NOT_SUPPORTED)


@symbol("nvmlDeviceGetMemoryAffinity", raw=True)
def memory_affinity(gpu: SimulatedGpu, words: int, target: Any, scope: Any) -> None:  # noqa: ANN401
    del scope
    fill(target._obj, _words(_ALL_NUMA_NODES if gpu.numa_node is None else 1 << gpu.numa_node, words))


@symbol("nvmlDeviceGetCpuAffinity", subject="node", raw=True)
def cpu_affinity(node: SimulatedNode, handle: Any, words: int, target: Any) -> None:  # noqa: ANN401
    """Write the CPUs of the GPU's NUMA node. All NUMA nodes have equally large, consecutive ranges of CPUs."""
    gpu, _ = resolve(node, value_of(handle))
    nodes = 1 + max((other.numa_node or 0) for other in node.gpus)
    share = node.cpus // nodes
    mask = (1 << node.cpus) - 1 if gpu.numa_node is None else ((1 << share) - 1) << share * gpu.numa_node
    fill(target._obj, _words(mask, words))


def _words(mask: int, words: int) -> list[int]:
    return [(mask >> 64 * place) & 0xFFFFFFFFFFFFFFFF for place in range(words)]


@symbol("nvmlDeviceGetTopologyCommonAncestor", subject="node", raw=True)
def common_ancestor(node: SimulatedNode, one: Any, other: Any, target: Any) -> None:  # noqa: ANN401
    first, _ = resolve(node, value_of(one))
    second, _ = resolve(node, value_of(other))
    if first is second:
        level = _SAME_DEVICE
    else:
        near = first.numa_node == second.numa_node is not None
        level = _SAME_NODE if near else _ACROSS_NODES
    fill(target._obj, level)


@symbol("nvmlDeviceGetP2PStatus", subject="node", raw=True)
def p2p_status(node: SimulatedNode, one: Any, other: Any, index: Any, target: Any) -> None:  # noqa: ANN401
    first, _ = resolve(node, value_of(one))
    second, _ = resolve(node, value_of(other))
    severed = second.bus in first.severed or first.bus in second.severed
    linked = any(first.links) and any(second.links) and not severed
    if value_of(index) == _P2P_NVLINK:
        status = _P2P_OK if linked else _P2P_NOT_SUPPORTED
    else:
        status = _P2P_OK if linked else _P2P_CHIPSET_NOT_SUPPORTED
    fill(target._obj, status)


@symbol("nvmlDeviceGetGpuFabricInfo", raw=True)
def gpu_fabric_info(gpu: SimulatedGpu, target: Any) -> None:  # noqa: ANN401 - a C argument
    fill_fabric(getattr(target, "_obj", target), gpu.fabric_state, 0, gpu.fabric_clique, gpu.fabric_cluster)


@symbol("nvmlDeviceGetGpuFabricInfoV", raw=True)
def versioned_gpu_fabric_info(gpu: SimulatedGpu, target: Any) -> None:  # noqa: ANN401 - a C argument
    info = getattr(target, "_obj", target)
    if info.version not in FABRIC_VERSIONS:
        raise Status(ARGUMENT_VERSION_MISMATCH)
    gpu_fabric_info(gpu, info)
    supported = gpu.fabric_state != FABRIC_NOT_SUPPORTED
    fill(info, {"healthSummary": (_UNHEALTHY if gpu.fabric_degraded else _HEALTHY) if supported else 0})
    fill(info, {"healthMask": _DEGRADED if gpu.fabric_degraded else _SOUND if supported else 0})


def fill_fabric(info: Any, state: int, status: int, clique: int, cluster: str) -> None:  # noqa: ANN401 - a C struct
    """Write the registration of a GPU in the NVLink fabric. `cluster` has 32 hexadecimal digits."""
    fill(info, {"state": state, "status": status, "cliqueId": clique})
    fill(info.clusterUuid, bytes.fromhex(cluster))

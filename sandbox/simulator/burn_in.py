"""Simulated results of active checks on a node, which depend on its machine type and faults. The functions are
pure.

The figures of healthy nodes are round values: the rate of each link, minus its overhead. The NCCL figures of P5
and P4de are measured (awslabs/awsome-distributed-training, micro-benchmarks/nccl-tests, commit 0edaf152): 476 GB/s
in a P5 node, 487 GB/s between two P5 nodes, and 78 GB/s between two P4de nodes. The checks compare these figures
with separate values in the catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.catalog import Catalog, MachineType
from sandbox.nvml import NodeProfile
from sandbox.nvml.faults import GpuLost, GpuMissing, SlowHostLink, SlowNetwork, SlowNvlink, WrongProducts
from sandbox.simulator.kube import Object

_PART: Final = "BURN_IN_PART"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_HOST: Final[Mapping[int, float]] = {3: 12.5, 4: 25.2, 5: 55.3, 6: 110.0}  # bandwidth in GB/s by PCIe generation
_DEVICE: Final[Mapping[str, float]] = {"volta": 45.0, "ampere": 262.0, "hopper": 372.0, "blackwell": 700.0}
_REDUCE: Final[Mapping[str, float]] = {"volta": 125.0, "ampere": 232.0, "hopper": 476.0, "blackwell": 830.0}
_NETWORK: Final[Mapping[str, float]] = {"volta": 10.0, "ampere": 78.3, "hopper": 487.1, "blackwell": 360.0}
_PCIE_ONLY: Final = 11.0  # bandwidth in GB/s between GPUs without NVLink
_PRODUCT, _OTHER_PRODUCT = "5c1d0f7a2b9e4386", "0000000000000bad"


def burn_in_message(pod: Object, profile: NodeProfile, catalog: Catalog) -> str:
    """Return the termination message of an active-check pod, or an empty string if it is not the first pod of its
    Job.
    """
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    if labels.get(_INDEX, "0") != "0":
        return ""
    container: Mapping[str, Any] = pod["spec"]["containers"][0]
    variables: Sequence[Mapping[str, str]] = container.get("env") or ()
    part = next((one["value"] for one in variables if one["name"] == _PART), "node")
    return json.dumps(measured(profile, catalog, nodes=2 if part == "nodes" else 1), separators=(",", ":"))


def measured(profile: NodeProfile, catalog: Catalog, *, nodes: int) -> dict[str, Any]:
    """Return the check program's result for this node alone, or together with a healthy node of the same type."""
    machine = catalog.machine_types[profile.machine_type]
    faults = profile.faults
    if gone := next((fault for fault in faults if isinstance(fault, GpuLost | GpuMissing)), None):
        return {"version": 1, "error": f"RuntimeError: CUDA error: device {gone.index} is lost"}
    found: dict[str, Any] = {"version": 1, "gpus": machine.gpu_count * nodes, "network": ""}
    if nodes == 1:
        found |= _of_node(machine, profile, catalog)
    if machine.gpu_count * nodes > 1:
        speed = _reduced(machine, profile, catalog, nodes)
        found["all_reduce"] = {"gb_per_second": speed, "bytes": 8589934592, "right": True}
    return found


def _of_node(machine: MachineType, profile: NodeProfile, catalog: Catalog) -> dict[str, Any]:
    gpu, count = catalog.gpu_of(machine), machine.gpu_count
    host = [_HOST[gpu.pcie_generation]] * count
    device = [_between(machine, _DEVICE, catalog)] * (count if count > 1 else 0)
    wrong, products = [0] * count, [_PRODUCT] * count
    for fault in profile.faults:
        if isinstance(fault, SlowHostLink):
            host[fault.index] = fault.gb_per_second
        elif isinstance(fault, SlowNvlink) and device:
            device[fault.index] = fault.gb_per_second
        elif isinstance(fault, WrongProducts):
            wrong[fault.index], products[fault.index] = fault.count, _OTHER_PRODUCT
    return {
        "host_to_device": host,
        "device_to_host": host,
        "device_to_device": device,
        "wrong_products": wrong,
        "products": products,
        "tflops": [600.0] * count,
    }


def _reduced(machine: MachineType, profile: NodeProfile, catalog: Catalog, nodes: int) -> float:
    speed = _between(machine, _REDUCE if nodes == 1 else _NETWORK, catalog)
    slow = [fault.gb_per_second for fault in profile.faults if isinstance(fault, SlowNvlink)]
    if nodes > 1:
        slow += [fault.gb_per_second for fault in profile.faults if isinstance(fault, SlowNetwork)]
    return min([speed, *slow])


def _between(machine: MachineType, table: Mapping[str, float], catalog: Catalog) -> float:
    if not machine.nvlinks_per_gpu:
        return _PCIE_ONLY
    return table[catalog.gpu_of(machine).architecture]

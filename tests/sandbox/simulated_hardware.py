"""Hardware of simulated nodes, for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_platform.catalog import load_catalog
from sandbox.simulator.hardware import Hardware, VisibleGpu

A100 = "p4de.24xlarge"  # 8 x A100-80GB
T4 = "g4dn.12xlarge"  # 4 x T4

OFF = None  # MIG mode off


def node(machine_type: str = A100, *layouts: Mapping[str, int] | None, **changes: Any) -> Hardware:
    """Return a node of a machine type.

    `layouts` contains one MIG layout per GPU, or one layout for all GPUs. None turns MIG off.
    """
    catalog = load_catalog()
    machine = catalog.machine_types[machine_type]
    gpu = catalog.gpu_of(machine)
    given = layouts or (OFF,)
    cut = given * machine.gpu_count if len(given) == 1 else given
    numa_nodes = machine.numa_nodes or (None,) * len(cut)
    facts: dict[str, Any] = {
        "machine": machine,
        "gpu": gpu,
        "driver_version": "580.95.05",
        "cuda_version": 13000,
        "gpus": tuple(
            VisibleGpu(gpu.product, gpu.memory_mib, layout, numa_node=numa_node)
            for layout, numa_node in zip(cut, numa_nodes, strict=False)
        ),
    }
    return Hardware(**{**facts, **changes})

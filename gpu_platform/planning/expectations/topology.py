"""The expected GPU topology of a machine type, with the labels of `nvidia-smi topo -m`."""

from __future__ import annotations

from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.expectations.hardware import SWITCHED

_SELF: Final = "X"
_UNKNOWN: Final = "?"


def expected_matrix(machine: MachineType, catalog: Catalog) -> list[list[str]]:
    """Return how each pair of GPUs is connected, according to the catalogue.

    `NV#` means that NVLink connects all GPUs, with this number of links per GPU. `NODE` and `SYS` depend
    on the NUMA nodes of the two GPUs. `?` means that the connection is not known.
    """
    switched = machine.all_linked and catalog.gpu_of(machine).architecture in SWITCHED

    def label(one: int, two: int) -> str:
        if one == two:
            return _SELF
        if switched:
            return f"NV{machine.nvlinks_per_gpu}"
        if machine.numa_nodes is None or machine.nvlinks_per_gpu:
            return _UNKNOWN
        return "NODE" if machine.numa_nodes[one] == machine.numa_nodes[two] else "SYS"

    return [[label(one, two) for two in range(machine.gpu_count)] for one in range(machine.gpu_count)]

"""Labels that describe the position of EKS nodes in the network topology.

Sources: EKS user guide, "Place distributed AI/ML workloads with network topology labels"; EC2 user guide,
"Prerequisites for Amazon EC2 topology" (instance types, and 4 layers of p6-b200 and p6-b300); read 2026-11-23.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.base import names

_LAYERS: Final = tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))
_SIZES: Final = frozenset(
    {
        "p3dn.24xlarge",
        "p4d.24xlarge",
        "p4de.24xlarge",
        "p5.48xlarge",
        "p5e.48xlarge",
        "p5en.48xlarge",
        "p6-b200.48xlarge",
        "p6-b300.48xlarge",
        "p6e-gb200.36xlarge",
    }
)


def topology_levels(machine_type: str, workload: str) -> tuple[str, ...]:
    """Return the topology levels of a pool. A training pool has network levels if EC2 reports the network topology
    of its machine type.
    """
    layers = _LAYERS if machine_type in _SIZES and workload == "training" else ()
    return (*layers, names.HOSTNAME_LABEL)

"""Check pools of rack-scale machines, whose GPUs are connected by one NVLink fabric across several nodes.

A pool is one NVLink domain or a part of a domain. On EC2, the pool names one reservation, which is sold as one
UltraServer. On GKE, the pool has one workload policy, which places nodes in one domain. Pods that share GPU memory
over NVLink then fit into a pool, and validation can compare the fabric of its nodes. Sources: EKS user guide,
P6e-GB200 UltraServers; Compute Engine docs, workload policies; cluster-toolkit 1.95, examples/gke-a4x (a policy
for node pools of 18); read 2026-11-23.
"""

from __future__ import annotations

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Pool


def check_domain(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record a problem if a pool has more nodes than one NVLink domain."""
    domain = catalog.nvlink_domain(machine)
    if domain is None:
        return
    if pool.count.maximum > domain.most_nodes:
        sizes = " or ".join(str(size) for size in domain.nodes)
        problems.at("count").at("desired" if pool.count.max is None else "max").add(
            f"{counted(pool.count.maximum, 'node')} of {machine.name}",
            f"at most {domain.most_nodes}; a pool is one NVLink domain, which has {sizes} nodes ({domain.source})",
            f"split the pool into pools of {domain.most_nodes} nodes or fewer, each with its own reservation",
        )

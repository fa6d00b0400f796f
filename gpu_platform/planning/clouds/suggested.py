"""Add the fields that a cloud needs to a suggested pool, so that the pool passes the cloud's checks.

On EKS, a pool of several nodes with EFA must be in one zone (`eks/placement.py`). On GKE, a pool with a fixed
number of nodes must name its zones (`gke/capacity.py`). The letters of EC2 zones differ by account, so the
catalogue lists zones only for Google Cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.stack.pool import MAX_NODES


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedNodes:
    """Nodes of a suggested pool.

    `region` and `zone` are from the workloads file. `rdma` is true if the pool's pods request RDMA.
    """

    machine: MachineType
    workload: str
    count: int
    rdma: bool
    region: str | None
    zone: str | None

    @property
    def has_fabric(self) -> bool:
        """Whether the nodes have RDMA interfaces. Training pools have them unless the stack file disables RDMA."""
        return self.machine.rdma_interfaces > 0 and (self.rdma or self.workload == "training")


def with_working_fabric(machine: MachineType, catalog: Catalog) -> MachineType:
    """Return the machine type, without its RDMA interfaces if no node of the program can use them.

    On GKE, no supported Kubernetes version can use some of them (`fabric_broken_from` of the family in the
    catalogue). On AKS, the program sets up only the series in the catalogue's `infiniband_series`.
    """
    if machine.vendor == "azure" and catalog.infiniband(machine) is None:
        return machine.model_copy(update={"rdma_interfaces": 0})
    if machine.vendor != "gcp" or catalog.gcp_family(machine).fabric_broken_from is None:
        return machine
    return machine.model_copy(update={"rdma_interfaces": 0})


def pool_settings(nodes: SuggestedNodes, catalog: Catalog, *, capacity: str) -> Mapping[str, Any]:
    """Return the fields that a cloud needs in the stack file's pool, such as capacity, zones and network."""
    vendor = catalog.vendors[nodes.machine.vendor]
    if not vendor.is_cloud:
        return {}
    found: dict[str, Any] = {"capacity": {"type": capacity}} if capacity != "on-demand" else {}
    region = nodes.region or vendor.reference_region
    several = vendor.needs_zone == "several-with-fabric" and nodes.has_fabric and nodes.count > 1
    if region is not None and (nodes.zone is not None or several or vendor.needs_zone == "always"):
        offered = catalog.offered(nodes.machine)
        known = offered.zones.get(region, ()) if offered is not None else ()
        found["zones"] = [nodes.zone or next(iter(known), vendor.first_zone.format(region=region))]
    if nodes.rdma and nodes.workload != "training":
        found["network"] = {"rdma": True}
    if nodes.workload == "training" and nodes.machine != catalog.machine_types[nodes.machine.name]:
        found["network"] = {"rdma": False}
    return found


def most_nodes(machine: MachineType, catalog: Catalog, *, has_fabric: bool) -> int:
    """Return the maximum number of nodes in one pool.

    Compact placement on Google Cloud and the fabrics of Azure lower the maximum for nodes with RDMA.
    """
    together = catalog.gcp_family(machine).compact_max_nodes if machine.vendor == "gcp" and has_fabric else None
    series = catalog.infiniband(machine) if machine.vendor == "azure" and has_fabric else None
    return min(MAX_NODES, together or MAX_NODES, series.most_nodes if series is not None else MAX_NODES)

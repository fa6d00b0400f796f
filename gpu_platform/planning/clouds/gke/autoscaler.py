"""Check that GKE's cluster autoscaler supports the GPU resources of an autoscaled pool.

The autoscaler recognises the GPUs of a pool only as `nvidia.com/gpu`. When it scales up from zero nodes, it
expects no other GPU resource on a new node, so it adds no node for pods that request another GPU resource. A node
with the accelerator label whose allocatable `nvidia.com/gpu` is 0 counts as unready forever. GKE's own GPU sharing
keeps the resource name `nvidia.com/gpu`.

Sources: kubernetes/autoscaler#8095, and cluster-autoscaler/processors/customresources/gpu_processor.go
(FilterOutNodesWithUnreadyResources, GetNodeGpuTarget); read 2026-11-23.
"""

from __future__ import annotations

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.autoscaled_gpus import offered_gpus
from gpu_platform.planning.clouds.gke.capacity import fixed_count_fix, sizes
from gpu_platform.planning.clouds.provider_sharing import check_provider_sharing
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import FlexStart, Pool
from gpu_platform.stack.sharing import Mps, TimeSlicing


def check_autoscaler(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record a problem if the cluster autoscaler does not support the GPU resources of an autoscaled pool.

    `problems` points to the pool.
    """
    nodes = sizes(pool, cluster)
    if not machine.has_gpus or not nodes.autoscaled or pool.device_plugin == "provider":
        return
    whole, others = offered_gpus(pool, machine)
    if not others or (whole and nodes.min > 0):
        return
    found = f"{nodes.min} to {counted(nodes.max, 'node')} that offer {others}"
    if whole:
        problems.at("count").at("min").add(
            f"{found} in addition to {names.GPU_RESOURCE}",
            "1 or more; when it scales up from zero nodes, GKE's cluster autoscaler expects only "
            f"{names.GPU_RESOURCE} on a new node, so it adds no node for pods that request another resource",
            "write `min: 1`, or set a fixed number of nodes",
        )
        return
    problems.at("count").add(
        f"{found} and no {names.GPU_RESOURCE}",
        f"a fixed number of nodes; GKE's cluster autoscaler counts GPUs only as {names.GPU_RESOURCE}, so it "
        "adds no node for pods that request another resource, and treats nodes that offer only another "
        "resource as unready",
        _fix(pool, machine, cluster, catalog),
    )


def _fix(pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog) -> str:
    fixed = fixed_count_fix(pool, machine, cluster, catalog)
    if isinstance(pool.capacity, FlexStart):
        fixed = "a different capacity type with a fixed number of nodes"
    sharing, mode = pool.sharing, ""
    if isinstance(sharing, Mps):
        declared = sharing.model_dump(by_alias=True, exclude_unset=True)
        sharing, mode = (
            TimeSlicing.model_validate({**declared, "mode": "time-slicing"}),
            " with sharing.mode: time-slicing",
        )
    refused = Problems()
    shared = pool.model_copy(update={"declared_sharing": sharing})
    check_provider_sharing(shared, "cloud", machine, catalog.gpu_of(machine), refused)
    if refused.found:
        return f"write {fixed}"
    own = f"write device_plugin: provider{mode}, GKE's own sharing, which offers {names.GPU_RESOURCE}"
    return f"{own}, or {fixed}"

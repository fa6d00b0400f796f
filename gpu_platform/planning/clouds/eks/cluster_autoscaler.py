"""Decide which managed node groups the Cluster Autoscaler scales, and which tags describe their new nodes.

If a group has no nodes, the autoscaler reads the labels and taints of a new node from EKS (DescribeNodegroup). It
reads CPU, memory and whole GPUs from the instance type, and everything else from tags of the Auto Scaling group.
The tags of the node group are not copied to the Auto Scaling group. Nodes with the accelerator label count as
unready until they advertise `nvidia.com/gpu`. Nodes that advertise GPUs only under other resource names therefore
do not have the label.

Sources: kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws (README.md; buildNodeFromTemplate and
GetAsgOptions in aws_manager.go; GPULabel), commit 55c37cd5, 2026-08-22; kubernetes/autoscaler#8095; EKS user
guide, "Simplify node lifecycle with managed node groups" (tags that EKS sets itself); read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import MachineType
from gpu_platform.planning.clouds.eks.disks import data_volume_gib
from gpu_platform.planning.clouds.eks.disruption import DISRUPTION
from gpu_platform.planning.clouds.eks.efa_requests import HUGE_PAGES_RESOURCE
from gpu_platform.planning.nodes.allocatable import allocatable
from gpu_platform.planning.sharing.node_start import node_start_seconds
from gpu_platform.planning.sharing.section import ResourceOffer, SharingPlan
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import CapacityBlock, Pool
from gpu_platform.stack.sharing import Dra

ACCELERATOR_LABEL: Final = "k8s.amazonaws.com/accelerator"
SCALED_TAG: Final = "gpu-platform.dev/cluster-autoscaler"
"""Tag of the Auto Scaling groups that the autoscaler may change. Its value is the name of the cluster.

EKS sets the usual autoscaler tags on all groups, including groups of other owners and groups of fixed size.
"""

_TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template"
# A node is removed only if its utilisation is below the threshold.
# A threshold of 0 would also keep nodes without pods, because the utilisation of such nodes is 0.
_ONLY_EMPTY: Final = "0.01"
_UNDERUSED: Final = "0.5"
_NEVER: Final = "8760h"
_UNREADY_SECONDS: Final = (
    1200  # the autoscaler removes an unready node after this time unless a tag sets another time
)
_NEW_NODE_SECONDS: Final = 900  # the autoscaler replaces a new node that is still not ready after this time
# The kubelet evicts pods when less than 10 % of a file system is free.
# The file system's metadata and the node image also use space on the disk.
_USABLE_SHARE: Final = 0.85


def slow_start_flags(pools: Sequence[SharingPlan]) -> Mapping[str, str]:
    """Return the autoscaler flags for pools with these sharing plans, or an empty mapping if the default flags
    suffice.

    A new node counts as unready until it has passed validation and offers its GPUs. When the default time is over,
    the autoscaler adds another node for the same pods. AWS has no tag for these times, so they apply to all pools.
    """
    slowest = max((node_start_seconds(sharing) for sharing in pools), default=0)
    if slowest <= _NEW_NODE_SECONDS:
        return {}
    return {"max-node-provision-time": f"{slowest}s", "max-node-startup-time": f"{slowest}s"}


def owned_tag(cluster: str) -> str:
    """Return the tag that EKS sets on the Auto Scaling groups of a cluster's node groups. Its value is `owned`."""
    return f"k8s.io/cluster-autoscaler/{cluster}"


def fixed_because(pool: Pool) -> str | None:
    """Return why no autoscaler may change the size of a managed node group, or None if an autoscaler may change
    it.
    """
    if not pool.count.is_range:
        return "max equals desired, so `up` sets the number of nodes"
    if isinstance(pool.capacity, CapacityBlock):
        return "the instances of a capacity block are paid for, and EKS removes them at its end"
    if isinstance(pool.sharing, Dra):
        return (
            "the Cluster Autoscaler does not know the ResourceSlices of a new node, so it does not scale "
            "a pool up from zero nodes for pods with claims"
        )
    return None


def scaled(pool: Pool, cluster: EksCluster) -> bool:
    """Return whether the Cluster Autoscaler scales the pool."""
    managed = pool.provisioner == "managed"
    return managed and cluster.parts.cluster_autoscaler != "none" and fixed_because(pool) is None


def kept_tags(pool: Pool, cluster: EksCluster) -> Mapping[str, str]:
    """Return the tags that stop the cluster owner's autoscaler from removing nodes. Scaled pools do not get these
    tags.

    The owner's autoscaler discovers every node group by the tags that EKS sets. It would remove idle nodes from a
    group whose minimum is below its size, such as the group of a pool with reserved capacity or with
    ResourceClaims for GPUs. The tags set the threshold to 0, and the utilisation of a node is never below 0.

    Sources: kubernetes/autoscaler, cloudprovider/aws/README.md (autoscaling options) and
    core/scaledown/eligibility (isNodeBelowUtilizationThreshold); read 2026-11-28.
    """
    if cluster.parts.cluster_autoscaler != "present" or fixed_because(pool) is None:
        return {}
    return {
        f"{_TEMPLATE}/autoscaling-options/scaledowngpuutilizationthreshold": "0",
        f"{_TEMPLATE}/autoscaling-options/scaledownunneededtime": _NEVER,
        f"{_TEMPLATE}/autoscaling-options/scaledownunreadytime": _NEVER,
        f"{_TEMPLATE}/autoscaling-options/scaledownutilizationthreshold": "0",
    }


def accelerator_label(gpu_model: str, resources: Sequence[ResourceOffer]) -> Mapping[str, str]:
    """Return the accelerator label for nodes that advertise `nvidia.com/gpu`, or an empty mapping."""
    if any(offer.name == names.GPU_RESOURCE and offer.per_node > 0 for offer in resources):
        return {ACCELERATOR_LABEL: f"nvidia-{gpu_model}"}
    return {}


def group_tags(
    pool: Pool,
    cluster: EksCluster,
    machines: Sequence[MachineType],
    sharing: SharingPlan,
    resources: Sequence[ResourceOffer],
    nic_resources: Mapping[str, int],
    huge_pages_mib: int,
) -> Mapping[str, str]:
    """Return the tags for the Auto Scaling group of a scaled pool.

    `machines` are the pool's machine type and its alternatives. A new node has at least the resources of the
    smallest type. `huge_pages_mib` is the memory that nodes reserve as huge pages.
    """
    disruption = DISRUPTION[pool.workload]
    underused = disruption.policy == "WhenEmptyOrUnderutilized"
    options = {
        "ignoredaemonsetsutilization": "true",
        "scaledowngpuutilizationthreshold": _UNDERUSED if underused else _ONLY_EMPTY,
        "scaledownunneededtime": disruption.consolidate_after,
        "scaledownutilizationthreshold": _UNDERUSED if underused else _ONLY_EMPTY,
    }
    starts = node_start_seconds(sharing)
    if starts > _UNREADY_SECONDS:
        options["scaledownunreadytime"] = f"{starts}s"
    offered = dict(_offered(pool, machines, resources, nic_resources, huge_pages_mib))
    return {
        SCALED_TAG: cluster.name,
        **{f"{_TEMPLATE}/autoscaling-options/{name}": value for name, value in options.items()},
        **{f"{_TEMPLATE}/resources/{name}": value for name, value in sorted(offered.items())},
    }


def _offered(
    pool: Pool,
    machines: Sequence[MachineType],
    resources: Sequence[ResourceOffer],
    nic_resources: Mapping[str, int],
    huge_pages_mib: int,
) -> Iterator[tuple[str, str]]:
    """Yield each resource and the amount that pods can request on a new node."""
    free = [allocatable(machine) for machine in machines]
    yield "cpu", f"{min(one.cpu_millicores for one in free)}m"
    yield "memory", f"{min(one.memory_mib for one in free) - huge_pages_mib}Mi"
    usable = min(data_volume_gib(pool, machine) for machine in machines) * _USABLE_SHARE
    yield "ephemeral-storage", f"{int(usable)}Gi"
    # The autoscaler derives the number of whole GPUs from the instance type.
    # Nodes that advertise GPUs under other names do not advertise `nvidia.com/gpu`.
    yield names.GPU_RESOURCE, "0"
    for offer in resources:
        yield offer.name, str(offer.per_node)
    for name, count in nic_resources.items():
        yield name, str(count)
    if huge_pages_mib:
        yield HUGE_PAGES_RESOURCE, f"{huge_pages_mib}Mi"

"""Reasons for the settings of a managed node group, as `gpu-platform check` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform.catalog.models import MachineType
from gpu_platform.planning.clouds.eks.blocks import DRAIN_BEFORE_END, BlockPlan, gaps, minutes
from gpu_platform.planning.clouds.eks.cluster_autoscaler import ACCELERATOR_LABEL, fixed_because
from gpu_platform.planning.clouds.eks.disks import disk_key
from gpu_platform.planning.clouds.eks.disruption import DISRUPTION
from gpu_platform.planning.clouds.eks.node_monitoring import MONITORING_AGENT, why_unread
from gpu_platform.planning.clouds.eks.placement import known_zones
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.clouds.windows import utc_text
from gpu_platform.planning.decision import Decision
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import CapacityBlock, Pool, Reservation, Spot
from gpu_platform.stack.sharing import Mig

_Line = tuple[str, str, str]
_OWNER = "the person who scales the pool"
_LONG_WORK: Final = ("training", "development")


def reasons(pool: Pool, machine: MachineType, plan: EksPoolPlan, cluster: EksCluster) -> list[Decision]:
    """Return the decisions about a pool that are not obvious from the stack file."""
    lines = [
        _network(pool, machine, plan),
        _placement(pool, plan),
        *_capacity(pool, plan),
        *_no_reservation(plan),
        _image(machine, plan),
        *_local_nvme(pool, machine),
        (
            "instance metadata",
            f"IMDSv2, hop limit {plan.metadata_hop_limit}",
            "pods get IAM roles through EKS Pod Identity and must not use the role of the node",
        ),
        *disk_key(pool, "AWSServiceRoleForAutoScaling"),
        _repair(pool, machine, plan, cluster),
        ("size", *_size(pool, plan, cluster)),
        *_rebalanced(pool, plan, cluster),
        *_growing_block(plan),
        *(_late_gpus(pool, plan) if machine.has_gpus else ()),
        ("update", f"{plan.update_strategy}, {plan.max_unavailable} at a time", _why_update(plan)),
    ]
    return [
        Decision(subject=f"pool {pool.name}", what=what, chosen=chosen, why=why) for what, chosen, why in lines
    ]


def _no_reservation(plan: EksPoolPlan) -> Iterator[_Line]:
    if plan.avoids_reservations:
        yield (
            "reservations",
            "none",
            "another pool has a reservation for the machine type; if that reservation is open, on-demand nodes "
            "would take its instances",
        )


def _image(machine: MachineType, plan: EksPoolPlan) -> _Line:
    whom = "the GPUs" if machine.has_gpus else "machines without GPUs"
    if plan.ami is not None:
        return "image", plan.ami, "set in the stack file"
    if plan.release_version is not None:
        pins = "image.release pins the release" + (", and its driver" if machine.has_gpus else "")
        return (
            "image",
            f"{plan.ami_type} {plan.release_version}",
            f"{pins}; if the nodes are rolled for a reason other than a new image.release, EKS uses its newest "
            "release, which `preview` shows",
        )
    return (
        "image",
        plan.ami_type,
        f"EKS's image for {whom}, at its newest release when the pool is created, and again at each change that "
        "rolls the nodes; to patch the nodes, set image.release to a newer release",
    )


def _size(pool: Pool, plan: EksPoolPlan, cluster: EksCluster) -> tuple[str, str]:
    if not plan.keeps_size:
        return f"{plan.desired_size}", "max equals desired, so `up` sets the number of nodes"
    if plan.schedule:
        return (
            f"{plan.desired_size} or 0",
            "scheduled actions set the number of nodes, not `up`; a new value of count takes effect at once while "
            "the pool is on, otherwise at the next start",
        )
    waits = any(group.scheduled_window is not None for group in plan.node_groups)
    first = 0 if waits else plan.desired_size
    return (
        f"{first} at first, then {plan.min_size} to {plan.max_size}",
        f"{_who_scales(pool, plan, cluster)}; `up` does not change the number after the first deployment, and an "
        "edit of count applies once, with desired as the new number",
    )


def _who_scales(pool: Pool, plan: EksPoolPlan, cluster: EksCluster) -> str:
    if plan.capacity_type == "CAPACITY_BLOCK":
        owner = (
            "the autoscaler of the cluster's owner may add nodes"
            if plan.group_tags
            else "no autoscaler changes this number"
        )
        who = " or ".join(dict.fromkeys(_who_drains(block) for block in plan.blocks))
        return f"at the end of the block, {who} sets the number of nodes, and {owner}"
    if plan.autoscaled:
        disruption = DISRUPTION[pool.workload]
        removed = "underused" if disruption.policy == "WhenEmptyOrUnderutilized" else "empty"
        return (
            f"the Cluster Autoscaler adds nodes for pending pods, and removes nodes that are {removed} for "
            f"{disruption.consolidate_after}"
        )
    if cluster.parts.cluster_autoscaler == "none":
        return "cluster.parts.cluster_autoscaler: none, so you set the number of nodes"
    return f"you set the number of nodes: {fixed_because(pool)}"


def _rebalanced(pool: Pool, plan: EksPoolPlan, cluster: EksCluster) -> Iterator[_Line]:
    """Yield a decision stating that EC2 Auto Scaling may terminate nodes. The decision is a warning if the
    pods' work does not continue on another node.

    There is no decision for spot nodes, because they can be terminated at any time anyway. A separate node group
    for each zone would keep the nodes, but would need a `count` for each zone.
    """
    if not plan.rebalanced or plan.capacity_type == "SPOT":
        return
    long = pool.workload in _LONG_WORK
    why = "disruption budgets and annotations of the pods do not stop it"
    if long:
        why += (
            f": write zones: [{_a_zone(plan, cluster)}], or another zone that offers {plan.instance_type}; for "
            "several zones use a pool in each, or provisioner: karpenter"
        )
    else:
        why += (
            "; services continue on other nodes, and pods that must not be terminated need a pool with one "
            "zone in zones"
        )
    yield (
        "warning: zones" if long else "zones",
        f"{', '.join(plan.zones) or 'the zones of the cluster when the pool is created'}: EC2 Auto Scaling may "
        "terminate nodes with running pods, to have the same number of nodes in each zone",
        why,
    )


def _a_zone(plan: EksPoolPlan, cluster: EksCluster) -> str:
    created = cluster.create.zones if cluster.create is not None else ()
    return next(iter(plan.zones or known_zones(cluster) or created), f"{cluster.region}a")


def _growing_block(plan: EksPoolPlan) -> Iterator[_Line]:
    """Yield a warning if the cluster owner's autoscaler may add nodes to the group of a capacity block. Tags keep
    the autoscaler from removing nodes, but not from adding them.
    """
    if plan.capacity_type == "CAPACITY_BLOCK" and plan.group_tags:
        yield (
            "warning: autoscaler",
            "the autoscaler of the cluster's owner adds nodes for pending pods, even before the block begins and "
            "after EKS has drained it",
            "EKS sets the autoscaler's tags on the Auto Scaling group: let the autoscaler discover groups by a "
            "tag that only the owner's groups have",
        )


def _late_gpus(pool: Pool, plan: EksPoolPlan) -> Iterator[_Line]:
    """Yield a warning if an autoscaler considers nodes ready before they advertise their GPUs."""
    if plan.autoscaled and ACCELERATOR_LABEL not in plan.labels:
        yield (
            "warning: autoscaler",
            f"may add up to {plan.max_size} nodes for one pending pod",
            "the autoscaler waits only for nvidia.com/gpu on a new node, but these nodes offer GPUs under "
            "other names; unused nodes are removed again"
            + (". strategy: single keeps the name nvidia.com/gpu" if isinstance(pool.sharing, Mig) else ""),
        )


def _network(pool: Pool, machine: MachineType, plan: EksPoolPlan) -> _Line:
    if not plan.efa:
        if machine.rdma_interfaces == 0:
            why = f"{machine.name} has no EFA"
        elif pool.network.rdma is False:
            why = "set in the stack file"
        else:
            why = f"{pool.workload} stays within a node"
        return "network", "no EFA", why
    plain = plan.interfaces[0].interface_type == "interface"
    count = sum(one.interface_type != "interface" for one in plan.interfaces)
    return (
        "network",
        f"{count} EFA interfaces, "
        + ("next to a plain primary interface" if plain else "including the primary interface"),
        "set in the stack file"
        if pool.network.rdma
        else f"training on {machine.name} communicates between nodes through EFA",
    )


def _placement(pool: Pool, plan: EksPoolPlan) -> _Line:
    group = plan.placement_group
    if group is None:
        match pool.capacity:
            case CapacityBlock():
                why = "the instances of a capacity block are already close together"
            case Reservation():
                why = "the reservation has no group, and nodes in a group would get no reserved capacity"
            case Spot() if plan.efa:
                why = "spot capacity close together is rare; placement: {type: cluster} requests it anyway"
            case _:
                why = "set in the stack file" if pool.placement else "the nodes do not need to be close together"
        return "placement", "none", why
    if isinstance(pool.capacity, Reservation):
        return "placement", f"cluster placement group {group.name}", "the group belongs to the reservation"
    if isinstance(pool.capacity, Spot):
        why = "set in the stack file; spot capacity close together is rare, even more so after an interruption"
    else:
        why = "set in the stack file" if pool.placement else "multi-node training with EFA"
    return "placement", f"cluster placement group {group.name}" + (" (new)" if group.create else ""), why


def _capacity(pool: Pool, plan: EksPoolPlan) -> Iterator[_Line]:
    if isinstance(pool.capacity, CapacityBlock):
        yield from _block_lines(pool, plan.blocks)
    elif isinstance(pool.capacity, Reservation):
        yield "capacity", f"reservation {plan.capacity_reservation}", "paid for even if not used"
    elif plan.alternatives:
        spot = isinstance(pool.capacity, Spot)
        yield (
            "machine types",
            ", ".join(plan.instance_types),
            (
                "EC2 chooses the types that are least likely to be reclaimed"
                if spot
                else "EC2 uses the first type that has capacity"
            )
            + "; pods can request the CPU and memory of the smallest type",
        )


def _block_lines(pool: Pool, blocks: tuple[BlockPlan, ...]) -> Iterator[_Line]:
    for block in blocks:
        window, start = block.window, block.start
        ends = utc_text(window.ends) or "its end"
        if start is None:
            begins = (
                "the block must have begun when the pool is created; otherwise set starts, or write desired: 0"
            )
        else:
            begins = (
                f"no nodes before it begins, then a scheduled action starts {start.nodes} at {start.recurrence} "
                "(cron, UTC)"
            )
        yield (
            "capacity",
            f"capacity block {window.reservation} in {window.zone}",
            f"{begins}; {_end_of(block)} before {ends}; set desired to 0 before the launch template is replaced",
        )
    for one, next_, duration in gaps(blocks):
        yield (
            "hand-over",
            f"{one.reservation} to {next_.reservation}: no nodes for {duration}",
            f"the nodes of a block are drained {minutes(one.drain)} minutes before its end, and the next block "
            f"begins at {utc_text(next_.starts)}",
        )


def _end_of(block: BlockPlan) -> str:
    """Return what drains the nodes of a block, and how long before the end of the block."""
    early, who = minutes(block.window.drain), _who_drains(block)
    if who == _OWNER:
        return f"because ends is not in the stack file, you must scale the pool to zero {early} minutes"
    return f"{who} drains the nodes {early} minutes"


def _who_drains(block: BlockPlan) -> str:
    if block.stop is not None:
        return "a scheduled action"
    return "EKS" if block.window.drain <= DRAIN_BEFORE_END else _OWNER


def _local_nvme(pool: Pool, machine: MachineType) -> Iterator[_Line]:
    if machine.local_nvme_gb > 0:
        chosen = f"RAID0 over {machine.local_nvme_gb} GB for images and pods" if pool.local_nvme else "not used"
        yield (
            "local NVMe",
            chosen,
            "images and scratch data need not survive their node" if pool.local_nvme else "set in the stack file",
        )


def _repair(pool: Pool, machine: MachineType, plan: EksPoolPlan, cluster: EksCluster) -> _Line:
    if not plan.node_repair:
        why = "a capacity block has no spare instance: a replacement would wait for the host that was released"
        return "repair", "off", why if pool.repair is None else "set in the stack file"
    replaced = f"EKS reboots or replaces {_replaced_nodes(machine, plan, cluster)}"
    return "repair", "on", replaced if pool.repair is None else f"set in the stack file; {replaced}"


def _replaced_nodes(machine: MachineType, plan: EksPoolPlan, cluster: EksCluster) -> str:
    """Return which nodes EKS repairs, as the end of a sentence."""
    if not machine.has_gpus:
        return "unhealthy nodes"
    unread = why_unread(plan.labels, machine.arch)
    if unread is not None:
        return f"unhealthy nodes, but detects no broken GPUs: {unread}; `validate` reports them"
    if cluster.create is None:
        return (
            f"nodes with broken GPUs if the cluster has the add-on {MONITORING_AGENT} and its dcgm-server "
            "tolerates the pool's taints; otherwise only nodes that are not ready"
        )
    return "nodes with broken GPUs"


def _why_update(plan: EksPoolPlan) -> str:
    if plan.update_strategy == "MINIMAL":
        return "reserved capacity has no spare nodes, so each node is deleted before its replacement is created"
    return "new nodes are created before old nodes are deleted"

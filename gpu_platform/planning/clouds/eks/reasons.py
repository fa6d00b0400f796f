"""Why a managed node group is as it is, for a reader of `gpu-platform check`."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.catalog.models import MachineType
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.decision import Decision
from gpu_platform.spec.pool import CapacityBlock, Pool, Reservation, Spot


def reasons(pool: Pool, machine: MachineType, plan: EksPoolPlan) -> list[Decision]:
    """Return the decisions of a pool that a reader could have expected otherwise."""
    lines = [
        _network(pool, machine, plan),
        _placement(pool, plan),
        *_capacity(pool, plan),
        ("image", plan.ami or plan.ami_type, "the stack says so" if plan.ami else "EKS's own for the GPUs"),
        *_local_nvme(pool, machine),
        (
            "instance metadata",
            f"IMDSv2, hop limit {plan.metadata_hop_limit}",
            "pods get IAM roles by EKS Pod Identity and must not reach the node's",
        ),
        *_disk_key(pool),
        _repair(pool, plan),
        (
            "size",
            f"{plan.desired_size} at first, then {plan.min_size} to {plan.max_size}",
            "after the first deploy an autoscaler or a person sets the desired size, and the program leaves it "
            "alone; EKS refuses a min above it or a max below it",
        ),
        ("update", f"{plan.update_strategy}, {plan.max_unavailable} at a time", _why_update(plan)),
    ]
    return [
        Decision(subject=f"pool {pool.name}", what=what, chosen=chosen, why=why) for what, chosen, why in lines
    ]


_Line = tuple[str, str, str]


def _network(pool: Pool, machine: MachineType, plan: EksPoolPlan) -> _Line:
    if not plan.efa:
        if machine.rdma_interfaces == 0:
            why = f"{machine.name} has no EFA"
        elif pool.network.rdma is False:
            why = "the stack says so"
        else:
            why = f"{pool.workload} stays within a node"
        return "network", "no EFA", why
    plain = plan.interfaces[0].interface_type == "interface"
    count = sum(one.interface_type != "interface" for one in plan.interfaces)
    return (
        "network",
        f"{count} EFA interfaces, " + ("beside a plain primary one" if plain else "the primary one among them"),
        "the stack says so" if pool.network.rdma else f"training on {machine.name} speaks across nodes by EFA",
    )


def _placement(pool: Pool, plan: EksPoolPlan) -> _Line:
    group = plan.placement_group
    if group is None:
        match pool.capacity:
            case CapacityBlock():
                why = "a capacity block stands together by itself"
            case Reservation():
                why = "the reservation names no group, and nodes in another one would not get what it holds"
            case Spot() if plan.efa:
                why = "spot capacity close together is rare; placement: {type: cluster} asks for it all the same"
            case _:
                why = "the stack says so" if pool.placement else "nodes need not stand close together"
        return "placement", "none", why
    if isinstance(pool.capacity, Reservation):
        return "placement", f"cluster placement group {group.name}", "the reservation was made in it"
    if isinstance(pool.capacity, Spot):
        why = "the stack says so; EC2 finds spot capacity close together seldom, and after an interruption more so"
    else:
        why = "the stack says so" if pool.placement else "training over several nodes with EFA"
    return "placement", f"cluster placement group {group.name}" + (" (made)" if group.create else ""), why


def _capacity(pool: Pool, plan: EksPoolPlan) -> Iterator[_Line]:
    if isinstance(pool.capacity, CapacityBlock):
        ends = pool.capacity.ends.isoformat() if pool.capacity.ends else "its end"
        yield (
            "capacity",
            f"capacity block {plan.capacity_reservation}",
            "it must have begun when the pool is made, else write desired: 0; EKS drains the nodes some 40 "
            f"minutes before {ends}; a new launch template needs desired 0 first",
        )
    elif isinstance(pool.capacity, Reservation):
        yield "capacity", f"reservation {plan.capacity_reservation}", "paid for whether used or not"


def _local_nvme(pool: Pool, machine: MachineType) -> Iterator[_Line]:
    if machine.local_nvme_gb > 0:
        chosen = f"RAID0 over {machine.local_nvme_gb} GB for images and pods" if pool.local_nvme else "left alone"
        yield (
            "local NVMe",
            chosen,
            "images and scratch data are lost with a node anyway" if pool.local_nvme else "the stack says so",
        )


def _disk_key(pool: Pool) -> Iterator[_Line]:
    if pool.disk.kms_key is not None:
        yield (
            "disk key",
            pool.disk.kms_key,
            "the stack says so; its policy must let AWSServiceRoleForAutoScaling use it, or no node starts",
        )


def _repair(pool: Pool, plan: EksPoolPlan) -> _Line:
    if pool.repair is not None:
        why = "the stack says so"
    elif plan.node_repair:
        why = "EKS reboots or replaces nodes whose GPUs it finds broken"
    else:
        why = "a capacity block has no spare: a replacement would wait for the host that was given up"
    return "repair", "on" if plan.node_repair else "off", why


def _why_update(plan: EksPoolPlan) -> str:
    if plan.update_strategy == "MINIMAL":
        return "reserved capacity has no room for extra nodes: one goes before its successor comes"
    return "new nodes come before old ones go"

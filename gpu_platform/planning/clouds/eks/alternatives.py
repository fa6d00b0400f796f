"""Check the alternative machine types of an EKS pool, because pods must run equally well on each of them.

EKS tries the types of an on-demand node group in order. For spot nodes, it chooses the type whose instances are
least likely to be reclaimed. Karpenter chooses the cheapest type. The types are listed in the node group, not in
its launch template.

Sources: EKS user guide, "Managed node group capacity types" and "Customize managed nodes with launch templates";
EKS API, CreateNodegroup (instanceTypes); read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.catalog.unknown_machine import similar_machine_type
from gpu_platform.planning.clouds.eks.capacity import reserved
from gpu_platform.planning.clouds.eks.network import interfaces, layout_of, uses_efa
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Pool


def machines_of(pool: Pool, machine: MachineType, catalog: Catalog) -> tuple[MachineType, ...]:
    """Return the pool's machine type and its alternatives, in the order of the stack file."""
    return (machine, *(catalog.machine_types[name] for name in pool.alternatives))


def check_alternatives(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record a problem for each alternative that is not equivalent to the pool's machine type.

    `problems` points at the pool.
    """
    of_karpenter = pool.karpenter.alternatives if pool.karpenter is not None else ()
    of_capacity = () if reserved(pool.capacity) else pool.capacity_alternatives
    old, new = problems.at("karpenter").at("alternatives"), problems.at("capacity").at("alternatives")
    if of_karpenter and of_capacity:
        old.add(
            f"{', '.join(of_karpenter)} together with capacity.alternatives",
            "either capacity.alternatives or karpenter.alternatives: the two fields have the same meaning",
            "write all of them in capacity.alternatives, and remove karpenter.alternatives",
        )
        return
    if of_karpenter and reserved(pool.capacity):
        old.add(
            f"{', '.join(of_karpenter)} together with a reservation",
            f"no alternatives: the reservation contains only {machine.name}",
            "remove alternatives",
        )
    here = new if of_capacity else old
    taken = {machine.name}
    for index, name in enumerate(of_capacity or of_karpenter):
        place = here.at(f"[{index}]")
        other = catalog.machine_types.get(name)
        if name in taken:
            place.add(
                f"{name!r} again",
                "each machine type only once; the pool's own type is always included",
                "remove it",
            )
        elif other is None or other.vendor != "aws":
            known = [one.name for one in catalog.machine_types.values() if one.vendor == "aws"]
            place.add(
                f"{name!r}",
                f"one of the {len(known)} AWS machine types in the catalogue",
                similar_machine_type(name, known) or "remove it",
            )
        else:
            for found, allowed in _differences(pool, machine, other, catalog):
                place.add(f"{name!r} with {found}", allowed, "choose an equivalent machine type, or remove it")
        taken.add(name)


def _differences(
    pool: Pool, machine: MachineType, other: MachineType, catalog: Catalog
) -> Iterator[tuple[str, str]]:
    """Yield the differences that affect pods or node validation. Each item is the actual value and the allowed
    value.
    """
    if other.gpu != machine.gpu:
        own = f"GPU {machine.gpu}, like {machine.name}" if machine.gpu else f"no GPUs, like {machine.name}"
        yield (f"GPU {other.gpu}" if other.gpu else "no GPUs"), own
    elif not machine.has_gpus and (other.vcpu < machine.vcpu or other.memory_mib < machine.memory_mib):
        yield (
            f"{other.vcpu} vCPUs and {other.memory_mib}Mi",
            f"at least {machine.vcpu} vCPUs and {machine.memory_mib}Mi of {machine.name}: pods are planned for "
            "these resources",
        )
    if other.gpu and other.gpu_count != machine.gpu_count:
        yield counted(other.gpu_count, "GPU"), f"{machine.gpu_count}, as many as {machine.name}"
    if other.arch != machine.arch:
        yield other.arch, f"{machine.arch}, like {machine.name}: a node image is built for one architecture"
    if other.nvlinks_per_gpu != machine.nvlinks_per_gpu:
        yield f"{other.nvlinks_per_gpu} NVLinks per GPU", f"{machine.nvlinks_per_gpu}, like {machine.name}"
    if other.numa_nodes != machine.numa_nodes:
        yield (
            "GPUs on different NUMA nodes",
            f"the same NUMA nodes as {machine.name}: node validation compares the NUMA nodes",
        )
    if uses_efa(pool, machine) and _layout(pool, other, catalog) != _layout(pool, machine, catalog):
        yield (
            f"{other.rdma_interfaces} EFA interfaces",
            f"{machine.rdma_interfaces} on the network cards of {machine.name}: all nodes of a pool have the same "
            "interfaces",
        )
    if pool.local_nvme and (other.local_nvme_gb > 0) != (machine.local_nvme_gb > 0):
        yield (
            "local NVMe" if other.local_nvme_gb > 0 else "no local NVMe",
            f"the same as {machine.name}, or local_nvme: false: all nodes of a pool prepare their disks in the "
            "same way",
        )


def _layout(pool: Pool, machine: MachineType, catalog: Catalog) -> object:
    family = catalog.aws_family(machine)
    return interfaces(machine, family, layout_of(pool, family))

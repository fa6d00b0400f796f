"""Choose the size of the system nodes of a new AKS cluster, which have no GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.aks.plan import CreateAksPlan
from gpu_platform.planning.clouds.controllers import ControllerPods, Room, controller_pods
from gpu_platform.planning.clouds.daemonsets import DISCOVERY, on_nodes, own_of
from gpu_platform.planning.clouds.system_nodes import choose_system_type
from gpu_platform.planning.decision import Decided
from gpu_platform.planning.pools.free import free_with
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.aks import CreateAks

DEFAULT_TYPES: Final = ("Standard_D4ds_v5", "Standard_D8ds_v5", "Standard_D16ds_v5", "Standard_D32ds_v5")
_LEAST_VCPUS: Final = 4
"""AKS docs, "Manage system node pools": 4 vCPUs or more for production, read 2026-11-30."""


def check_system_nodes(create: CreateAks, catalog: Catalog, problems: Problems) -> None:
    """Record problems with the machine type and zones of system nodes. `problems` points to `create`."""
    here = problems.at("system")
    for index, zone in enumerate(create.system.zones):
        if not zone.isdigit():
            here.at("zones").at(f"[{index}]").add(
                f"{zone!r}", "an availability zone of Azure: 1, 2 or 3", 'write zones: ["1", "2", "3"]'
            )
    name = create.system.machine_type
    machine = catalog.machine_types.get(name) if name is not None else None
    if name is None or (machine is not None and _is_possible(machine)):
        return
    here.at("machine_type").add(
        f"{name!r}",
        f"an Azure VM size from the catalogue with {_LEAST_VCPUS} or more x86 vCPUs and without GPUs",
        f"write machine_type: {DEFAULT_TYPES[0]}, or remove machine_type",
    )


def _is_possible(machine: MachineType) -> bool:
    suitable = not machine.has_gpus and machine.arch == "amd64" and machine.vcpu >= _LEAST_VCPUS
    return machine.vendor == "azure" and suitable


def system_room(machine_type: str, catalog: Catalog) -> Room:
    """Return the CPU and memory that a system node offers to controllers."""
    on_each = on_nodes((*own_of("azure", catalog), DISCOVERY), operands=False)
    return Room(*free_with(catalog.machine_types[machine_type], on_each))


def size_system_nodes(
    subject: str,
    create: CreateAksPlan,
    declared: bool,
    controllers: Sequence[ControllerPods],
    others: Sequence[Room],
    catalog: Catalog,
    problems: Problems,
) -> Decided[CreateAksPlan]:
    """Return a new cluster with enough CPU and memory on its system nodes for the controllers. `problems` points
    to `create`.

    `declared` is true if the stack file names the machine type. `others` is the free CPU and memory on the nodes
    of CPU pools.
    """
    chosen = choose_system_type(
        subject,
        create.system_machine_type if declared else None,
        DEFAULT_TYPES,
        create.system_nodes,
        "AKS" if create.system_nodes[0] < create.system_nodes[1] else None,
        lambda name: system_room(name, catalog),
        (*controller_pods("aks", catalog), *controllers),
        others,
        problems,
    )
    machine = catalog.machine_types[chosen.value]
    quota = catalog.gpu_quota(machine, spot=False)
    plan = replace(
        create,
        system_machine_type=chosen.value,
        system_vcpus=machine.vcpu,
        system_cpu_quota=quota.name if quota is not None else None,
        system_disk_type="Ephemeral" if create.system_disk_gb <= (machine.ephemeral_os_gib or 0) else "Managed",
    )
    return Decided(plan, chosen.decisions)

"""Choose the machine type of the system nodes of a new GKE cluster, which have no GPUs.

GKE's autoscaler adds nodes for pending pods, up to `max`. It does not add nodes just because there are fewer than
`min`. Therefore, the autoscaler is not used for a fixed number of system nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.controllers import ControllerPods, Room, controller_pods
from gpu_platform.planning.clouds.daemonsets import DISCOVERY, on_nodes, own_of
from gpu_platform.planning.clouds.gke.plan import CreateGkePlan
from gpu_platform.planning.clouds.system_nodes import choose_system_type
from gpu_platform.planning.decision import Decided
from gpu_platform.planning.pools.free import free_with
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateGke

DEFAULT_TYPES: Final = ("e2-standard-4", "e2-standard-8", "e2-standard-16", "e2-standard-32")

ZONES: Final = 3
"""Default number of zones of a regional cluster (GKE docs, "Regional clusters"; read 2026-11-28)."""


def nodes_in_zone(lowest: int, highest: int) -> int | None:
    """Return the fixed number of system nodes in each zone, or None if GKE's autoscaler changes it."""
    return lowest // ZONES if lowest == highest and lowest % ZONES == 0 else None


def check_system_nodes(create: CreateGke, catalog: Catalog, problems: Problems) -> None:
    """Record problems with a machine type or a number of nodes that system nodes cannot have. `problems` points to
    `create`.
    """
    if create.system.max < ZONES:
        problems.at("system").at("max").add(
            str(create.system.max),
            f"{ZONES} or more, because GKE creates the first system node in each of the {ZONES} zones of a "
            "cluster",
            f"write max: {ZONES}",
        )
    name = create.system.machine_type
    machine = catalog.machine_types.get(name) if name is not None else None
    if name is None or (machine is not None and _is_possible(machine)):
        return
    problems.at("system").at("machine_type").add(
        f"{name!r}",
        "a Compute Engine machine type from the catalogue with x86 CPUs and without GPUs",
        f"write machine_type: {DEFAULT_TYPES[0]}, or remove machine_type",
    )


def _is_possible(machine: MachineType) -> bool:
    return machine.vendor == "gcp" and not machine.has_gpus and machine.arch == "amd64"


def system_room(machine_type: str, catalog: Catalog) -> Room:
    """Return the CPU and memory that a system node offers to controllers."""
    on_each = on_nodes((*own_of("gcp", catalog), DISCOVERY), operands=False)
    return Room(*free_with(catalog.machine_types[machine_type], on_each))


def size_system_nodes(
    subject: str,
    create: CreateGkePlan,
    declared: bool,
    controllers: Sequence[ControllerPods],
    others: Sequence[Room],
    catalog: Catalog,
    problems: Problems,
) -> Decided[CreateGkePlan]:
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
        "GKE" if create.system_nodes_in_zone is None else None,
        lambda name: system_room(name, catalog),
        (*controller_pods("gke", catalog), *controllers),
        others,
        problems,
    )
    machine = catalog.machine_types[chosen.value]
    quota = catalog.gpu_quota(machine, spot=False)
    plan = replace(
        create,
        system_machine_type=chosen.value,
        system_vcpus=machine.vcpu,
        system_disk_type=catalog.gcp_family(machine).boot_disk_types[0],
        system_cpu_quota=quota.name if quota is not None else None,
    )
    return Decided(plan, chosen.decisions)

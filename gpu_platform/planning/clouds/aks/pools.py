"""Check and plan AKS agent pools from their machine type, capacity type and workload.

Sources: AKS docs (spot node pools, proximity placement groups, ephemeral OS disks, custom node configuration,
upgrade settings), and terraform-provider-azurerm, kubernetes_cluster_node_pool; read 2026-11-30.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.aks.cloud_nodes import agent_pool_nodes
from gpu_platform.planning.clouds.aks.infiniband import (
    check_infiniband,
    explain_pool,
    infiniband_of,
    with_infiniband,
)
from gpu_platform.planning.clouds.aks.names import agent_pool_name, proximity_group_name
from gpu_platform.planning.clouds.aks.plan import AksKubelet, AksPoolPlan, AksUpgrade, ProximityGroup
from gpu_platform.planning.clouds.aks.reservations import check_reservation, reservation_group, zones_of
from gpu_platform.planning.clouds.aks.software import DEFAULT_FAMILY
from gpu_platform.planning.clouds.aks.tags import check_tags
from gpu_platform.planning.clouds.autoscaled_gpus import offered_gpus
from gpu_platform.planning.clouds.section import CloudPool
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.section import Kubelet, Taint
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.kernel import check_kernel
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.stack.aks import AksCluster
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.pool import Pool, Reservation

SPOT_TAINT: Final = Taint(key="kubernetes.azure.com/scalesetpriority", value="spot", effect="NoSchedule")
_PROXIMITY_GROUP: Final = re.compile(
    r"/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/]+/providers/Microsoft\.Compute/proximityPlacementGroups/[^/]+"
)
# AKS drains a node for 30 minutes by default, after which the upgrade fails. Training pods may need longer to
# write a checkpoint.
_DRAIN_MINUTES: Final = 60
_LARGEST_OS_DISK_GB: Final = 2048
_RESERVED_LABELS: Final = ("kubernetes.azure.com", "kubernetes.io", "k8s.io")


def added_taints(pool: Pool) -> dict[Taint, str]:
    """Return the taint of spot nodes, which AKS requires."""
    if pool.capacity.type != "spot":
        return {}
    return {SPOT_TAINT: "AKS gives this taint to spot nodes, so that only pods that tolerate evictions run there"}


def check_aks_pool(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record a problem for each combination of settings that AKS refuses, or that the program does not set up."""
    check_tags(tuple(pool.tags), problems.at("tags"))
    _check_zones(pool, problems)
    check_reservation(pool, problems)
    check_infiniband(pool, machine, catalog, problems)
    _check_placement(pool, problems)
    _check_upgrade(pool, machine, problems.at("upgrade"))
    _check_disk(pool, machine, problems.at("disk"))
    check_kernel(pool, machine, problems)
    _check_sysctls(pool, catalog, problems.at("tuning").at("sysctls"))
    _check_autoscaler(pool, machine, problems)
    if pool.repair is False:
        problems.at("repair").add(
            "false", "true; AKS repairs unhealthy nodes and cannot be told not to", "remove it"
        )
    if pool.tuning is not None and pool.tuning.huge_pages is not None:
        problems.at("tuning").at("huge_pages").add(
            str(pool.tuning.huge_pages),
            "no huge pages on AKS, because node pools have no setting for pages of 2 MiB",
            "remove huge_pages",
        )
    for key in pool.labels:
        if key.split("/")[0].endswith(_RESERVED_LABELS) and "/" in key:
            problems.at("labels").at(key).add(
                f"{key!r}", "a label outside the domains " + ", ".join(_RESERVED_LABELS), "remove it"
            )


def check_together(pools: Sequence[tuple[int, Pool]], catalog: Catalog, problems: Problems) -> None:
    """Record conflicts between pools: two pools with one agent pool name, and GPU pools with different operating
    systems, which the GPU Operator does not support on AKS (AKS docs, NVIDIA GPU Operator, read 2026-11-30).
    """
    taken: dict[str, str] = {}
    families: dict[str, str] = {}
    for index, pool in pools:
        here = problems.at(f"pools[{index}]")
        name = agent_pool_name(pool.name)
        if (other := taken.setdefault(name, pool.name)) != pool.name:
            here.at("name").add(
                f"{pool.name!r}, whose agent pool {name} is also the agent pool of {other}",
                "names whose agent pools differ; AKS allows 12 letters and digits",
                "rename one of the pools",
            )
        if not catalog.has_gpus(pool.machine_type):
            continue
        family = pool.image.family or DEFAULT_FAMILY
        families.setdefault(family, pool.name)
        if len(families) > 1 and family != next(iter(families)):
            first, of = next(iter(families.items()))
            here.at("image").at("family").add(
                f"{family}, unlike {first} of pool {of}",
                "one image family for all pools with GPUs; the GPU Operator supports only one on AKS",
                f"write image: {{family: {first}}}",
            )


def _check_zones(pool: Pool, problems: Problems) -> None:
    allowed = "an availability zone of Azure: 1, 2 or 3"
    for index, zone in enumerate(pool.zones or ()):
        if not zone.isdigit():
            problems.at("zones").at(f"[{index}]").add(f"{zone!r}", allowed, 'write zones: ["1"]')
    if isinstance(pool.capacity, Reservation) and not pool.capacity.zone.isdigit():
        problems.at("capacity").at("zone").add(f"{pool.capacity.zone!r}", allowed, 'write zone: "1"')


def _check_placement(pool: Pool, problems: Problems) -> None:
    placement, here = pool.placement, problems.at("placement")
    if placement is None:
        return
    if placement.type == "none" and placement.group is not None:
        here.at("group").add(
            f"{placement.group!r} with type none", "group with type proximity", "write type: proximity"
        )
    elif placement.group is not None and not _PROXIMITY_GROUP.fullmatch(placement.group):
        here.at("group").add(
            f"{placement.group!r}",
            "the resource ID of a proximity placement group: /subscriptions/S/resourceGroups/G/providers/"
            "Microsoft.Compute/proximityPlacementGroups/N",
            "see az ppg list --query [].id, or remove group",
        )
    if placement.type == "proximity" and len(pool.zones or ()) > 1:
        problems.at("zones").add(
            f"{', '.join(pool.zones or ())} with a proximity placement group",
            "one zone, because the nodes of a proximity placement group are in one data center",
            f'write zones: ["{(pool.zones or ("1",))[0]}"]',
        )


def _check_upgrade(pool: Pool, machine: MachineType, here: Problems) -> None:
    if pool.capacity.type == "spot":
        for name in ("max_surge", "max_unavailable"):
            if getattr(pool.upgrade, name) is not None:
                here.at(name).add(
                    f"{name} with spot",
                    "none, because spot pools do not have upgrade settings",
                    f"remove {name}",
                )
        return
    upgrade = _upgrade(pool, machine)
    if upgrade is not None and upgrade.max_surge + upgrade.max_unavailable == 0:
        here.at("max_unavailable").add(
            "0, without surge",
            "max_surge or max_unavailable above 0; otherwise no node can be replaced",
            "write max_unavailable: 1",
        )
    if upgrade is not None and upgrade.max_surge and upgrade.max_unavailable:
        here.at("max_unavailable").add(
            f"{upgrade.max_unavailable} with max_surge {upgrade.max_surge}",
            "one of the two; AKS does not combine surge nodes with unavailable nodes",
            "write max_surge: 0, or remove max_unavailable",
        )


def _check_disk(pool: Pool, machine: MachineType, here: Problems) -> None:
    if pool.disk.size_gb > _LARGEST_OS_DISK_GB:
        here.at("size_gb").add(
            str(pool.disk.size_gb),
            f"at most {_LARGEST_OS_DISK_GB}, the largest OS disk",
            f"write size_gb: {_LARGEST_OS_DISK_GB}",
        )
    most = machine.ephemeral_os_gib
    if pool.disk.type != "ephemeral" or (most is not None and pool.disk.size_gb <= most):
        return
    here.at("type").add(
        f"'ephemeral' with size_gb {pool.disk.size_gb} on {machine.name}",
        f"size_gb of {most} or less, the machine's space for an ephemeral OS disk"
        if most is not None
        else "managed, because the catalogue has no size of an ephemeral OS disk for this machine type",
        f"write size_gb: {most}, or type: managed" if most is not None else "remove type",
    )


def _check_autoscaler(pool: Pool, machine: MachineType, problems: Problems) -> None:
    """Record a problem if AKS's autoscaler does not count the GPU resources of an autoscaled pool."""
    if not machine.has_gpus or not pool.count.is_range:
        return
    whole, others = offered_gpus(pool, machine)
    if not others or (whole and pool.count.min > 0):
        return
    found = f"{pool.count.min} to {counted(pool.count.maximum, 'node')} that offer {others}"
    fixed = f"write count: {{desired: {max(pool.count.desired, 1)}}}"
    if whole:
        problems.at("count").at("min").add(
            f"{found} in addition to {names.GPU_RESOURCE}",
            "1 or more; when it scales up from zero nodes, AKS's autoscaler expects only "
            f"{names.GPU_RESOURCE} on a new node, so it adds no node for pods that request another resource",
            f"write `min: 1`, or {fixed}",
        )
        return
    problems.at("count").add(
        f"{found} and no {names.GPU_RESOURCE}",
        f"a fixed number of nodes; AKS's autoscaler counts GPUs only as {names.GPU_RESOURCE}, so it adds no node "
        "for pods that request another resource",
        fixed,
    )


def check_compute_class(compute_class: ComputeClass, pools: Sequence[Pool], problems: Problems) -> None:
    """Record that AKS keeps no order of the pools. `problems` points to the compute class."""
    del pools
    problems.add(
        f"compute class {compute_class.name} on AKS",
        "no compute classes on AKS, whose autoscaler has no order of the pools",
        "remove it; pods select a pool by its label gpu-platform.dev/pool",
    )


def plan_aks_pool(
    pool: Pool, machine: MachineType, cluster: AksCluster, requirements: NodeRequirements, catalog: Catalog
) -> Decided[CloudPool]:
    """Return the plan for a valid pool."""
    by_aks = requirements.software.driver == "image"
    spot = pool.capacity.type == "spot"
    kernel, bootstrap = requirements.kernel, requirements.bootstrap
    infiniband = infiniband_of(pool, machine, catalog)
    plan = AksPoolPlan(
        agent_pool=agent_pool_name(pool.name),
        vm_size=machine.name,
        orchestrator_version=cluster.kubernetes if cluster.create is not None else None,
        gpu_driver=("Install" if by_aks else "None") if machine.has_gpus else None,
        os_sku=catalog.node_images["azure", pool.image.family or DEFAULT_FAMILY].image_type(machine),
        os_disk_type=_disk_type(pool, machine),
        os_disk_size_gb=pool.disk.size_gb,
        zones=zones_of(pool),
        capacity_reservation_group=reservation_group(pool),
        priority="Spot" if spot else "Regular",
        autoscaled=pool.count.is_range,
        nodes=pool.count.desired,
        min_nodes=pool.count.min,
        max_nodes=pool.count.maximum,
        proximity_group=_proximity(pool, cluster),
        upgrade=_upgrade(pool, machine),
        kubelet=_kubelet(requirements.kubelet),
        kubelet_limits=bootstrap.kubelet if bootstrap is not None else None,
        sysctls=_settable(kernel.sysctls, catalog) if kernel is not None else {},
        labels={
            **requirements.labels,
            **({SPOT_TAINT.key: SPOT_TAINT.value} if spot else {}),
            **({names.INFINIBAND_LABEL: "true"} if infiniband is not None else {}),
        },
        taints=tuple(
            f"{taint.key}={taint.value}:{taint.effect}" for taint in (*requirements.taints, *added_taints(pool))
        ),
        tags={
            **cluster.tags,
            **pool.tags,
            "gpu-platform-pool": pool.name,
            "gpu-platform-workload": pool.workload,
        },
        protect=cluster.is_protected or pool.protect,
    )
    subject = f"pool {pool.name}"
    decisions = tuple(
        Decision(subject=subject, what=what, chosen=chosen, why=why)
        for what, chosen, why in _reasons(pool, machine, plan, catalog)
    )
    nodes = agent_pool_nodes(plan, cluster.region, catalog)
    if infiniband is not None:
        nodes = with_infiniband(nodes, infiniband, cluster.subscription)
    return Decided(CloudPool(plan=plan, nodes=nodes), decisions)


def _disk_type(pool: Pool, machine: MachineType) -> Literal["Ephemeral", "Managed"]:
    """Return the type of the OS disk. An ephemeral disk is free and faster, but its space is limited."""
    if pool.disk.type is not None:
        return "Ephemeral" if pool.disk.type == "ephemeral" else "Managed"
    return "Ephemeral" if pool.disk.size_gb <= (machine.ephemeral_os_gib or 0) else "Managed"


def _proximity(pool: Pool, cluster: AksCluster) -> ProximityGroup | None:
    if pool.placement is None or pool.placement.type != "proximity":
        return None
    if pool.placement.group is not None:
        return ProximityGroup(id=pool.placement.group, name=None)
    return ProximityGroup(id=None, name=proximity_group_name(cluster.name, pool.name))


def _upgrade(pool: Pool, machine: MachineType) -> AksUpgrade | None:
    """Return the upgrade settings, or None for spot nodes.

    Reserved nodes, nodes of a proximity placement group and the largest machine types, which have InfiniBand, are
    replaced without surge, because there may be no capacity and no quota for one more of them.
    """
    if pool.capacity.type == "spot":
        return None
    close = pool.placement is not None and pool.placement.type == "proximity"
    tight = close or pool.capacity.type == "reservation" or machine.rdma_interfaces > 0
    surge = pool.upgrade.max_surge
    if surge is None:
        surge = 0 if tight or pool.upgrade.max_unavailable else 1
    unavailable = pool.upgrade.max_unavailable
    if unavailable is None:
        unavailable = 1 if surge == 0 else 0
    return AksUpgrade(max_surge=surge, max_unavailable=unavailable, drain_minutes=_DRAIN_MINUTES)


def most_nodes(pool: Pool, machine: MachineType) -> int:
    """Return the maximum number of nodes of a pool, including the nodes that a rolling update adds."""
    upgrade = _upgrade(pool, machine)
    return pool.count.maximum + (upgrade.max_surge if upgrade is not None else 0)


def _kubelet(kubelet: Kubelet | None) -> AksKubelet | None:
    if kubelet is None:
        return None
    return AksKubelet(
        cpu_manager_policy=kubelet.cpu_manager_policy, topology_manager_policy=kubelet.topology_policy
    )


def _settable(sysctls: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """Return the kernel parameters that AKS can set. The declared ones have been checked, so only parameters of
    `tuning.intent` are left out.
    """
    limits = catalog.settable_sysctls["aks"].limits
    return {name: value for name, value in sysctls.items() if _is_settable(value, limits.get(name))}


def _is_settable(value: str, limits: tuple[int, int] | None) -> bool:
    return limits is not None and value.isdigit() and limits[0] <= int(value) <= limits[1]


def _check_sysctls(pool: Pool, catalog: Catalog, here: Problems) -> None:
    """Record a problem for kernel parameters or values that AKS does not allow."""
    if pool.tuning is None:
        return
    limits = catalog.settable_sysctls["aks"].limits
    for name, value in pool.tuning.sysctls.items():
        allowed = limits.get(name)
        if allowed is None:
            here.at(name).add(f"{name!r}", "on AKS, one of " + ", ".join(limits), "remove it")
        elif not _is_settable(str(value), allowed):
            here.at(name).add(
                f"{value}", f"on AKS, {allowed[0]} to {allowed[1]}", "correct the value, or remove it"
            )


def _reasons(
    pool: Pool, machine: MachineType, plan: AksPoolPlan, catalog: Catalog
) -> Iterator[tuple[str, str, str]]:
    """Yield the name, value and reason of each choice for the pool, as text."""
    if plan.capacity_reservation_group is not None:
        yield (
            "capacity reservation group",
            plan.capacity_reservation_group,
            "the stack file sets it; nodes above the reserved number are bought on demand",
        )
    if plan.agent_pool != pool.name:
        yield "agent pool", plan.agent_pool, "AKS allows 12 letters and digits, so the name ends in a hash"
    yield (
        "OS disk",
        f"{plan.os_disk_size_gb} GB {plan.os_disk_type.lower()}",
        "the stack file sets it"
        if pool.disk.type is not None
        else "the machine's own disk has the space, and costs nothing"
        if plan.os_disk_type == "Ephemeral"
        else "the machine has less space for an ephemeral OS disk, or its space is not known",
    )
    group = plan.proximity_group
    yield (
        "placement",
        "none" if group is None else f"proximity placement group {group.id or group.name}",
        "the pool has no placement" if group is None else "the stack file sets it",
    )
    yield from explain_pool(pool, machine, catalog, by_aks=plan.gpu_driver == "Install")
    if machine.local_nvme_gb:
        yield "local NVMe disks", "not used", "AKS leaves them unformatted"
    upgrade = plan.upgrade
    if upgrade is None:
        yield "upgrade", "without settings", "when AKS upgrades a spot pool, it does not create surge nodes"
    else:
        yield (
            "upgrade",
            f"surge {upgrade.max_surge}, unavailable {upgrade.max_unavailable}",
            "new nodes are created before old nodes are deleted"
            if upgrade.max_surge
            else "no capacity for another node",
        )
    if plan.autoscaled:
        yield "autoscaler", f"{plan.min_nodes} to {counted(plan.max_nodes, 'node')}", "limits of count"

"""Check and plan GKE node pools from their machine type, capacity type and workload."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.gke.autoscaler import check_autoscaler
from gpu_platform.planning.clouds.gke.capacity import (
    Sizes,
    check_capacity,
    location_policy,
    reservation_affinity,
    run_seconds,
    sizes,
    windows,
    zones_of,
)
from gpu_platform.planning.clouds.gke.cloud_nodes import node_pool_nodes
from gpu_platform.planning.clouds.gke.gpu_networks import network_count, network_mode
from gpu_platform.planning.clouds.gke.keys import check_key
from gpu_platform.planning.clouds.gke.network import check_network
from gpu_platform.planning.clouds.gke.node import (
    accelerator,
    check_node,
    disk_type,
    image_type,
    kubelet_config,
    local_ssd_count,
    node_labels,
    node_taints,
    secure_boot,
)
from gpu_platform.planning.clouds.gke.node_versions import check_node_version
from gpu_platform.planning.clouds.gke.placement import (
    PlacementChoice,
    check_placement,
    check_upgrade,
    plan_placement,
    plan_upgrade,
)
from gpu_platform.planning.clouds.gke.plan import CompactPlacement, GkePoolPlan
from gpu_platform.planning.clouds.gke.resource_labels import check_resource_labels
from gpu_platform.planning.clouds.section import CloudPool
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import FlexStart, Pool, Reservation


def check_gke_pool(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record a problem for each combination of settings that GKE refuses, or that wastes paid capacity."""
    check_capacity(pool, machine, cluster, catalog, problems)
    check_resource_labels(pool.tags, problems.at("tags"))
    check_autoscaler(pool, machine, cluster, catalog, problems)
    check_placement(pool, machine, cluster, catalog, problems)
    check_upgrade(pool, machine, cluster, catalog, problems)
    check_network(pool, machine, cluster, catalog, problems)
    check_node(pool, machine, catalog, problems)
    check_key(pool.disk.kms_key, cluster, problems.at("disk").at("kms_key"))
    check_node_version(pool, machine, cluster, catalog, problems)


def plan_gke_pool(
    pool: Pool,
    machine: MachineType,
    cluster: GkeCluster,
    requirements: NodeRequirements,
    catalog: Catalog,
) -> Decided[CloudPool]:
    """Return the plan for a valid pool."""
    flex = pool.capacity if isinstance(pool.capacity, FlexStart) else None
    placement = plan_placement(pool, machine, cluster, catalog)
    nodes = sizes(pool, cluster)
    network = network_mode(pool, machine, catalog)
    fabric = catalog.gcp_family(machine).fabric if network != "none" else "none"
    reserved = isinstance(pool.capacity, Reservation)
    plan = GkePoolPlan(
        node_pool=pool.name,
        node_locations=zones_of(pool, machine, cluster, catalog),
        machine_type=machine.name,
        accelerator=accelerator(pool, machine, requirements.software),
        image_type=image_type(pool, machine, catalog),
        version=pool.image.release,
        upgrades_excluded=_excludes_upgrades(pool, machine, cluster, catalog),
        spot=pool.capacity.type == "spot",
        flex_start=flex is not None,
        queued_provisioning=flex is not None and flex.queued,
        max_run_duration_seconds=run_seconds(flex) if flex is not None else None,
        reservation=reservation_affinity(pool, cluster),
        placement=placement.compact,
        upgrade=plan_upgrade(pool, placement.compact is not None),
        local_ssd_count=local_ssd_count(machine),
        disk_type=disk_type(pool, machine, catalog),
        disk_size_gb=pool.disk.size_gb,
        kms_key=pool.disk.kms_key,
        # GPUDirect needs gVNIC, and every machine type in the catalogue supports gVNIC.
        gvnic=True,
        secure_boot=secure_boot(pool, machine),
        kubelet=kubelet_config(requirements.kubelet),
        sysctls=dict(requirements.kernel.sysctls) if requirements.kernel is not None else {},
        huge_pages=requirements.kernel.huge_pages if requirements.kernel is not None else 0,
        kubelet_limits=requirements.bootstrap.kubelet if requirements.bootstrap is not None else None,
        init_script=requirements.bootstrap.script if requirements.bootstrap is not None else None,
        image_streaming=pool.image.fast_pull,
        image_cache=pool.image.cache,
        network=network,
        gpu_networks=network_count(machine, fabric) if network == "networks" else 0,
        claimed_nics=machine.rdma_interfaces if network == "profile" and fabric == "rdma" else 0,
        fabric=fabric,
        labels=node_labels(pool, requirements.labels, requirements.software, network),
        taints=node_taints((*requirements.taints, *requirements.startup_taints)),
        resource_labels={
            **cluster.labels,
            **pool.tags,
            "gpu-platform-pool": pool.name,
            "gpu-platform-workload": pool.workload,
        },
        autoscaled=nodes.autoscaled,
        nodes_per_location=nodes.per_location,
        min_nodes=nodes.min,
        max_nodes=nodes.max,
        location_policy=location_policy(pool),
        auto_repair=flex is None if pool.repair is None else pool.repair,
        # Clusters on a release channel require auto-upgrade.
        # The cluster's maintenance window determines when GKE upgrades nodes.
        auto_upgrade=True,
        # Reserved or compactly placed capacity does not suffice for both the old and the new pool.
        delete_before_replace=reserved or placement.compact is not None,
        protect=cluster.is_protected or pool.protect,
        compute_class=requirements.compute_class,
        windows=windows(pool),
    )
    subject = f"pool {pool.name}"
    decisions = tuple(
        Decision(subject=subject, what=what, chosen=chosen, why=why)
        for what, chosen, why in _reasons(pool, machine, plan, placement, nodes)
    )
    return Decided(CloudPool(plan=plan, nodes=node_pool_nodes(plan, catalog)), decisions)


def _excludes_upgrades(pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog) -> bool:
    """Return whether a maintenance exclusion keeps the nodes at their version. Pools with a declared version, or
    with A3 and newer machine types, have such an exclusion.

    Maintenance exclusions in the stack file apply to all pools of the cluster and replace the exclusions for A3
    and newer. Release channels require auto-upgrade, which would otherwise upgrade nodes beyond the declared
    version.
    """
    if pool.image.release is not None:
        return True
    own = cluster.create is not None and not cluster.create.maintenance.exclusions
    return own and catalog.gcp_family(machine).fabric != "none"


def _why_no_gpu_nics(pool: Pool, machine: MachineType) -> str:
    if machine.rdma_interfaces == 0:
        return "the machine type has no GPU NICs"
    return "set in the stack file" if pool.network.rdma is False else f"workload {pool.workload} needs none"


def _placed(compact: CompactPlacement | None) -> str:
    if compact is None:
        return "none"
    if compact.topology is not None:
        return f"one NVLink domain, workload policy {compact.policy} ({compact.topology})"
    return f"compact, {compact.policy}"


def _reasons(
    pool: Pool, machine: MachineType, plan: GkePoolPlan, placement: PlacementChoice, nodes: Sizes
) -> Iterator[tuple[str, str, str]]:
    """Yield the name, value and reason of each choice for the pool, as text."""
    compact = placement.compact
    if plan.upgrades_excluded:
        yield (
            "node version",
            f"{plan.version or 'initially the version of the cluster'}, until its support ends",
            "set in the stack file"
            if plan.version
            else "a node upgrade terminates the node's jobs, so upgrade the pool yourself",
        )
    yield "placement", _placed(compact), placement.why
    affinity = plan.reservation
    yield (
        "reservation",
        ", ".join(affinity.values) or "none",
        "set in the stack file" if affinity.values else "the pool names no reservation",
    )
    if isinstance(pool.capacity, Reservation) and pool.capacity.ends is not None:
        yield "end of the reservation", f"{pool.capacity.ends:%Y-%m-%d %H:%M} UTC", "GKE then deletes the nodes"
    match plan.network:
        case "networks":
            yield (
                "GPU NICs",
                f"{plan.gpu_networks} networks ({plan.fabric})",
                "one for each NIC of the machine type",
            )
        case "profile":
            yield (
                "GPU NICs",
                f"automatic network profile ({plan.fabric})",
                "GKE creates the networks for this machine type",
            )
        case "none":
            yield "GPU NICs", "not used", _why_no_gpu_nics(pool, machine)
    upgrade = plan.upgrade
    if upgrade is None:
        yield "upgrade", "short-lived", "GKE does not change flex-start nodes during their lifetime"
    elif upgrade.strategy == "SURGE":
        yield (
            "upgrade",
            f"surge {upgrade.max_surge}, unavailable {upgrade.max_unavailable}",
            "new nodes are created before old nodes are deleted"
            if upgrade.max_surge
            else "no capacity for another node",
        )
    else:
        yield "upgrade", "blue-green", "set in the stack file"
    if nodes.autoscaled:
        yield (
            "autoscaler",
            f"{nodes.min} to {counted(nodes.max, 'node')}, {plan.location_policy}",
            "limits of count",
        )
    if plan.local_ssd_count:
        yield (
            "ephemeral storage",
            f"{counted(plan.local_ssd_count, 'local SSD')}",
            "these disks are part of the machine type",
        )
    yield (
        "secure boot",
        "on" if plan.secure_boot else "off",
        "the nodes load no NVIDIA driver"
        if not machine.has_gpus
        else "Google signs the driver"
        if plan.secure_boot
        else "the driver's kernel modules are unsigned",
    )

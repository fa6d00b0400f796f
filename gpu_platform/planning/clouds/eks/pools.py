"""Check and plan EKS node pools from their machine type, capacity type and workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.eks.alternatives import check_alternatives, machines_of
from gpu_platform.planning.clouds.eks.blocks import plan_blocks, windows_of
from gpu_platform.planning.clouds.eks.bootstrap import check_bootstrap
from gpu_platform.planning.clouds.eks.capacity import avoids_reservations, check_capacity, purchase, reserved
from gpu_platform.planning.clouds.eks.cloud_nodes import node_group_nodes
from gpu_platform.planning.clouds.eks.cluster_autoscaler import accelerator_label, group_tags, kept_tags, scaled
from gpu_platform.planning.clouds.eks.disks import block_devices, check_disk
from gpu_platform.planning.clouds.eks.images import check_image, image_of
from gpu_platform.planning.clouds.eks.karpenter import check_karpenter_pool, plan_karpenter_pool
from gpu_platform.planning.clouds.eks.karpenter_checks import managed_instead
from gpu_platform.planning.clouds.eks.labels import eks_labels, eks_taints
from gpu_platform.planning.clouds.eks.network import (
    METADATA_HOP_LIMIT,
    check_network,
    check_pod_interfaces,
    interfaces,
    layout_of,
    uses_dranet,
    uses_efa,
)
from gpu_platform.planning.clouds.eks.placement import (
    check_placement,
    check_zones,
    known_zones,
    placement_group,
    rebalanced,
    zones_of,
)
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.clouds.eks.reasons import reasons
from gpu_platform.planning.clouds.eks.schedules import check_schedule, scheduled_sizes
from gpu_platform.planning.clouds.eks.tags import check_tags
from gpu_platform.planning.clouds.eks.user_data import user_data, with_own_image
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.clouds.section import CloudPool
from gpu_platform.planning.clouds.vendors import vendor_of
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.kernel import check_kernel
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import CapacityBlock, Pool

_LABEL_DOMAIN = "amazonaws.com"
OWN_IMAGE = "CUSTOM"  # the only AMI type that EKS accepts with an image in the launch template
_MAX_TAINTS = 50  # limit of the EKS API for a node group
_LONGEST_KEY = 63  # maximum length of a label or taint key of a node group, including the key's domain
_OWN_TAINTS = _MAX_TAINTS - 2  # leaves room for the GPU taint and the startup taint of `gate_nodes`


def check_eks_pool(
    pool: Pool, machine: MachineType, cluster: EksCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record a problem for each combination of settings that EKS refuses, or that wastes paid capacity."""
    family = catalog.aws_family(machine)
    check_capacity(pool, machine, family, cluster, problems)
    check_tags(pool.tags, problems.at("tags"))
    check_network(pool, machine, family, cluster, catalog, problems)
    check_pod_interfaces(pool, machine, family, cluster, problems)
    check_placement(pool, machine, family, cluster, problems)
    check_zones(pool, machine, cluster, problems)
    check_image(pool, machine, catalog, problems)
    check_disk(pool, cluster, problems)
    check_alternatives(pool, machine, catalog, problems)
    _check_kubelet(pool, problems)
    check_kernel(pool, machine, problems)
    _check_huge_pages(pool, machine, problems)
    check_bootstrap(pool, problems.at("bootstrap"))
    check_schedule(pool, cluster, problems)
    _check_labels(pool, problems)
    if pool.provisioner == "karpenter":
        check_karpenter_pool(pool, machine, catalog, problems)
    else:
        _check_node_group(pool, machine, problems)


def _check_node_group(pool: Pool, machine: MachineType, problems: Problems) -> None:
    if pool.karpenter is not None:
        problems.at("karpenter").add(
            "`karpenter` with `provisioner: managed`",
            "`karpenter` only with `provisioner: karpenter`, because a node group does not use these settings",
            "write provisioner: karpenter, or remove karpenter",
        )
    if pool.count.maximum == 0:
        problems.at("count").at("max").add(
            "0",
            "1 or more: an EKS node group has a maximum of at least one node",
            "write max: 1, or remove the pool",
        )
    if machine.has_gpus and len(pool.taints) > _OWN_TAINTS:
        problems.at("taints").add(
            f"{len(pool.taints)} in addition to the GPU taint and the startup taint of gate_nodes",
            f"{_MAX_TAINTS} in total",
            "use one taint per pool",
        )
    _check_node_group_labels(pool, problems)
    _check_upgrade(pool, problems)


def _check_node_group_labels(pool: Pool, problems: Problems) -> None:
    """Record problems for labels and taints that Kubernetes allows but the EKS API refuses. Karpenter accepts
    them.

    Source: EKS API, model of botocore 1.44: labelKey and taintKey, 1 to 63; labelValue, 1 to 63; read 2026-11-29.
    """
    for key, value in pool.labels.items():
        here = problems.at("labels").at(key)
        _check_key(key, here)
        if not value:
            here.add(
                "an empty value",
                "a value: EKS refuses an empty value on a node group",
                f"write a value, such as {key}: 'true'",
            )
    for index, taint in enumerate(pool.taints):
        _check_key(taint.key, problems.at("taints").at(f"[{index}]").at("key"))


def _check_key(key: str, here: Problems) -> None:
    if len(key) > _LONGEST_KEY:
        here.add(
            f"{len(key)} characters",
            f"at most {_LONGEST_KEY}, including the domain: EKS refuses longer keys on a node group",
            "shorten the key",
        )


def _check_upgrade(pool: Pool, problems: Problems) -> None:
    """Record a problem if EKS would refuse the pool's `max_unavailable`.

    Source: EKS API, CreateNodegroup and UpdateNodegroupConfig: "max-unavailable must be within the range 1 and max
    size of the node group" (terraform-provider-aws#26535, #26551); read 2026-11-30.
    """
    count, most = pool.upgrade.max_unavailable, pool.count.maximum
    here = problems.at("upgrade").at("max_unavailable")
    if count == 0:
        here.add("0", "1 or more: EKS replaces that many nodes at a time", "write max_unavailable: 1")
    elif count is not None and 0 < most < count:
        here.add(
            f"{count} with at most {counted(most, 'node')}",
            f"1 to {most}: EKS refuses more than the maximum size of a node group",
            f"write max_unavailable: {most}",
        )


def _check_huge_pages(pool: Pool, machine: MachineType, problems: Problems) -> None:
    if pool.tuning is None or pool.tuning.huge_pages is None:
        return
    here = problems.at("tuning").at("huge_pages")
    if uses_efa(pool, machine):
        reserved = vendor_of(machine).rdma_huge_pages_mib
        here.add(
            f"{pool.tuning.huge_pages} on {machine.name} with EFA",
            f"none, because the EFA installer of the image reserves {reserved} MiB of huge pages itself",
            "remove huge_pages",
        )
    elif pool.provisioner == "karpenter":
        here.add(
            f"{pool.tuning.huge_pages} with provisioner karpenter",
            "none, because Karpenter does not support huge pages, and creates no node for pods that request them",
            f"remove huge_pages, or {managed_instead(pool)}",
        )


def _check_kubelet(pool: Pool, problems: Problems) -> None:
    topology = pool.topology
    if topology is not None and topology.memory == "static" and topology.policy == "none":
        problems.at("topology").at("memory").add(
            "'static' with policy none",
            "'static' only with a topology manager policy, because otherwise memory is not aligned with CPUs "
            "and GPUs",
            "write policy: restricted, or memory: none",
        )


def _check_labels(pool: Pool, problems: Problems) -> None:
    for key in pool.labels:
        if "/" in key and key.split("/")[0].endswith(_LABEL_DOMAIN):
            problems.at("labels").at(key).add(
                f"{key!r}", f"a label outside the domain {_LABEL_DOMAIN}, which AWS sets", "remove it"
            )


def plan_eks_pool(
    pool: Pool,
    machine: MachineType,
    cluster: EksCluster,
    requirements: NodeRequirements,
    catalog: Catalog,
    pools: Sequence[Pool] = (),
) -> Decided[CloudPool]:
    """Return the plan for a valid pool. `pools` contains all pools of the stack."""
    price = tuple(_price_of_region(pool, machine, cluster, catalog))
    if pool.provisioner == "karpenter":
        planned = plan_karpenter_pool(pool, machine, cluster, requirements, catalog)
        return Decided(planned.value, (*planned.decisions, *price))
    family, image, bought = catalog.aws_family(machine), image_of(pool, catalog), purchase(pool.capacity)
    efa = uses_efa(pool, machine)
    dranet = uses_dranet(pool, machine)
    labels = eks_labels(requirements.labels, has_gpus=machine.has_gpus, efa=efa, dranet=dranet)
    machines = machines_of(pool, machine, catalog)
    scales = scaled(pool, cluster)
    if scales and requirements.gpu is not None:
        labels = {**labels, **accelerator_label(requirements.gpu.model, requirements.resources)}
    nics = interfaces(machine, family, layout_of(pool, family)) if efa else ()
    base = user_data(
        pool,
        machine,
        requirements.software,
        requirements.kubelet,
        requirements.kernel,
        requirements.bootstrap,
    )
    own_image = pool.image.ami is not None
    new_taints = (*requirements.taints, *requirements.startup_taints)
    plan = EksPoolPlan(
        # The name of a node group must be unique within the cluster.
        # EKS allows 63 characters: a pool's name has up to 40 characters, and Pulumi may add 8 characters.
        node_group=pool.name,
        instance_type=machine.name,
        alternatives=pool.alternatives,
        compute_class=requirements.compute_class,
        ami_type=OWN_IMAGE if own_image else image.image_type(machine),
        ami=pool.image.ami,
        release_version=pool.image.release,
        capacity_type=bought.capacity_type,
        market_type=bought.market_type,
        capacity_reservation=next((window.reservation for window in windows_of(pool)), None),
        avoids_reservations=avoids_reservations(pool, pools),
        blocks=plan_blocks(pool, family),
        several_blocks=isinstance(pool.capacity, CapacityBlock) and pool.capacity.blocks is not None,
        interfaces=nics,
        efa=efa,
        dranet=dranet,
        placement_group=placement_group(pool, machine, cluster),
        zones=zones_of(pool),
        block_devices=block_devices(pool, image, on_nvme=pool.local_nvme and machine.local_nvme_gb > 0),
        user_data=with_own_image(base, pool, labels, new_taints) if own_image else base,
        huge_pages=requirements.kernel.huge_pages if requirements.kernel is not None else 0,
        metadata_hop_limit=METADATA_HOP_LIMIT,
        labels=labels,
        taints=eks_taints(new_taints),
        min_size=_least(pool),
        desired_size=pool.count.desired,
        max_size=pool.count.maximum,
        keeps_size=pool.count.is_range or isinstance(pool.capacity, CapacityBlock) or pool.schedule is not None,
        rebalanced=rebalanced(pool, cluster),
        one_zone=not zones_of(pool) and len(known_zones(cluster)) == 1,
        schedule=scheduled_sizes(pool),
        max_unavailable=pool.upgrade.max_unavailable or 1,
        update_strategy="MINIMAL" if reserved(pool.capacity) else "DEFAULT",
        node_repair=repaired(pool),
        tags={**pool.tags, "Name": f"{cluster.name}-{pool.name}", names.POOL_LABEL: pool.name},
        company_tags=pool.tags,
        delete_before_replace=reserved(pool.capacity),
        protect=cluster.is_protected or pool.protect,
        local_nvme=pool.local_nvme and machine.local_nvme_gb > 0,
        group_tags={} if scales else kept_tags(pool, cluster),
    )
    if scales:
        nodes = node_group_nodes(plan, cluster, catalog)
        tags = group_tags(
            pool,
            cluster,
            machines,
            requirements.sharing,
            requirements.resources,
            nodes.nic_resources,
            nodes.huge_pages_mib,
        )
        plan = replace(plan, group_tags=tags)
    return Decided(
        CloudPool(plan=plan, nodes=node_group_nodes(plan, cluster, catalog)),
        (*reasons(pool, machine, plan, cluster), *price),
    )


def _price_of_region(
    pool: Pool, machine: MachineType, cluster: EksCluster, catalog: Catalog
) -> Iterator[Decision]:
    """Yield a warning if nodes are in a Local Zone, because the program calculates their cost with the region's
    prices.

    Source: AWS Well-Architected Framework, COST07-BP02: prices by location type; read 2026-11-29.
    """
    local = [zone for zone in zones_of(pool) if is_local_zone(zone)]
    if local and pool.usd_per_hour is None and catalog.price(machine, cluster.region) is not None:
        yield Decision(
            subject=f"pool {pool.name}",
            what="warning: price",
            chosen=f"the price of {cluster.region} for nodes in {', '.join(local)}",
            why="a Local Zone has its own prices, which are not in the catalogue; set usd_per_hour",
        )


def _least(pool: Pool) -> int:
    """Return the minimum size of a node group.

    The cluster owner's autoscaler also discovers groups of fixed size, and would empty an idle group. The minimum
    of such a group is therefore its desired size. EKS removes nodes of reserved capacity itself, at the end of a
    block or during a rolling update, and a schedule removes all nodes. A group with reserved capacity or a
    schedule keeps the declared minimum, and tags keep the autoscaler from removing nodes of reserved groups
    (`cluster_autoscaler.kept_tags`).
    """
    changes = pool.count.is_range or reserved(pool.capacity) or pool.schedule is not None
    return pool.count.min if changes else pool.count.desired


def repaired(pool: Pool) -> bool:
    """Return whether EKS replaces broken nodes.

    A capacity block has no spare instance, so a replacement would have to wait until the broken node's host is
    available again.
    """
    return not isinstance(pool.capacity, CapacityBlock) if pool.repair is None else pool.repair

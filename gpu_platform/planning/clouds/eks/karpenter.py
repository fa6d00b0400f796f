"""Plan a GPU pool for Karpenter, with its NodePool (karpenter.sh/v1) and EC2NodeClass (karpenter.k8s.aws/v1).

Sources: Karpenter 1.14 docs (NodePools, NodeClasses, disruption, managing AMIs, capacity reservations) and CRDs of
v1.14.1; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.eks.blocks import windows_of
from gpu_platform.planning.clouds.eks.capacity import purchase
from gpu_platform.planning.clouds.eks.cloud_nodes import karpenter_nodes
from gpu_platform.planning.clouds.eks.compute_class import priority
from gpu_platform.planning.clouds.eks.disks import block_devices, disk_key
from gpu_platform.planning.clouds.eks.disruption import DISRUPTION
from gpu_platform.planning.clouds.eks.images import image_of, karpenter_alias
from gpu_platform.planning.clouds.eks.karpenter_checks import check_karpenter_pool as check_karpenter_pool
from gpu_platform.planning.clouds.eks.labels import eks_labels
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice, NetworkInterface
from gpu_platform.planning.clouds.eks.network import METADATA_HOP_LIMIT, interfaces, uses_efa
from gpu_platform.planning.clouds.eks.placement import placement_group, zones_of
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.user_data import user_data, write_user_data
from gpu_platform.planning.clouds.section import CloudPool
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.nodes import Karpenter
from gpu_platform.stack.pool import CapacityBlock, Pool
from gpu_platform.stack.sharing import Mps, TimeSlicing

_AMI_FAMILIES = {"al2023": "AL2023", "bottlerocket": "Bottlerocket"}
_PREPAID_WEIGHT = 100


def plan_karpenter_pool(
    pool: Pool,
    machine: MachineType,
    cluster: EksCluster,
    requirements: NodeRequirements,
    catalog: Catalog,
) -> Decided[CloudPool]:
    """Return the plan for a valid pool."""
    efa = uses_efa(pool, machine)
    group = placement_group(pool, machine, cluster)
    settings = pool.karpenter or Karpenter()
    node_class = _node_class(pool, machine, requirements, efa, catalog)
    if group is not None:
        node_class["placementGroupSelector"] = {"name": group.name}
    labels = eks_labels(requirements.labels, has_gpus=machine.has_gpus, efa=efa)
    plan = KarpenterPoolPlan(
        name=pool.name,
        efa=efa,
        placement_group=group,
        zones=zones_of(pool),
        reservations=windows_of(pool),
        several_blocks=isinstance(pool.capacity, CapacityBlock) and pool.capacity.blocks is not None,
        node_class=node_class,
        node_pool=_node_pool(
            pool,
            machine,
            settings,
            labels,
            requirements,
        ),
        protect=cluster.is_protected or pool.protect,
    )
    nodes = karpenter_nodes(plan, cluster, catalog)
    return Decided(CloudPool(plan=plan, nodes=nodes), tuple(_explain(pool, settings, node_class, cluster)))


def _node_class(
    pool: Pool, machine: MachineType, requirements: NodeRequirements, efa: bool, catalog: Catalog
) -> dict[str, Any]:
    """Return the spec of the EC2NodeClass. The component adds the role, subnets and security groups of the
    cluster.
    """
    image = image_of(pool, catalog)
    on_nvme = pool.local_nvme and machine.local_nvme_gb > 0
    spec: dict[str, Any] = {
        "amiFamily": _AMI_FAMILIES[image.family],
        # The release is pinned, because `latest` would replace every node when AWS publishes an image.
        "amiSelectorTerms": [
            {"id": pool.image.ami} if pool.image.ami is not None else {"alias": karpenter_alias(pool, image)}
        ],
        "associatePublicIPAddress": False,
        "blockDeviceMappings": [_block_device(one) for one in block_devices(pool, image, on_nvme)],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": METADATA_HOP_LIMIT,
            "httpTokens": "required",
        },
        "tags": {**pool.tags, names.POOL_LABEL: pool.name, names.WORKLOAD_LABEL: pool.workload},
    }
    if on_nvme:
        spec["instanceStorePolicy"] = "RAID0"
    # Karpenter has its own field for local disks, so user data does not set them up.
    # User data configures the Topology Manager.
    base = user_data(
        pool.model_copy(update={"local_nvme": False}),
        machine,
        requirements.software,
        requirements.kubelet,
        requirements.kernel,
        requirements.bootstrap,
    )
    if base is not None:
        spec["userData"] = write_user_data(base)
    if efa:
        layout = interfaces(machine, catalog.aws_family(machine), "ena-and-efa")
        spec["networkInterfaces"] = [_network_interface(one) for one in layout]
    if windows := windows_of(pool):
        spec["capacityReservationSelectorTerms"] = [{"id": window.reservation} for window in windows]
    return spec


def _block_device(device: BlockDevice) -> dict[str, Any]:
    ebs = {
        "volumeSize": f"{device.size_gib}Gi",
        "volumeType": device.volume_type,
        "iops": device.iops,
        "throughput": device.throughput_mibps,
        "encrypted": True,
        "kmsKeyID": device.kms_key,
        "snapshotID": device.snapshot,
        "deleteOnTermination": True,
    }
    return {
        "deviceName": device.device_name,
        "ebs": {key: value for key, value in ebs.items() if value is not None},
    }


def _network_interface(interface: NetworkInterface) -> dict[str, Any]:
    return {
        "networkCardIndex": interface.network_card_index,
        "deviceIndex": interface.device_index,
        "interfaceType": interface.interface_type,
    }


def _node_pool(
    pool: Pool,
    machine: MachineType,
    settings: Karpenter,
    labels: Mapping[str, str],
    requirements: NodeRequirements,
) -> dict[str, Any]:
    place = requirements.compute_class
    disruption = DISRUPTION[pool.workload]
    spec: dict[str, Any] = {
        "template": {
            "metadata": {"labels": dict(labels)},
            # Karpenter waits until a node advertises the GPUs and EFA interfaces that the pods request.
            # Pods need not tolerate startup taints, because Karpenter ignores them when it plans nodes.
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
                "taints": _taints(requirements.taints),
                **({"startupTaints": _taints(startup)} if (startup := requirements.startup_taints) else {}),
                "requirements": _requirements(pool, machine),
                "expireAfter": settings.expire_after or disruption.expire_after,
                "terminationGracePeriod": disruption.termination_grace,
            },
        },
        "disruption": {
            "consolidationPolicy": disruption.policy,
            "consolidateAfter": settings.consolidate_after or disruption.consolidate_after,
            "budgets": [dict(budget) for budget in disruption.budgets],
        },
        "limits": _limits(pool, machine, settings),
    }
    if place is not None:
        spec["weight"] = priority(place)
    elif purchase(pool.capacity).reserved:
        # Pods that can run in several pools use reserved capacity first.
        spec["weight"] = _PREPAID_WEIGHT
    return spec


def _taints(taints: Sequence[Taint]) -> list[dict[str, str]]:
    return [one.of_node_pool for one in taints]


def _requirements(pool: Pool, machine: MachineType) -> list[dict[str, Any]]:
    wanted: dict[str, list[str]] = {
        "node.kubernetes.io/instance-type": [machine.name, *pool.alternatives],
        "karpenter.sh/capacity-type": [_capacity_type(pool)],
        "kubernetes.io/arch": [machine.arch],
        "kubernetes.io/os": ["linux"],
    }
    if zones_of(pool):
        wanted["topology.kubernetes.io/zone"] = list(zones_of(pool))
    return [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()]


def _capacity_type(pool: Pool) -> Literal["on-demand", "spot", "reserved"]:
    """Return the capacity type. Reserved pools exclude other types, because Karpenter would otherwise silently
    fall back to on-demand capacity.
    """
    bought = purchase(pool.capacity)
    if bought.reserved:
        return "reserved"
    return "spot" if bought.capacity_type == "SPOT" else "on-demand"


def _limits(pool: Pool, machine: MachineType, settings: Karpenter) -> dict[str, str]:
    """Return the limits for all nodes of the pool together.

    Karpenter compares the limit `nodes` only with existing nodes, so it may create more nodes if many pods wait at
    the same time. Karpenter also counts the CPU and GPUs of nodes that it is about to create. A running node has
    the same CPU, but if its GPUs are shared, it advertises shares instead of GPUs. Therefore, in this case only
    the CPU limit is exact both before and after a node starts. Larger alternatives use more CPU, so the pool gets
    fewer of these nodes, unless `karpenter.limits` allows more.

    Source: sigs.k8s.io/karpenter v1.14.1, pkg/controllers/provisioning (scheduling/scheduler.go: subtractMax;
    provisioner.go: Create); read 2026-11-28.
    """
    limits = {"nodes": str(pool.count.maximum)}
    shares = pool.sharing.replicas if isinstance(pool.sharing, TimeSlicing | Mps) else 1
    if machine.has_gpus:
        limits[names.GPU_RESOURCE] = str(pool.count.maximum * machine.gpu_count * shares)
    if shares > 1 or not machine.has_gpus:
        limits["cpu"] = str(pool.count.maximum * machine.vcpu)
    return {**limits, **{str(resource): limit for resource, limit in (settings.limits or {}).items()}}


def _explain(
    pool: Pool, settings: Karpenter, node_class: Mapping[str, Any], cluster: EksCluster
) -> Iterator[Decision]:
    subject, disruption = f"pool {pool.name}", DISRUPTION[pool.workload]
    after = settings.consolidate_after or disruption.consolidate_after
    kept = after == "Never"
    (term,) = node_class["amiSelectorTerms"]
    yield from (
        Decision(
            subject=subject,
            what="disruption",
            chosen=f"{'unused nodes stay' if kept else f'{disruption.policy} after {after}'}, age "
            + (settings.expire_after or disruption.expire_after),
            why="consolidate_after: Never" if kept else disruption.why,
        ),
        Decision(
            subject=subject,
            what="node image",
            chosen=next(iter(term.values())),
            why="pinned: with `latest` Karpenter replaces every node when AWS publishes an image",
        ),
        Decision(
            subject=subject,
            what="nodes",
            chosen=f"0 to {pool.count.maximum}",
            why="created for pending pods; "
            "you replace broken nodes by hand, because Karpenter's node repair is alpha",
        ),
    )
    of_owner = ", whose IAM policy must also allow it" if cluster.parts.karpenter == "present" else ""
    for what, chosen, why in disk_key(pool, f"Karpenter's IAM role{of_owner}"):
        yield Decision(subject=subject, what=what, chosen=chosen, why=why)
    if "networkInterfaces" in node_class:
        yield Decision(
            subject=subject,
            what="EFA in pods",
            chosen="vpc.amazonaws.com/efa, no hugepages-2Mi, FI_EFA_USE_HUGE_PAGE=0",
            why="Karpenter does not support huge pages, and creates no node for a pod that requests them",
        )
    if isinstance(pool.sharing, TimeSlicing | Mps):
        yield Decision(
            subject=subject,
            what="shares",
            chosen=f"{pool.sharing.replicas} of each GPU, as {names.GPU_RESOURCE}",
            why="Karpenter plans one GPU for each share, because only a running node shows its number of shares",
        )

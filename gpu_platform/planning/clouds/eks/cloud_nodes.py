"""Derive properties of an EKS pool's nodes from the pool's plan. The properties include zones, NICs, how nodes are
rolled or replaced, and why pods on them may be terminated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import duration_text, parse_duration
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.blocks import block_endings
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.efa_requests import (
    DRANET_DRIVER,
    EFA_DEVICE_CLASS,
    EFA_ENVIRONMENT,
    efa_requests,
    efa_resources,
)
from gpu_platform.planning.clouds.eks.images import rolled_image
from gpu_platform.planning.clouds.eks.limits import TERMINATION_SECONDS, node_group_timeouts, surge_of
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan, PlacementGroup
from gpu_platform.planning.clouds.eks.volumes import claim_volumes
from gpu_platform.planning.clouds.endings import PodEnding, reclaimed
from gpu_platform.planning.clouds.section import (
    AccountNeed,
    CloudCluster,
    CloudNodes,
    FabricNics,
    NicDevices,
    RollLimits,
    Timeouts,
)
from gpu_platform.planning.clouds.windows import CapacityWindow, SizedGroup
from gpu_platform.planning.nodes.section import HUGE_PAGE_MIB
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.cluster import EksCluster

# EKS user guide, "Create a managed node group with Capacity Blocks for ML", considerations; read 2026-11-23.
_EMPTY_BLOCK: Final = (
    "a node group of a capacity block must have desired size 0 while EKS updates it, because the block has no "
    "instance for a replacement"
)
# The creation of the role fails if the role already exists.
# EC2 Auto Scaling may create the role itself (AutoScalingServiceRolePolicy).
# Sources: Karpenter docs, "Missing Service Linked Role"; AWS Batch user guide; read 2026-11-23.
_SPOT_ROLE: Final = AccountNeed(
    name="role AWSServiceRoleForEC2Spot",
    why="spot nodes of Karpenter: an account that has never used spot has no service-linked role for EC2 Spot",
    fix="run aws iam get-role --role-name AWSServiceRoleForEC2Spot, and if the role does not exist, run "
    "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
)


def node_group_nodes(plan: EksPoolPlan, cluster: EksCluster, catalog: Catalog) -> CloudNodes:
    """Return the nodes of a managed node group."""
    efa = plan.efa_interfaces
    requests = efa_requests(efa, huge_pages=True)
    windows = tuple(block.window for block in plan.blocks)
    return CloudNodes(
        platform=plan.kind,
        protect=plan.protect,
        zones=plan.zones,
        several_zones=_several_zones(plan),
        leaves_zones=_leaves_zones(plan),
        placement=_placement(plan.placement_group),
        replaced_delete_first=plan.delete_before_replace,
        rolled_delete_first=plan.update_strategy == "MINIMAL",
        timeouts=node_group_timeouts(plan.max_size, plan.max_unavailable),
        roll_limits=RollLimits(
            at_a_time=plan.max_unavailable,
            needs_empty=_EMPTY_BLOCK if plan.capacity_type == "CAPACITY_BLOCK" else "",
            image=rolled_image("image.release", plan.release_version) if plan.ami is None else "",
        ),
        alternatives=plan.alternatives,
        os_release=catalog.os_release("aws", plan.ami_type),
        huge_pages_mib=catalog.vendors["aws"].rdma_huge_pages_mib if efa else plan.huge_pages * HUGE_PAGE_MIB,
        autoscaled=plan.autoscaled,
        sets_size="on-edit" if plan.keeps_size else "always",
        # Nodes with a custom AMI keep the AMI's Kubernetes version.
        # Labels are set on nodes with a custom AMI only when the nodes are created.
        keeps_version=plan.ami is not None,
        relabels_in_place=plan.ami is None,
        nic_resources={} if plan.dranet else efa_resources(efa),
        nic_devices=NicDevices(device_class=EFA_DEVICE_CLASS, per_node=efa, driver=DRANET_DRIVER)
        if plan.dranet
        else None,
        network_requests={key: count for key, count in requests.items() if key != names.EFA_RESOURCE}
        if plan.dranet
        else requests,
        network_environment=EFA_ENVIRONMENT if efa else {},
        fabric_nics=_fabric_nics(efa),
        replacement=f"EKS node group {plan.node_group}: drain the node and terminate its instance (its id is "
        "the end of spec.providerID: aws ec2 terminate-instances --instance-ids ID); the group "
        "creates another node",
        local_nvme=plan.local_nvme,
        disk_gib=plan.block_devices[-1].size_gib,
        volumes=claim_volumes(
            (plan.instance_type, *plan.alternatives),
            cluster,
            catalog,
            disks=len(plan.block_devices),
            interfaces=len(plan.interfaces),
        ),
        sized_groups=tuple(
            SizedGroup(name=group.name, scheduled=group.scheduled_window) for group in plan.node_groups
        ),
        windows=windows,
        pod_endings=_group_endings(plan, windows, catalog),
    )


def _leaves_zones(plan: EksPoolPlan) -> bool:
    """Return whether a new node may be in a different zone than the disks of the pods that wait for it.

    An Auto Scaling group starts nodes in any of its zones, and the next capacity block may be in another zone. The
    Cluster Autoscaler expects the next node in the first zone of a group, but EC2 may choose another zone. If a
    group has fewer nodes than zones, the replacement of a node may also be in another zone.

    Sources: Cluster Autoscaler, cloudprovider/aws/README.md, common notes and gotchas; kubernetes/autoscaler
    #1431; read 2026-11-29.
    """
    fewer_than_zones = plan.desired_size < max(len(plan.zones), 2)
    return _several_zones(plan) and (plan.keeps_size or fewer_than_zones)


def _several_zones(plan: EksPoolPlan) -> bool:
    return len(plan.zones) != 1 and not plan.one_zone


def _placement(group: PlacementGroup | None) -> str:
    return "cluster" if group is not None else "none"


def _fabric_nics(efa_interfaces: int) -> FabricNics | None:
    return FabricNics(kind="efa", count=efa_interfaces) if efa_interfaces else None


def _group_endings(
    plan: EksPoolPlan, windows: Sequence[CapacityWindow], catalog: Catalog
) -> tuple[PodEnding, ...]:
    """Return why pods on a node group may be terminated: spot interruptions, the end of a capacity block, or moves
    between zones.
    """
    if plan.capacity_type == "SPOT":
        return (reclaimed("eks", catalog),)
    drain = catalog.drain_limits["eks", "rebalance"].seconds
    moved = PodEnding(why="EC2 Auto Scaling moves nodes between the zones of the pool", notice=drain)
    return (*block_endings(windows), *((moved,) if plan.rebalanced else ()))


def karpenter_nodes(plan: KarpenterPoolPlan, cluster: EksCluster, catalog: Catalog) -> CloudNodes:
    """Return the nodes of a Karpenter NodePool."""
    template = plan.node_pool["template"]["spec"]
    requirements: Mapping[str, Sequence[str]] = {one["key"]: one["values"] for one in template["requirements"]}
    grace = int(parse_duration(template["terminationGracePeriod"]))
    spot = "spot" in requirements["karpenter.sh/capacity-type"]
    efa = plan.efa_interfaces
    terms = plan.node_class.get("amiSelectorTerms", ())
    alias = next((str(term["alias"]) for term in terms if "alias" in term), "")
    return CloudNodes(
        platform=plan.kind,
        protect=plan.protect,
        zones=plan.zones,
        several_zones=len(plan.zones) != 1,
        # Karpenter creates nodes in the zone of a pod's disk, but the next block may be in another zone.
        leaves_zones=plan.several_blocks and len(plan.zones) > 1,
        placement=_placement(plan.placement_group),
        # Draining a node may take the whole grace period.
        timeouts=Timeouts(delete=grace + TERMINATION_SECONDS),
        roll_limits=_karpenter_rolls(plan, grace),
        alternatives=tuple(requirements["node.kubernetes.io/instance-type"][1:]),
        os_release=catalog.os_release("aws", alias.partition("@")[0]),
        # Karpenter's role is not allowed to create the service-linked role for EC2 Spot.
        account_needs=(_SPOT_ROLE,) if spot else (),
        created_on_demand="created by Karpenter for pending pods",
        huge_pages_mib=catalog.vendors["aws"].rdma_huge_pages_mib if efa else 0,
        autoscaled=True,
        sets_size="on-creation",
        keeps_version=plan.keeps_version,
        nic_resources=efa_resources(efa),
        # Karpenter creates no node for a pod that requests huge pages. libfabric does not require huge pages.
        # Karpenter also creates no node for a pod that claims EFA interfaces.
        network_requests=efa_requests(efa, huge_pages=False),
        network_environment=EFA_ENVIRONMENT if efa else {},
        fabric_nics=_fabric_nics(efa),
        replacement=f"Karpenter NodePool {plan.name}: delete the NodeClaim of the node (kubectl get nodeclaims "
        "-o wide); the node is drained, and Karpenter creates another node for pending pods",
        replaced_by_claim=True,
        local_nvme=plan.node_class.get("instanceStorePolicy") == "RAID0",
        disk_gib=int(plan.node_class["blockDeviceMappings"][-1]["ebs"]["volumeSize"].removesuffix("Gi")),
        volumes=claim_volumes(
            requirements["node.kubernetes.io/instance-type"],
            cluster,
            catalog,
            disks=len(plan.node_class["blockDeviceMappings"]),
            interfaces=len(plan.node_class.get("networkInterfaces", ())),
        ),
        windows=plan.reservations,
        node_class_reservations=plan.reservations,
        pod_endings=(
            *block_endings(plan.reservations),
            *((reclaimed("eks", catalog),) if spot else ()),
            _karpenter_drain(grace, template["expireAfter"]),
        ),
        moves_pods=_karpenter_moves(plan.node_pool["disruption"], template["expireAfter"]),
    )


def _karpenter_moves(disruption: Mapping[str, Any], age: str) -> str:
    """Return when Karpenter removes nodes with running pods, or an empty string if it removes only empty nodes."""
    underused = disruption.get("consolidationPolicy") == "WhenEmptyOrUnderutilized"
    found = [
        *(["removes underused nodes"] if underused and disruption.get("consolidateAfter") != "Never" else []),
        *([f"replaces nodes at an age of {age}"] if age != "Never" else []),
    ]
    return f"Karpenter {' and '.join(found)}" if found else ""


def _karpenter_drain(grace: int, age: str) -> PodEnding:
    """Return why Karpenter terminates pods, and the maximum time to drain a node.

    After this time, Karpenter also terminates pods with karpenter.sh/do-not-disrupt (Karpenter docs,
    Disruption; read 2026-11-28).
    """
    why = f"Karpenter drains nodes for at most {duration_text(grace)}"
    if age == "Never":
        return PodEnding(why=why, notice=grace)
    return PodEnding(why=f"{why}, at an age of {age}", after=parse_duration(age) + grace, notice=grace)


def _karpenter_rolls(plan: KarpenterPoolPlan, grace: int) -> RollLimits:
    """Return how Karpenter replaces drifted nodes after the deployment."""
    held = "0" in plan.drift_budgets
    if held:
        allowed = "the disruption budget allows no replacement now, so only empty nodes are replaced"
    else:
        budgets = (f"{nodes} of the nodes at a time" for nodes in plan.drift_budgets)
        allowed = ", ".join(budgets) or "as the disruption budgets allow"
    unlimited = (
        f"Karpenter replaces the nodes after the deployment ({allowed}), and drains each for at most "
        f"{duration_text(grace)} (terminationGracePeriod)"
    )
    # Karpenter replaces a node that runs pods only if it can create a replacement node first.
    # Source: sigs.k8s.io/karpenter v1.14.1, disruption/drift.go: ComputeCommands; read 2026-11-29.
    # Source: karpenter-provider-aws v1.14.1, offering/reserved_capacity_resolver.go; read 2026-11-29.
    spare = "while the reservation has a free instance" if plan.reservations and not held else ""
    if spare:
        unlimited += (
            "; while the reservation has no free instance, a node whose pods fit nowhere else is replaced only "
            "when it is empty or you delete its NodeClaim"
        )
    return RollLimits(unlimited=unlimited, only_while=spare)


def surge_nodes(pool: PoolPlan, cluster: CloudCluster) -> int:
    """Return how many nodes EKS or Karpenter adds to a pool during a rolling update."""
    plan = pool.cloud
    assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - the plan is of this cloud
    assert isinstance(plan, EksPoolPlan | KarpenterPoolPlan)  # noqa: S101 - its pools are, too
    if isinstance(plan, KarpenterPoolPlan):
        return _karpenter_surge(plan)
    if plan.update_strategy == "MINIMAL":
        return 0  # EKS deletes a node before it creates the next node
    return surge_of(len(plan.zones) or cluster.zone_count, plan.max_unavailable)


def _karpenter_surge(plan: KarpenterPoolPlan) -> int:
    """Return how many nodes Karpenter adds during a rolling update, beyond the limits of the NodePool.

    For reserved capacity this is 0.

    A node does not count towards the limits from shortly before Karpenter creates the replacement node until the
    old node's instance is terminated. The budget is a number or a percentage of all nodes, including replacement
    nodes and nodes that are being replaced. A percentage is rounded up.

    Sources: sigs.k8s.io/karpenter v1.14.1, pkg/controllers/disruption (helpers.go, queue.go: StartCommand),
    state/cluster.go: updateNodePoolResources, pkg/apis/v1/nodepool.go: GetAllowedDisruptions; read 2026-11-29.
    """
    if plan.reservations or not plan.drift_budgets:
        return 0
    most, surge = int(plan.node_pool["limits"]["nodes"]), 0
    while (allowed := min(most, *(_allowed(budget, most + surge) for budget in plan.drift_budgets))) > surge:
        surge = allowed
    return surge


def _allowed(budget: str, nodes: int) -> int:
    """Return how many of `nodes` a Karpenter disruption budget allows to be replaced at a time."""
    return -(-nodes * int(budget[:-1]) // 100) if budget.endswith("%") else int(budget)

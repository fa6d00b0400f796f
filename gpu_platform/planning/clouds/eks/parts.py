"""Decide which controllers the pools of an EKS cluster need, and whether the program installs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.karpenter_controller import CRD_CHART
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.section import listed
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster

# Oldest Karpenter releases that support the fields of a plan.
# The fields `networkInterfaces` and `placementGroupSelector` have been in the CRD since v1.11.0.
# The field `capacityReservationSelectorTerms` has been in the CRD since v1.3.0.
# Capacity blocks need v1.6.0 (#8011), because EC2 requires a market type that older releases do not send.
# Source: aws/karpenter-provider-aws, pkg/apis/crds; read 2026-11-29.
# Source: Karpenter docs, Settings, "Feature gates" (ReservedCapacity); read 2026-11-29.
# Source for the permissions: Karpenter 1.14 docs, reference "CloudFormation"; read 2026-11-29.
_API: Final = "1.0.0"
_RESERVATIONS: Final = "1.3.0"
_BLOCKS: Final = "1.6.0"
_GATE_ON: Final = "1.6"
_LAYOUTS: Final = "1.11.0"
# Source: Karpenter docs, NodeClasses, spec.instanceProfile, and "Private clusters"; read 2026-11-29.
# Source: IAM user guide, "Create a VPC endpoint for IAM"; read 2026-11-29.
_NEEDS_IAM: Final = (
    "Karpenter's pods must reach the IAM API, because they create the instance profile of nodes: "
    "a VPC can have an IAM endpoint only in the Region of IAM's control plane (us-east-1 for commercial Regions). "
    "Without a route to the internet or to this endpoint, no node class becomes ready, and `up` times out; "
    "pools with provisioner: managed need no such route"
)


def check_parts(cluster: EksCluster, problems: Problems) -> None:
    """Record problems for controllers that a new cluster cannot already have, and for an unsuitable or unused node
    role.

    `problems` points at `cluster.parts`.
    """
    parts = cluster.parts
    for name in ("karpenter", "cluster_autoscaler", "efa_plugin", "dranet"):
        if cluster.create is not None and getattr(parts, name) == "present":
            problems.at(name).add(
                "present on a new cluster",
                "present only on an existing cluster: a new cluster has no controllers that an owner installed",
                "write install, or remove create",
            )
    if parts.karpenter_node_role is not None and parts.karpenter == "install":
        problems.at("karpenter_node_role").add(
            f"{parts.karpenter_node_role!r} with karpenter: install",
            "karpenter_node_role only with karpenter: present; the program creates the role for its own Karpenter",
            "write karpenter: present, or remove karpenter_node_role",
        )
    of_groups = cluster.iam.node_role
    if of_groups is not None and of_groups.rpartition("/")[2] == parts.karpenter_node_role:
        problems.at("karpenter_node_role").add(
            f"{parts.karpenter_node_role!r}, the role of cluster.iam.node_role",
            "a separate role: EKS deletes the access entry of a role with the last node group that uses it, and "
            "Karpenter's nodes could no longer join",
            "write another role, or remove one of the two fields",
        )


def plan_parts(
    cluster: EksCluster,
    catalog: Catalog,
    *,
    karpenter: Sequence[KarpenterPoolPlan],
    scaled: bool,
    efa: bool,
    dranet: bool,
) -> tuple[PartPlan, ...]:
    """Return the controllers that the pools need.

    `karpenter` contains the pools that Karpenter provisions. `scaled` means that the Cluster Autoscaler scales a
    pool. `efa` means that pods get EFA interfaces from the device plugin. `dranet` means that pods claim EFA
    interfaces from the EFA DRA driver.
    """
    parts = cluster.parts
    found: list[PartPlan] = []
    if karpenter:
        found.append(
            PartPlan(
                name="karpenter",
                title="Karpenter",
                install=parts.karpenter == "install",
                kind="Deployment",
                label="karpenter",
                image="karpenter/controller",
                alone="two controllers would create and delete nodes for the same pods, and share the CRDs",
                least=_least(karpenter),
                chart=catalog.charts[CRD_CHART],
            )
        )
    if scaled:
        found.append(
            PartPlan(
                name="cluster_autoscaler",
                title="Cluster Autoscaler",
                install=parts.cluster_autoscaler == "install",
                kind="Deployment",
                label="aws-cluster-autoscaler",
                image="cluster-autoscaler",
                alone="two autoscalers would add and remove nodes of the same groups",
            )
        )
    if efa:
        found.append(
            PartPlan(
                name="efa_plugin",
                title="EFA device plugin",
                install=parts.efa_plugin == "install",
                kind="DaemonSet",
                label="aws-efa-k8s-device-plugin",
                image="aws-efa-k8s-device-plugin",
                alone="two device plugins would register the same resource with the kubelet",
            )
        )
    if dranet:
        found.append(
            PartPlan(
                name="dranet",
                title="EFA DRA driver",
                install=parts.dranet == "install",
                kind="DaemonSet",
                label="aws-dranet",
                image="eks/dranet",
                alone="two drivers would publish the same interfaces",
            )
        )
    return tuple(found)


def _least(pools: Sequence[KarpenterPoolPlan]) -> tuple[str, str]:
    """Return the oldest Karpenter release that supports the features that the pools use, and the reason."""
    if named := [pool.name for pool in pools if pool.placement_group is not None or pool.efa_interfaces]:
        return (
            _LAYOUTS,
            f"older releases do not support the EFA interfaces and placement groups of pools ({listed(named)})",
        )
    if named := [pool.name for pool in pools if pool.blocks]:
        return _BLOCKS, f"older releases do not support the capacity blocks of pools ({listed(named)})"
    if named := [pool.name for pool in pools if pool.reservations]:
        return _RESERVATIONS, f"older releases do not support the reservations of pools ({listed(named)})"
    return _API, "older releases do not have the API karpenter.sh/v1"


def explain_parts(
    cluster: EksCluster, parts: tuple[PartPlan, ...], karpenter: Sequence[KarpenterPoolPlan]
) -> tuple[Decision, ...]:
    """Return decisions that state what the owner of the cluster, or of its network, must provide for the
    controllers.

    `karpenter` contains the pools that Karpenter provisions.
    """
    return (*_of_owners(cluster, parts, karpenter), *_of_network(cluster, parts))


def _of_network(cluster: EksCluster, parts: tuple[PartPlan, ...]) -> Iterator[Decision]:
    """Yield the requirements of the program's Karpenter for an existing network, whose routes are not known."""
    if cluster.create is not None and cluster.create.network is None:
        return  # a VPC that the program creates has NAT gateways
    for part in parts:
        if part.name == "karpenter" and part.install:
            yield Decision(subject=f"cluster {cluster.name}", what=part.title, chosen="installed", why=_NEEDS_IAM)


def _of_owners(
    cluster: EksCluster, parts: tuple[PartPlan, ...], karpenter: Sequence[KarpenterPoolPlan]
) -> tuple[Decision, ...]:
    return tuple(
        Decision(
            subject=f"cluster {cluster.name}",
            what=part.title,
            chosen="present",
            why="the owner of the cluster installs and upgrades it; "
            + "; ".join(_needs(cluster, part, karpenter)),
        )
        for part in parts
        if not part.install
    )


def _needs(cluster: EksCluster, part: PartPlan, karpenter: Sequence[KarpenterPoolPlan]) -> Iterator[str]:
    """Yield the requirements for a controller that the owner installs."""
    if part.name == "efa_plugin":
        yield "the plugin must run on nodes with the label vpc.amazonaws.com/efa.present and tolerate their taints"
    elif part.name == "cluster_autoscaler":
        yield (
            "the autoscaler must discover the node groups by k8s.io/cluster-autoscaler/enabled and "
            f"k8s.io/cluster-autoscaler/{cluster.name}, which are the tags that EKS sets"
        )
        yield (
            "the autoscaler's IAM policy must allow eks:DescribeNodegroup, to read the labels and taints of a "
            "pool without nodes; otherwise such a pool gets no nodes"
        )
    elif part.name == "dranet":
        yield f"the driver must run on nodes with the label {names.EFA_DRIVER_LABEL} and tolerate their taints"
    else:
        yield from _needs_of_karpenter(cluster, part, karpenter)


def _needs_of_karpenter(cluster: EksCluster, part: PartPlan, pools: Sequence[KarpenterPoolPlan]) -> Iterator[str]:
    if part.least is not None:
        yield f"release {part.least[0]} or newer: {part.least[1]}"
    yield _NEEDS_IAM
    role = cluster.parts.karpenter_node_role
    if role is not None:
        yield f"nodes get the IAM role {role}, which needs an access entry"
    else:
        yield (
            "Karpenter's IAM policy must allow iam:PassRole on the role of the nodes, which the program creates"
        )
    if any(pool.reservations for pool in pools):
        yield (
            "Karpenter's IAM policy must allow ec2:DescribeCapacityReservations, "
            "and ec2:RunInstances and ec2:CreateFleet on capacity-reservation/*; "
            f"the feature gate ReservedCapacity must be on, which is the default from {_GATE_ON}"
        )
    if any(pool.placement_group is not None for pool in pools):
        yield (
            "Karpenter's IAM policy must allow ec2:DescribePlacementGroups, "
            "and ec2:RunInstances and ec2:CreateFleet on placement-group/*"
        )

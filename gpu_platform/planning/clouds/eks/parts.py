"""Decide which controllers the pools of an EKS cluster need, and whether the program installs them."""

from __future__ import annotations

from gpu_platform.base import names
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster


def check_parts(cluster: EksCluster, problems: Problems) -> None:
    """Record parts that a new cluster cannot have, and an unused role; `problems` is at `cluster.parts`."""
    parts = cluster.parts
    for name in ("karpenter", "cluster_autoscaler", "efa_plugin", "dranet"):
        if cluster.create is not None and getattr(parts, name) == "present":
            problems.at(name).add(
                "present on a new cluster",
                "present only on an existing cluster: a new one has no controllers of an owner",
                "write install, or remove create",
            )
    if parts.karpenter_node_role is not None and parts.karpenter == "install":
        problems.at("karpenter_node_role").add(
            f"{parts.karpenter_node_role!r} with karpenter: install",
            "karpenter_node_role only with karpenter: present; the program creates the role of its own Karpenter",
            "write karpenter: present, or remove karpenter_node_role",
        )
    of_groups = cluster.iam.node_role
    if of_groups is not None and of_groups.rpartition("/")[2] == parts.karpenter_node_role:
        problems.at("karpenter_node_role").add(
            f"{parts.karpenter_node_role!r}, the role of cluster.iam.node_role",
            "a role of its own: EKS deletes the access entry of a role with the last node group that has it, and "
            "Karpenter's nodes could no longer join",
            "write another role, or remove one of the two",
        )


def plan_parts(
    cluster: EksCluster, *, karpenter: bool, scaled: bool, efa: bool, dranet: bool
) -> tuple[PartPlan, ...]:
    """Return the controllers that the pools need; `efa`: the device plugin gives pods EFA, `dranet`: claims do."""
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
                alone="two would create and delete nodes for the same pods, and share the CRDs",
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
                alone="two would add and remove nodes of the same groups",
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
                alone="two would register the same resource with the kubelet",
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
                alone="two would publish the same interfaces",
            )
        )
    return tuple(found)


def explain_parts(cluster: EksCluster, parts: tuple[PartPlan, ...]) -> tuple[Decision, ...]:
    """Return the decisions about parts that the owner of the cluster has installed."""
    return tuple(
        Decision(
            subject=f"cluster {cluster.name}",
            what=part.title,
            chosen="present",
            why="the owner of the cluster installs and upgrades it; " + _needs(cluster, part),
        )
        for part in parts
        if not part.install
    )


def _needs(cluster: EksCluster, part: PartPlan) -> str:
    if part.name == "efa_plugin":
        return "it must run on nodes with the label vpc.amazonaws.com/efa.present and tolerate their taints"
    if part.name == "cluster_autoscaler":
        return (
            "it finds the node groups by the tags that EKS sets, and must discover them by "
            f"k8s.io/cluster-autoscaler/enabled and k8s.io/cluster-autoscaler/{cluster.name}"
        )
    if part.name == "dranet":
        return f"it must run on nodes with the label {names.EFA_DRIVER_LABEL} and tolerate their taints"
    role = cluster.parts.karpenter_node_role
    if role is not None:
        return f"nodes get the IAM role {role}, which needs an access entry"
    return "its IAM policy must allow iam:PassRole on the role of Karpenter's nodes that the program creates"

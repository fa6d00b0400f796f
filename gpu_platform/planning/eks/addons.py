"""EKS add-ons of a new cluster, each with the IAM role that it needs and no other.

Sources: EKS user guide, IAM roles for add-ons, EKS Pod Identity, node health; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_platform.catalog import Catalog
from gpu_platform.planning.eks.plan import Addon

_EVERYWHERE: Mapping[str, Any] = {"tolerations": [{"operator": "Exists"}]}


def addon_kubernetes(catalog: Catalog) -> tuple[str, ...]:
    """Return the Kubernetes minor versions for which every add-on is pinned, oldest first."""
    addons = catalog.eks_addons.values()
    known = {version for addon in addons for version in addon.versions}
    return tuple(sorted((one for one in known if all(one in addon.versions for addon in addons)), key=minor))


def minor(version: str) -> int:
    """Return the minor version as a number: 36 of 1.36."""
    return int(version.split(".")[1])


def plan_addons(kubernetes: str, partition: str, catalog: Catalog) -> tuple[Addon, ...]:
    """Return the add-ons of a cluster of a Kubernetes minor version, in the order in which they are made."""

    def pinned(name: str) -> str:
        return catalog.eks_addons[name].versions[kubernetes]

    def policy(name: str) -> tuple[str, ...]:
        return (managed_policy(partition, name),)

    return (
        # First: those after it get their credentials from it.
        Addon(
            name="eks-pod-identity-agent",
            version=pinned("eks-pod-identity-agent"),
            configuration={},
            before_nodes=True,
        ),
        Addon(
            name="vpc-cni",
            version=pinned("vpc-cni"),
            configuration={},
            before_nodes=True,
            service_account="aws-node",
            managed_policies=policy("AmazonEKS_CNI_Policy"),
        ),
        Addon(name="kube-proxy", version=pinned("kube-proxy"), configuration={}, before_nodes=True),
        Addon(name="coredns", version=pinned("coredns"), configuration={}, before_nodes=False),
        Addon(
            name="aws-ebs-csi-driver",
            version=pinned("aws-ebs-csi-driver"),
            configuration={},
            before_nodes=False,
            service_account="ebs-csi-controller-sa",
            # V2 touches only what the driver has tagged; the one scoped to a cluster refuses Karpenter's nodes.
            managed_policies=policy("AmazonEBSCSIDriverPolicyV2"),
        ),
        # Node repair acts on what this agent finds: GPUs, too.
        Addon(
            name="eks-node-monitoring-agent",
            version=pinned("eks-node-monitoring-agent"),
            configuration={"nodeAgent": _EVERYWHERE},
            before_nodes=False,
        ),
    )


def managed_policy(partition: str, name: str) -> str:
    """Return the ARN of a policy that AWS manages."""
    return f"arn:{partition}:iam::aws:policy/{name}"

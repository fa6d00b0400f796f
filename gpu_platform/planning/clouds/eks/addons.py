"""Plan the EKS add-ons of a new cluster, and an IAM role for each add-on that needs one.

Sources: EKS user guide, IAM roles for add-ons, EKS Pod Identity; read 2026-11-21. aws/amazon-vpc-cni-k8s, README
and docs/prefix-and-ip-target.md; read 2026-11-23; charts/aws-vpc-cni there (values.yaml,
templates/eniconfig.yaml), whose values are the add-on's configuration; EKS user guide, "Customize the secondary
network interface in Amazon EKS nodes"; read 2026-11-25.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.iam_policies import iam_statements
from gpu_platform.planning.clouds.eks.cluster_plan import Addon
from gpu_platform.planning.clouds.eks.node_monitoring import AGENT_CONFIGURATION, MONITORING_AGENT

# With prefix delegation, an interface uses prefixes of 16 addresses instead of single addresses.
# On p5.48xlarge the EFA-only interface uses one of the two interfaces of network card 0.
# With single addresses, a node would have only 49 of them for the 100 or more pods that the kubelet allows.
# EKS images do not support a lower `maxPods`.
_PREFIXES: Mapping[str, str] = {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"}

# A node takes its pod subnet from the ENIConfig that has the name of the node's zone.
# The add-on creates the ENIConfigs, so they exist before the first node.
_CUSTOM_NETWORKING: Mapping[str, str] = {
    "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "true",
    "ENI_CONFIG_LABEL_DEF": "topology.kubernetes.io/zone",
}


def plan_addons(
    kubernetes: str,
    partition: str,
    catalog: Catalog,
    *,
    volume_keys: Sequence[str] = (),
    company_tags: Mapping[str, str] | None = None,
    pod_subnets: bool = False,
) -> tuple[Addon, ...]:
    """Return the add-ons for a cluster with the Kubernetes minor version `kubernetes`, in the order of their
    creation.

    `volume_keys` are the ARNs of customer-managed keys for EBS volumes. `company_tags` are set on the volumes that
    add-ons create, and on the network interfaces that the VPC CNI adds to nodes. `pod_subnets` is true if pods
    have separate subnets.
    """

    def pinned(name: str) -> str:
        return catalog.eks_addons[name].versions[kubernetes]

    def policy(name: str) -> tuple[str, ...]:
        return (managed_policy(partition, name),)

    return (
        # This add-on is first, because later add-ons get their credentials from it.
        Addon(
            name="eks-pod-identity-agent",
            version=pinned("eks-pod-identity-agent"),
            configuration={},
            before_nodes=True,
        ),
        Addon(
            name="vpc-cni",
            version=pinned("vpc-cni"),
            # The VPC CNI enforces no network policies by default.
            # Source: EKS user guide, "Configure your cluster for Kubernetes network policies"; read 2026-11-25.
            # The value is a string, because the schema of the add-on requires a string.
            configuration={
                "enableNetworkPolicy": "true",
                "env": {**_cni_environment(company_tags or {}), **(_CUSTOM_NETWORKING if pod_subnets else {})},
            },
            before_nodes=True,
            takes_pod_subnets=pod_subnets,
            service_account="aws-node",
            managed_policies=policy("AmazonEKS_CNI_Policy"),
        ),
        Addon(name="kube-proxy", version=pinned("kube-proxy"), configuration={}, before_nodes=True),
        Addon(name="coredns", version=pinned("coredns"), configuration={}, before_nodes=False),
        Addon(
            name="aws-ebs-csi-driver",
            version=pinned("aws-ebs-csi-driver"),
            configuration={"controller": {"extraVolumeTags": dict(company_tags)}} if company_tags else {},
            before_nodes=False,
            service_account="ebs-csi-controller-sa",
            # Version V2 of the policy allows access only to volumes that the driver has tagged.
            # The cluster-scoped policy is not used, because it does not cover Karpenter's nodes.
            managed_policies=policy("AmazonEBSCSIDriverPolicyV2"),
            statements=iam_statements("volume-keys", {"keys": volume_keys}),
        ),
        # Node repair replaces nodes that this agent reports as broken.
        Addon(
            name=MONITORING_AGENT,
            version=pinned(MONITORING_AGENT),
            configuration=AGENT_CONFIGURATION,
            before_nodes=False,
        ),
    )


def _cni_environment(tags: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variables of the VPC CNI.

    Source: aws/amazon-vpc-cni-k8s, README, ADDITIONAL_ENI_TAGS.
    """
    return {**_PREFIXES, **({"ADDITIONAL_ENI_TAGS": json.dumps(tags, sort_keys=True)} if tags else {})}


def with_pod_subnets(configuration: Mapping[str, Any], region: str, subnets: Mapping[str, str]) -> dict[str, Any]:
    """Add the pod subnet of each zone to a configuration of the VPC CNI, and return the result.

    An ENIConfig without security groups gives pod interfaces the security groups of the node's primary interface.
    """
    by_zone = {zone: {"id": subnet} for zone, subnet in subnets.items()}
    return {**configuration, "eniConfig": {"create": True, "region": region, "subnets": by_zone}}


def managed_policy(partition: str, name: str) -> str:
    """Return the ARN of an AWS managed policy."""
    return f"arn:{partition}:iam::aws:policy/{name}"

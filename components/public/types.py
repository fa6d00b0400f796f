"""Types of nested component arguments that have no counterpart in the stack file, such as a program's cluster.

`stack_file_types` contains the other types. Plain dictionaries are accepted as well. The module does not import
`annotations` from `__future__`, because the SDK needs the evaluated annotations to build the package's schema.
"""

from collections.abc import Mapping, Sequence
from typing import Required, TypedDict

import pulumi

from components.public.stack_file_types import ClusterParts


class GpuNetwork(TypedDict):
    """GKE: the VPC and the subnetwork of one GPU NIC."""

    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]


class GpuCluster(TypedDict, total=False):
    """A cluster that exists, or that the same program creates. Pass the same dictionary to all components of a
    cluster.

    It is not the GPU Operator's `GPUCluster` object. An existing cluster of any kind needs `provider`, `name` and
    the fields below that apply to its provider.
    """

    provider: Required[str]
    """`eks`, `gke`, `aks`, `existing` or `sandbox`."""
    name: str
    """Name of the cluster. It cannot be an Output, because placement groups and tags contain it."""
    kubernetes: str
    """Minor version, such as "1.36". It is compared with the operator's support matrix."""
    production: bool
    """EKS, GKE and AKS: the value of `protect` if `protect` is unset. The default is `true`."""
    protect: bool
    """EKS, GKE and AKS: protect the pools from deletion. The default is the value of `production`."""
    region: str
    """EKS and AKS: region of the cluster."""
    account: str
    """EKS: AWS account. Credentials of any other account are refused."""
    project: str
    """GKE: project of the cluster."""
    location: str
    """GKE: region of the cluster, or zone of a zonal cluster."""
    subscription: str
    """AKS: ID of the Azure subscription."""
    resource_group: str
    """AKS: resource group of the cluster."""
    kubeconfig: pulumi.Input[str]
    """Path of a kubeconfig, or an Output with its content. If unset, the Kubernetes provider of the resource
    options or the default provider is used.
    """
    context: str
    """Context of the kubeconfig. If unset, its current context."""
    subnets: Mapping[str, pulumi.Input[str]]
    """EKS node pools: ids of the private subnets, by zone."""
    security_groups: Sequence[pulumi.Input[str]]
    """EKS node pools: ids of up to 3 security groups that nodes have in addition to the cluster security group."""
    cluster_security_group_id: pulumi.Input[str]
    """EKS node pools: id of the security group that EKS created for the cluster."""
    parts: ClusterParts
    """EKS: with `efa_plugin: present`, the operator's component does not install the EFA device plugin. AKS: with
    `network_operator: present`, it does not install the Network Operator.
    """
    efa_security_group_id: pulumi.Input[str]
    """EKS node pools with EFA: id of a security group that admits all traffic from and to itself."""
    node_role_arn: pulumi.Input[str]
    """EKS node pools: ARN of the IAM role of the nodes."""
    endpoint: pulumi.Input[str]
    """EKS node pools with a custom image: URL of the API server."""
    certificate_authority: pulumi.Input[str]
    """EKS node pools with a custom image: certificate authority of the API server, as base64-encoded PEM."""
    service_cidr: pulumi.Input[str]
    """EKS node pools with a custom image: IPv4 CIDR block of the cluster's Services."""
    id: pulumi.Input[str]
    """GKE node pools: full name of the cluster, projects/P/locations/L/clusters/C. AKS node pools: resource ID of
    the cluster. If unset, it is derived from the other fields.
    """
    subnet_id: pulumi.Input[str]
    """AKS node pools: resource ID of the nodes' subnet. Required if the subnet existed before the cluster."""
    node_service_account: pulumi.Input[str]
    """GKE node pools: e-mail of the nodes' service account."""
    gpu_networks: Sequence[GpuNetwork]
    """GKE node pools with additional networks for GPU NICs: the network and subnetwork of each NIC, in order."""


class NodeTaint(TypedDict):
    """A taint of the nodes of a pool."""

    key: str
    value: str
    effect: str

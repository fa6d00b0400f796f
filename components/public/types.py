"""Nested arguments of the public components that are no mapping of the stack file: a program's cluster.

The others are typed by `stack_file_types`. Plain dictionaries are accepted as well.

No `from __future__ import annotations`: the SDK makes the package's schema of the annotations as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Required, TypedDict

import pulumi

from components.public.stack_file_types import EksParts


class GpuNetwork(TypedDict):
    """GKE: the VPC and the subnetwork of one GPU NIC."""

    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]


class GpuCluster(TypedDict, total=False):
    """A cluster that exists, or that the same program creates. Give all components of a cluster the same one.

    It is not the object `GPUCluster` of the GPU Operator.

    Existing clusters of any kind: `provider`, `name`, and what the provider needs of the fields below.
    """

    provider: Required[str]
    """eks, gke, existing or sandbox."""
    name: str
    """Name of the cluster. Placement groups and tags carry it, so it cannot be an Output."""
    kubernetes: str
    """Minor version, such as "1.36". It is checked with the operator's support matrix."""
    production: bool
    """EKS and GKE: the default of `protect`. Unset: true."""
    protect: bool
    """EKS and GKE: protect the pools from deletion. Unset: as `production`."""
    region: str
    """EKS: AWS region."""
    account: str
    """EKS: AWS account. Credentials of any other account are refused."""
    project: str
    """GKE: project of the cluster."""
    location: str
    """GKE: region, or zone of a zonal cluster."""
    kubeconfig: pulumi.Input[str]
    """Path of a kubeconfig, or an Output with its content. Unset: the Kubernetes provider of the resource options,
    else the default one."""
    context: str
    """Context of the kubeconfig. Unset: its current one."""
    subnets: Mapping[str, pulumi.Input[str]]
    """EKS node pools: id of the private subnet by zone."""
    security_groups: Sequence[pulumi.Input[str]]
    """EKS node pools: ids of security groups that nodes have beside the cluster's own, at most 3."""
    cluster_security_group_id: pulumi.Input[str]
    """EKS node pools: id of the security group that EKS made for the cluster."""
    parts: EksParts
    """EKS: with `efa_plugin: present` the operator's component installs no EFA device plugin."""
    efa_security_group_id: pulumi.Input[str]
    """EKS node pools with EFA: id of a security group that admits all traffic from and to itself."""
    node_role_arn: pulumi.Input[str]
    """EKS node pools: ARN of the IAM role of the nodes."""
    endpoint: pulumi.Input[str]
    """EKS node pools with an image of your own: URL of the API server."""
    certificate_authority: pulumi.Input[str]
    """EKS node pools with an image of your own: certificate authority of the API server, base64 of the PEM."""
    service_cidr: pulumi.Input[str]
    """EKS node pools with an image of your own: IPv4 CIDR block of the cluster's Services."""
    id: pulumi.Input[str]
    """GKE node pools: full name of the cluster, projects/P/locations/L/clusters/C. Unset: made of the fields."""
    node_service_account: pulumi.Input[str]
    """GKE node pools: e-mail of the service account of the nodes."""
    gpu_networks: Sequence[GpuNetwork]
    """GKE node pools that join networks by their GPU NICs: network and subnetwork of each NIC, in order."""


class NodeTaint(TypedDict):
    """A taint that a pool's nodes have."""

    key: str
    value: str
    effect: str

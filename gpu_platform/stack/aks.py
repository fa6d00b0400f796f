"""Stack file field `cluster` for AKS: an existing cluster, or the settings of a new one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpu_platform.stack._types import (
    AwsTagKey,
    AwsTagValue,
    Cidr,
    KubernetesVersion,
    SpecModel,
    Zone,
    order_fix,
    wrong,
)
from gpu_platform.stack.azure_resources import (
    EXAMPLE_GUID,
    GUID,
    DiskEncryptionSetResource,
    KeyVersionResource,
    ObjectId,
    SubnetResource,
)
from gpu_platform.stack.declared import SetsProperties
from gpu_platform.stack.gpu_parts import GpuParts, Part
from gpu_platform.stack.patterns import worded


class AksNetwork(SpecModel):
    """An existing virtual network for an AKS cluster that the program creates. Its owner manages its routes."""

    subnet: Annotated[SubnetResource, SetsProperties(aks=("vnet_subnet_id",))]
    """Resource ID of the subnet of all nodes, in the cluster's region. Pods have addresses of `pods_cidr`."""
    outbound: Literal["load-balancer", "nat-gateway", "user-defined-routing"] = "load-balancer"
    """How nodes and pods reach the internet. AKS creates a load balancer for it. With the other values, the owner
    has connected the subnet to a NAT gateway, or has given it a route to a firewall.
    """


class AksSystemNodes(SpecModel):
    """Nodes without GPUs in a new AKS cluster, for AKS's own pods, the GPU Operator and other controllers."""

    machine_type: str | None = Field(default=None, examples=["Standard_D8ds_v5"])
    """Azure VM size. The default is the smallest Ddsv5 size with at least 4 vCPUs that can hold the controllers.
    """
    min: int = Field(default=3, ge=2, le=100)
    max: int = Field(default=3, ge=2, le=100)
    """Maximum number of nodes. AKS's autoscaler adds and deletes nodes between `min` and `max`. If both are equal,
    the number of nodes is fixed. Topology-aware queues require a fixed number.
    """
    zones: Annotated[tuple[Zone, ...], Field(max_length=3)] = ("1", "2", "3")
    """Availability zones of the nodes. Write `zones: []` in a region without availability zones."""
    disk_gb: int = Field(default=128, ge=30, le=2048)

    @model_validator(mode="after")
    def _ordered(self) -> AksSystemNodes:
        if self.min > self.max:
            raise wrong("min <= max", order_fix(self.min, self.max, None))
        return self


class CreateAks(SpecModel):
    """Settings of an AKS cluster that the program creates. The cluster has Azure CNI powered by Cilium with an
    overlay for pods, Entra ID logins, Workload Identity, and no local accounts.
    """

    resource_group: Literal["create", "existing"] = "create"
    """Whether the program creates the resource group of `cluster.resource_group`, or uses an existing one."""
    network: AksNetwork | None = None
    """An existing virtual network. If unset, the program creates one with a single subnet."""
    nodes_cidr: Cidr = "10.0.0.0/16"
    """CIDR block of the virtual network and its subnet, which cannot change later. Each node has one address."""
    pods_cidr: Annotated[Cidr, SetsProperties(aks=("pods_cidr",))] = "10.244.0.0/16"
    """CIDR block of pods. Each node uses a /24 block. Other networks never see these addresses, so several
    clusters can have the same block.
    """
    services_cidr: Annotated[Cidr, SetsProperties(aks=("services_cidr",))] = "10.1.0.0/16"
    """CIDR block of Services."""
    private: Annotated[bool, SetsProperties(aks=("private",))] = False
    """Give the API server only a private address, in the nodes' network. `up` must then run in a network that
    reaches it, and the first `up` needs an existing `network`.
    """
    api_access: Annotated[tuple[Cidr, ...], Field(max_length=200)] = ()
    """Public CIDR blocks that may reach the API server, such as the blocks of users, of CI and of the machine that
    runs `up`. Required unless `private` is set. A block wider than a /8 needs `api_from_anywhere`.
    """
    api_from_anywhere: bool = False
    """Allow `api_access: [0.0.0.0/0]` and other networks wider than a /8. Only Entra ID then protects the API
    server.
    """
    admins: Annotated[tuple[ObjectId, ...], Field(min_length=1, max_length=20)]
    """Object IDs of Entra ID groups whose members have cluster-admin rights. They must include the identity that
    runs `up`, because the cluster has no local accounts.
    """
    system: AksSystemNodes = AksSystemNodes()
    disk_encryption_set: Annotated[
        DiskEncryptionSetResource | None, SetsProperties(aks=("disk_encryption_set",))
    ] = None
    """Resource ID of a disk encryption set with a customer-managed key, in the cluster's region. It encrypts the
    disks of all nodes, and volumes of storage classes without `kms_key`. It cannot be changed later.
    """
    kms_key: KeyVersionResource | None = None
    """Resource ID of a version of a Key Vault key that encrypts the cluster's Secrets before they are stored. All
    networks must reach the vault. If unset, only Azure's default encryption at rest applies.
    """


class AksParts(GpuParts):
    """Components for AKS pools, in addition to the GPU software."""

    network_operator: Part = "install"
    """NVIDIA Network Operator, for pools with InfiniBand. With `present`, its NicClusterPolicy must advertise each
    InfiniBand NIC as rdma/ib, on nodes with the label gpu-platform.dev/infiniband.
    """


class AksCluster(SpecModel):
    """AKS cluster in the stack file: an existing cluster or, with `create`, a cluster that the program creates."""

    provider: Literal["aks"]
    name: Annotated[str, SetsProperties(aks=("cluster",))] = Field(
        pattern=worded(
            r"^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$",
            "the name of an AKS cluster: up to 63 letters, digits, _ and -, starting and ending with a letter or "
            "digit",
        ),
        examples=["ml-prod"],
    )
    subscription: Annotated[str, SetsProperties(aks=("subscription",))] = Field(
        pattern=worded(rf"^{GUID}$", "the ID of a subscription in lower case such as " + EXAMPLE_GUID),
        examples=[EXAMPLE_GUID],
    )
    """ID of the Azure subscription. The program refuses credentials that cannot use it."""
    resource_group: Annotated[str, SetsProperties(aks=("resource_group",))] = Field(
        pattern=worded(
            r"^[A-Za-z0-9_().-]{0,89}[A-Za-z0-9_()-]$",
            "the name of a resource group: up to 90 letters, digits and _ ( ) . -, not ending with a dot",
        ),
        examples=["ml-prod"],
    )
    """Resource group of the cluster. Nodes, disks and load balancers are in a second group, which AKS creates."""
    region: Annotated[str, SetsProperties(aks=("region",))] = Field(
        pattern=worded(r"^[a-z]{4,}\d?$", "an Azure region such as eastus2, without spaces"),
        examples=["eastus2"],
    )
    """Azure region of the cluster. It determines prices and quotas."""
    kubernetes: Annotated[KubernetesVersion | None, SetsProperties(aks=("orchestrator_version",))] = None
    """Minor version of Kubernetes. For an existing cluster, it is compared with the actual version. With `create`,
    it is required, and also the version of the nodes.
    """
    create: CreateAks | None = None
    production: bool = True
    """Whether the cluster is for production. `true` means the Standard tier, whose control plane has an SLA, and
    `false` the Free tier.
    """
    protect: bool | None = None
    """Refuse to delete or replace the cluster and its pools, and to destroy the stack. The default is the value of
    `production`. To remove the protection, first deploy `protect: false`, which changes nothing else.
    """
    tags: Annotated[dict[AwsTagKey, AwsTagValue], Field(max_length=40)] = {}
    """Company tags on the resources that the program creates, and on scale sets and disks of nodes."""
    parts: AksParts = AksParts()
    """Which components the program installs, and which an existing cluster already has."""

    @property
    def is_protected(self) -> bool:
        """Whether the engine refuses to delete the cluster and its pools."""
        return self.production if self.protect is None else self.protect

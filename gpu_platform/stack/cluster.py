"""Stack file fields `cluster` and `operator`: the Kubernetes cluster and its GPU Operator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.catalog.zones import GOOGLE_LOCATION
from gpu_platform.stack._instant import Instant
from gpu_platform.stack._types import (
    AwsTagKey,
    AwsTagValue,
    Cidr,
    DnsLabel,
    EksName,
    GcpLabelKey,
    GcpLabelValue,
    KubeconfigPath,
    KubernetesVersion,
    OperatorVersion,
    SpecModel,
    Zone,
)
from gpu_platform.stack.aks import AksCluster
from gpu_platform.stack.declared import SetsProperties
from gpu_platform.stack.eks_access import IamPrincipal, Login, Oidc
from gpu_platform.stack.eks_network import EksNetwork, Iam, RoleArn, SubnetId
from gpu_platform.stack.eks_system import SystemNodes
from gpu_platform.stack.gke_system import GkeSystemNodes
from gpu_platform.stack.gpu_parts import GpuParts
from gpu_platform.stack.keys import AwsKey, GoogleKey
from gpu_platform.stack.parts import EksParts
from gpu_platform.stack.patterns import SERVICE_ACCOUNT, worded

_PROJECT_ID = worded(
    r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$",
    "the id of a Google Cloud project: 6 to 30 characters of a-z, 0-9 and -, starting with a letter and not "
    "ending with a hyphen",
)
SecurityGroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-f]{8,17}$", examples=["sg-0a1b2c3d4e5f60718"])]


class SandboxCluster(SpecModel):
    """A real Kubernetes control plane on this machine with simulated GPU nodes."""

    provider: Literal["sandbox"]
    name: Annotated[DnsLabel, Field(max_length=42)] = "local"
    """Name of the sandbox. `gpu-platform up` starts it if it is not running."""
    kubernetes: KubernetesVersion | None = None
    """Minor version of the control plane. A running sandbox is upgraded in place, one minor version at a time. If
    unset, an existing sandbox keeps its version, and a new sandbox has the newest version.
    """


class ExistingCluster(SpecModel):
    """An existing cluster that is accessed with a kubeconfig."""

    provider: Literal["existing"]
    name: DnsLabel = "existing"
    kubeconfig: KubeconfigPath | None = None
    """Path of the kubeconfig. The default is `$KUBECONFIG`, or else `~/.kube/config`."""
    context: str | None = None
    """Context in the kubeconfig. The default is the current context."""
    kubernetes: KubernetesVersion | None = None
    """Minor version of Kubernetes, such as 1.36. If set, a preview compares it with the operator's support matrix.
    """
    parts: GpuParts = GpuParts()
    """Which components the program installs, and which the cluster already has."""
    network_policies: Literal["cilium"] | None = None
    """Component that enforces network policies with host names. Teams need such a component for `fqdn` in
    `egress`. `cilium` stands for Cilium with its DNS proxy. The proxy is enabled unless `l7Proxy` is turned off.
    If unset, `egress` may contain only addresses.
    """


class CreateEks(SpecModel):
    """Settings of an EKS cluster that the program creates, together with its VPC, private nodes, pinned add-ons
    and control-plane logs.
    """

    network: EksNetwork | None = None
    """An existing VPC. If unset, the program creates a VPC from `cidr`, `zones` and `nat`."""
    cidr: Annotated[Cidr, SetsProperties(eks=("vpc",), karpenter=("vpc",))] = "10.0.0.0/16"
    """CIDR block of the VPC, from /16 to /18, or down to /21 with `pods_cidr`. In each zone, the nodes use one
    eighth of the block.
    """
    pods_cidr: Cidr | None = None
    """Secondary CIDR block of the VPC for pods, a /16 to /18 within 100.64.0.0/10. Other networks of the company
    cannot reach it. If unset, pods receive addresses from the node subnets.
    """
    services_cidr: Annotated[Cidr | None, SetsProperties(eks=("services_cidr",), karpenter=("services_cidr",))] = (
        None
    )
    """CIDR block of Services, a private /12 to /24 outside the VPC. Pods cannot reach addresses of other networks
    in this block. If unset, EKS uses 10.100.0.0/16 or 172.20.0.0/16. The block cannot be changed later.
    """
    zones: Annotated[tuple[Zone, ...], Field(max_length=50)] = ()
    """Zones of the VPC in addition to the zones that pools name. If unset, the program adds zones only until the
    VPC has the two zones that EKS requires. Name every zone that a pool may ever use, because subnets of the
    control plane cannot be removed later.
    """
    nat: Literal["one", "per-zone"] | None = None
    """Number of NAT gateways. The default is one gateway per zone in production, and otherwise a single gateway.
    """
    api_access: Annotated[tuple[Cidr, ...], Field(max_length=100)] = ()
    """CIDR blocks that may reach the API server in addition to the cluster's nodes, such as the blocks of users,
    of CI and of the machine that runs `up`. Private blocks (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16,
    100.64.0.0/10) and blocks of the VPC reach the private endpoint through a rule of the cluster's security
    group. Other blocks reach the public endpoint. A block wider than a /8 needs `api_from_anywhere`.
    """
    api_from_anywhere: bool = False
    """Allow `api_access: [0.0.0.0/0]` and other networks wider than a /8. Only IAM then protects the API server.
    """
    admins: Annotated[tuple[IamPrincipal, ...], Field(min_length=1, max_length=100)]
    """IAM roles or users that have cluster-admin rights through an access entry. They must include the identity
    that runs `up`, or the role in `assume_role` if it is set.
    """
    system: SystemNodes = SystemNodes()
    scheduling: Literal["spread", "pack"] = "spread"
    """Which nodes kube-scheduler prefers. `spread` prefers free nodes. `pack` prefers nodes whose CPU, memory and
    GPUs are in use, so that whole nodes stay free.
    """
    support: Literal["standard", "extended"] = "standard"
    """What happens when standard support of the Kubernetes version ends. With `standard`, EKS upgrades the control
    plane automatically. With `extended`, EKS keeps the version for a year at six times the price.
    """
    logs_retention_days: Literal[7, 14, 30, 60, 90, 180, 365] = 90
    kms_key: AwsKey | None = None
    """Existing key for the cluster's Secrets. The key policy must allow IAM policies in the account to grant
    access to the key. If unset, the program creates a key. The key cannot be changed later: `up` refuses a
    different key.
    """


class EksCluster(SpecModel):
    """Amazon EKS cluster in the stack file: an existing cluster or, with `create`, a cluster that the program
    creates.
    """

    provider: Literal["eks"]
    name: Annotated[EksName, SetsProperties(eks=("cluster_name",), karpenter=("cluster_name",))]
    region: Annotated[str, SetsProperties(eks=("region",), karpenter=("region",))] = Field(
        pattern=worded(r"^[a-z]{2,}(-[a-z]+)+-\d$", "an AWS region such as us-east-2, not a zone"),
        examples=["us-east-2"],
    )
    account: str | None = Field(default=None, pattern=r"^\d{12}$", examples=["123456789012"])
    """AWS account. If set, the program refuses credentials of any other account."""
    kubernetes: Annotated[KubernetesVersion | None, SetsProperties(eks=("version",), karpenter=("version",))] = (
        None
    )
    """Minor version of Kubernetes. For an existing cluster, it is compared with the actual version. With `create`,
    the default is the newest version that is in standard support on EKS and supported by the operator.
    """
    create: CreateEks | None = None
    production: bool = True
    """Whether the cluster is for production. `true` means one NAT gateway per zone and two Karpenter replicas, and
    `destroy` keeps the control-plane logs and the key for the Secrets. `false` means one gateway and one replica,
    and `destroy` keeps nothing.
    """
    protect: bool | None = None
    """Refuse to delete or replace the cluster and its pools, and to destroy the stack. The default is the value of
    `production`. To remove the protection, first deploy `protect: false`, which changes nothing else.
    """
    subnets: Annotated[
        Annotated[dict[Zone, SubnetId], Field(min_length=1)] | None,
        SetsProperties(eks=("subnets",), karpenter=("subnets",)),
    ] = None
    """Private subnet of each zone, only without `create`. By default, the subnets with the tag
    kubernetes.io/role/internal-elb are used.
    """
    security_groups: Annotated[
        tuple[SecurityGroupId, ...],
        Field(max_length=3),
        SetsProperties(eks=("security_groups",), karpenter=("security_groups",)),
    ] = ()
    """Security groups of the nodes, in addition to the cluster security group. Can be set only if `create` is not
    set. A network interface can have at most five groups, including the cluster security group and the group for
    EFA. If the existing nodes have a different security group instead (terraform-aws-eks creates such a group),
    add that group to this list. Otherwise pods on new nodes cannot reach pods on existing nodes, including DNS.
    """
    logins: Annotated[tuple[Login, ...], Field(max_length=1000)] = ()
    """IAM roles and users of team members. They can log in without being admins. An existing cluster needs the
    authentication mode API or API_AND_CONFIG_MAP, and must not already have access entries for these roles and
    users.
    """
    parts: EksParts = EksParts()
    """Which controllers the program installs, and which an existing cluster already has."""
    oidc: Oidc | None = None
    """OpenID Connect provider of users and groups, in addition to IAM. EKS takes up to an hour to set it up."""
    assume_role: RoleArn | None = None
    """Role that `up` and the kubeconfig assume. It may belong to another account. If unset, the credentials are
    used directly.
    """
    iam: Iam = Iam()
    tags: Annotated[
        dict[AwsTagKey, AwsTagValue], Field(max_length=40), SetsProperties(eks=("tags",), karpenter=("tags",))
    ] = {}
    """Company tags on every resource that the program creates, on instances and their disks, and on EBS volumes
    and FSx file systems that are created for claims. Changing a tag rolls the nodes, because instances receive the
    tags from their launch template.
    """

    @property
    def is_protected(self) -> bool:
        """Whether the Pulumi engine refuses to delete the cluster and its pools."""
        return self.production if self.protect is None else self.protect

    @property
    def has_pod_subnets(self) -> bool:
        """Whether the pods of a new cluster have separate subnets."""
        create = self.create
        if create is None:
            return False
        return bool(create.network.pod_subnets if create.network is not None else create.pods_cidr)


class Exclusion(SpecModel):
    """A period in which GKE does not perform upgrades of the type that `scope` names."""

    name: DnsLabel
    start: Instant
    end: Instant
    scope: Literal["no-upgrades", "no-minor-upgrades", "no-minor-or-node-upgrades"] = "no-minor-or-node-upgrades"


class Maintenance(SpecModel):
    """Maintenance windows in which GKE may upgrade the cluster."""

    start: Instant = datetime(2026, 1, 3, 3, 0, tzinfo=UTC)
    """Start of the first window. If `recurrence` does not include this day, the first window opens at this time on
    the next day that `recurrence` includes.
    """
    hours: int = Field(default=6, ge=4, le=24)
    recurrence: str = Field(
        default="FREQ=WEEKLY;BYDAY=SA,SU",
        pattern=worded(r"^FREQ=(DAILY|WEEKLY).*$", "a recurrence that starts with FREQ=DAILY or FREQ=WEEKLY"),
        examples=["FREQ=WEEKLY;BYDAY=SA,SU"],
    )
    exclusions: Annotated[tuple[Exclusion, ...], Field(max_length=20)] = ()


SecurityGroup = Annotated[
    str,
    Field(
        pattern=r"^gke-security-groups@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$",
        examples=["gke-security-groups@example.com"],
    ),
]


class ExistingVpc(SpecModel):
    """An existing VPC of the same project or of another project (Shared VPC), for a GKE cluster that the program
    creates.
    """

    project: Annotated[str | None, SetsProperties(gke=("network",))] = Field(
        default=None, pattern=_PROJECT_ID, examples=["my-network-project"]
    )
    """Host project of a Shared VPC. The default is the cluster's project."""
    name: Annotated[DnsLabel, SetsProperties(gke=("network",))]
    subnetwork: Annotated[DnsLabel, SetsProperties(gke=("network",))]
    """Subnetwork of the nodes, in the region of the cluster. The nodes must reach the internet through a NAT."""
    pods_range: Annotated[DnsLabel, SetsProperties(gke=("network",))] = "pods"
    """Name of the secondary range for pods. Each node uses a /24 block of this range."""
    services_range: Annotated[DnsLabel, SetsProperties(gke=("network",))] = "services"
    """Name of the secondary range for Services."""


class CreateGke(SpecModel):
    """Settings of a GKE cluster that the program creates. The cluster is regional and has Dataplane V2, Workload
    Identity and private nodes.
    """

    network: ExistingVpc | None = None
    """An existing VPC. If unset, the program creates a VPC with a NAT."""
    nodes_cidr: Annotated[Cidr, SetsProperties(gke=("nodes_cidr",))] = "10.0.0.0/20"
    pods_cidr: Annotated[Cidr, SetsProperties(gke=("pods_cidr",))] = "10.16.0.0/12"
    services_cidr: Annotated[Cidr, SetsProperties(gke=("services_cidr",))] = "10.1.0.0/20"
    control_plane_cidr: Annotated[Cidr, SetsProperties(gke=("control_plane_cidr",))] = "172.16.0.0/28"
    api_access: Annotated[tuple[Cidr, ...], Field(max_length=100)] = ()
    """CIDR blocks that may reach the API server at its IP addresses. See also `dns_access`. A block wider than a
    /8 needs `api_from_anywhere`.
    """
    dns_access: bool = True
    """Whether clients in any network can reach the API server at its DNS endpoint, where IAM authorizes them. If
    `false`, only the networks in `api_access` can reach it, so `api_access` must not be empty.
    """
    api_from_anywhere: bool = False
    """Allow `api_access: [0.0.0.0/0]` and other networks wider than a /8."""
    private_apis: bool = False
    """Resolve `*.googleapis.com` in the VPC to the addresses of private.googleapis.com, for nodes and pods. Teams
    can then use `egress: [cloud-apis]`. In an existing VPC, the owner of the VPC sets this up.
    """
    authenticator_groups: SecurityGroup | None = None
    """Google group with the name gke-security-groups. Groups that are nested in this group can be members of
    teams. If unset, members that are groups cannot log in.
    """
    system: GkeSystemNodes = GkeSystemNodes()
    kms_key: GoogleKey | None = None
    """Existing key in the cluster's region that GKE uses to encrypt the cluster's Secrets before they are stored.
    If unset, only Google's default encryption at rest applies.
    """
    release_channel: Literal["rapid", "regular", "stable", "extended"] = "regular"
    maintenance: Maintenance = Maintenance()


class GkeCluster(SpecModel):
    """GKE cluster in the stack file: an existing cluster or, with `create`, a cluster that the program creates."""

    provider: Literal["gke"]
    name: Annotated[DnsLabel, SetsProperties(gke=("cluster",))]
    project: Annotated[str, SetsProperties(gke=("project",))] = Field(pattern=_PROJECT_ID, examples=["my-project"])
    location: Annotated[str, SetsProperties(gke=("location",))] = Field(
        pattern=GOOGLE_LOCATION, examples=["us-central1"]
    )
    """Region of the cluster, or the zone of an existing zonal cluster."""
    kubernetes: KubernetesVersion | None = None
    create: CreateGke | None = None
    node_service_account: Annotated[str | None, SetsProperties(gke=("service_account",))] = Field(
        default=None,
        pattern=r"^[^@\s]+@[a-z0-9.-]+\.gserviceaccount\.com$",
        examples=["gke-nodes@my-project.iam.gserviceaccount.com"],
    )
    """E-mail address of an existing service account for the nodes, if IAM is managed elsewhere. The program then
    creates no service account and does not change the project's IAM. The account needs
    roles/container.defaultNodeServiceAccount and roles/artifactregistry.reader. If unset, the program creates an
    account.
    """
    impersonate: str | None = Field(
        default=None,
        pattern=SERVICE_ACCOUNT,
        examples=["deployer@my-project.iam.gserviceaccount.com"],
    )
    """Service account that `up` and the kubeconfig impersonate. If unset, the credentials are used directly."""
    labels: Annotated[dict[GcpLabelKey, GcpLabelValue], Field(max_length=50)] = {}
    """Company labels on the cluster, its nodes and their disks."""
    parts: GpuParts = GpuParts()
    """Which components the program installs, and which an existing cluster already has."""
    fqdn_policies: bool = False
    """Whether network policies may contain host names. Teams need this for `fqdn` in `egress`. Google may charge
    for it. On an existing cluster, the feature must be enabled already.
    """
    gpu_networks_cidr: Annotated[Cidr, SetsProperties(gke=("gpu_network_ranges",))] = "192.168.0.0/16"
    """Range for the subnets of GPU networks, also on an existing cluster. Each GPU network uses a /20 block."""
    production: bool = True
    """Whether the cluster is for production. This field only sets the default of `protect`."""
    protect: bool | None = None
    """Refuse to delete or replace the cluster and its pools, and to destroy the stack. The default is the value of
    `production`. To remove the protection, first deploy `protect: false`, which changes nothing else.
    """

    @property
    def is_protected(self) -> bool:
        """Whether the Pulumi engine refuses to delete the cluster and its pools."""
        return self.production if self.protect is None else self.protect


Cluster = Annotated[
    SandboxCluster | ExistingCluster | EksCluster | GkeCluster | AksCluster, Field(discriminator="provider")
]


class Driver(SpecModel):
    """NVIDIA driver in the stack file: its version, and what installs it."""

    owner: Annotated[Literal["operator", "host"] | None, SetsProperties(aks=("gpu_profile",))] = None
    """What installs the driver. `operator` runs a driver container on every GPU node. With `host`, the node image
    contains the driver, or GKE or AKS installs it. The default is `host` if the pool's node image contains a
    driver, else `operator`.
    """
    version: str | None = Field(default=None, pattern=r"^\d{3}(\.\d+)*$", examples=["580.173.02"])
    """Driver version. By default, the operator release determines it. If the node image contains the driver or the
    platform installs it (GKE with Container-Optimized OS), the image or the platform determines the default. If
    the owner of the nodes installs their driver, `580` stands for any driver of that branch.
    """


class Operator(SpecModel):
    """NVIDIA GPU Operator in the stack file: its release, and what installs the driver and container toolkit."""

    release: OperatorVersion = "v26.7.0"
    driver: Driver = Driver()
    toolkit: Literal["operator", "host"] | None = None
    """What installs the NVIDIA Container Toolkit. `host` means that the node image contains it. The default is
    `host` if the pool's node image contains it, else `operator`.
    """
    compute_domains: bool | None = None
    """Install NVIDIA's DRA driver for ComputeDomains. Pods in a ComputeDomain can share GPU memory over NVLink
    across nodes. With `false`, the owner of the cluster installs it. By default, the program installs it if
    NVLink connects the nodes of a pool.
    """

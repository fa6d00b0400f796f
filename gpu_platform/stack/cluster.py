"""Stack file fields `cluster` and `operator`: the Kubernetes cluster and the GPU Operator installed on it."""

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
    OperatorVersion,
    SpecModel,
    Zone,
)
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
    "the id of a Google Cloud project: 6 to 30 of a-z, 0-9 and -, first a letter, last no hyphen",
)
SecurityGroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-f]{8,17}$", examples=["sg-0a1b2c3d4e5f60718"])]
KubernetesVersion = Annotated[str, Field(pattern=r"^1\.\d{2}$", examples=["1.36"])]


class SandboxCluster(SpecModel):
    """A real Kubernetes control plane on this machine with simulated GPU nodes."""

    provider: Literal["sandbox"]
    name: Annotated[DnsLabel, Field(max_length=42)] = "local"
    """Name of the sandbox; `gpu-platform up` starts it if it does not run."""
    kubernetes: KubernetesVersion | None = None
    """Minor version of its control plane; a newer one than it has upgrades it in place, by one at a time. Unset:
    the one that it has, of a new sandbox the newest."""


class ExistingCluster(SpecModel):
    """An existing cluster, reached by a kubeconfig."""

    provider: Literal["existing"]
    name: DnsLabel = "existing"
    kubeconfig: KubeconfigPath | None = None
    """Path of the kubeconfig; unset: `$KUBECONFIG`, else `~/.kube/config`."""
    context: str | None = None
    """Context of the kubeconfig; unset: its current one."""
    kubernetes: KubernetesVersion | None = None
    """Minor version, such as 1.36; when set, it is checked against the operator's support matrix at preview."""
    parts: GpuParts = GpuParts()
    """What the program installs, and what the cluster has already."""
    network_policies: Literal["cilium"] | None = None
    """What enforces the network policies, where it can name hosts, for `fqdn` in `egress` of teams: Cilium with
    its DNS proxy, which is on unless it was turned off (`l7Proxy`). Unset: addresses alone."""


class CreateEks(SpecModel):
    """Settings of an EKS cluster that the program creates, with its VPC, private nodes, pinned add-ons and
    control-plane logs."""

    network: EksNetwork | None = None
    """An existing VPC; unset: the program creates one with `cidr`, `zones` and `nat`."""
    cidr: Annotated[Cidr, SetsProperties(eks=("vpc",), karpenter=("vpc",))] = "10.0.0.0/16"
    """CIDR block of the VPC; /16 to /18, or to /21 with `pods_cidr`. Each zone has an eighth for its nodes."""
    pods_cidr: Cidr | None = None
    """Secondary CIDR block of the VPC for pods, a /16 to /18 of 100.64.0.0/10, which other networks of a company
    do not reach; unset: pods get addresses of the nodes' subnets."""
    zones: Annotated[tuple[Zone, ...], Field(max_length=50)] = ()
    """Zones of the VPC in addition to those that pools name; unset: as many as are needed for the two zones that
    EKS requires. Name every zone that a pool may ever use: subnets of the control plane cannot be removed
    later."""
    nat: Literal["one", "per-zone"] | None = None
    """NAT gateways; unset: one per zone in production, else one."""
    api_access: Annotated[tuple[Cidr, ...], Field(max_length=100)] = ()
    """CIDR blocks that may reach the API server in addition to the cluster's nodes: where `up` runs, users, CI.
    Private ones (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10), also those of the VPC, reach its
    address in the VPC by a rule of the cluster's security group, others its public address. None is wider than a
    /8 without `api_from_anywhere`."""
    api_from_anywhere: bool = False
    """Allow `api_access: [0.0.0.0/0]`, and any other network wider than a /8; IAM alone then guards the server."""
    admins: Annotated[tuple[IamPrincipal, ...], Field(min_length=1, max_length=100)]
    """IAM roles or users that get cluster-admin by an access entry; the identity that runs `up` must be one of
    them, so `assume_role`, if set."""
    system: SystemNodes = SystemNodes()
    scheduling: Literal["spread", "pack"] = "spread"
    """How kube-scheduler compares nodes: `spread` prefers free nodes, `pack` prefers nodes whose CPU, memory and
    GPUs are in use, so that whole nodes stay free."""
    support: Literal["standard", "extended"] = "standard"
    """What happens at the end of standard support of the Kubernetes version: EKS upgrades the control plane
    automatically, or keeps it for a year at six times the price."""
    logs_retention_days: Literal[7, 14, 30, 60, 90, 180, 365] = 90
    kms_key: AwsKey | None = None
    """Existing key for the Secrets of the cluster, whose policy lets IAM of the account grant its use; unset: the
    program creates one. It cannot be changed later: `up` refuses another."""


class EksCluster(SpecModel):
    """Amazon EKS cluster in the stack file: an existing one, or with `create` one that the program creates."""

    provider: Literal["eks"]
    name: Annotated[EksName, SetsProperties(eks=("cluster_name",), karpenter=("cluster_name",))]
    region: Annotated[str, SetsProperties(eks=("region",), karpenter=("region",))] = Field(
        pattern=worded(r"^[a-z]{2,}(-[a-z]+)+-\d$", "a region of AWS such as us-east-2, not a zone"),
        examples=["us-east-2"],
    )
    account: str | None = Field(default=None, pattern=r"^\d{12}$", examples=["123456789012"])
    """AWS account; when set, credentials of any other account are refused."""
    kubernetes: Annotated[KubernetesVersion | None, SetsProperties(eks=("version",), karpenter=("version",))] = (
        None
    )
    """Minor version. Of an existing cluster: compared with its actual version. Unset with `create`: the newest
    version that is in EKS standard support and that the operator supports."""
    create: CreateEks | None = None
    production: bool = True
    """Chooses the redundancy of the cluster: one NAT gateway per zone and two Karpenter replicas, and `destroy`
    keeps the control plane's logs and the key of the Secrets; false: one of each, and nothing is kept."""
    protect: bool | None = None
    """Refuse to delete or replace the cluster and its pools, and to destroy the stack; unset: as `production`. To
    lift it, deploy `protect: false` first: it changes nothing else."""
    subnets: Annotated[
        Annotated[dict[Zone, SubnetId], Field(min_length=1)] | None,
        SetsProperties(eks=("subnets",), karpenter=("subnets",)),
    ] = None
    """Without `create`: the private subnet of each zone; unset: looked up by the tag
    kubernetes.io/role/internal-elb."""
    security_groups: Annotated[
        tuple[SecurityGroupId, ...],
        Field(max_length=3),
        SetsProperties(eks=("security_groups",), karpenter=("security_groups",)),
    ] = ()
    """Without `create`: security groups of the nodes in addition to the cluster's own; a network interface has at
    most five, of which the cluster's and EFA's are two. If the existing nodes have a security group of their own
    instead (terraform-aws-eks creates one), name it here: otherwise pods of the new nodes cannot reach pods of the
    existing ones, DNS included."""
    logins: Annotated[tuple[Login, ...], Field(max_length=1000)] = ()
    """IAM roles and users that can log in without being admins: members of teams. An existing cluster needs
    authentication mode API or API_AND_CONFIG_MAP, and no access entry for the principal yet."""
    parts: EksParts = EksParts()
    """Which controllers the program installs, and which an existing cluster has already."""
    oidc: Oidc | None = None
    """OpenID Connect provider of users and groups, beside IAM; EKS takes up to an hour to set it up."""
    assume_role: RoleArn | None = None
    """Role that `up` and the kubeconfig assume, also of another account; unset: the credentials as they are."""
    iam: Iam = Iam()
    tags: Annotated[
        dict[AwsTagKey, AwsTagValue], Field(max_length=40), SetsProperties(eks=("tags",), karpenter=("tags",))
    ] = {}
    """Tags of the company on every resource that the program creates, on instances and their disks, and on EBS
    volumes and FSx file systems of claims. Another tag rolls the nodes: instances have the tags of their launch
    template."""

    @property
    def is_protected(self) -> bool:
        """Whether the engine refuses to delete the cluster and its pools."""
        return self.production if self.protect is None else self.protect

    @property
    def has_pod_subnets(self) -> bool:
        """Whether pods of a new cluster have subnets of their own."""
        create = self.create
        if create is None:
            return False
        return bool(create.network.pod_subnets if create.network is not None else create.pods_cidr)


class Exclusion(SpecModel):
    """A period in which GKE does no upgrades of the given scope."""

    name: DnsLabel
    start: Instant
    end: Instant
    scope: Literal["no-upgrades", "no-minor-upgrades", "no-minor-or-node-upgrades"] = "no-minor-or-node-upgrades"


class Maintenance(SpecModel):
    """Maintenance windows in which GKE may upgrade the cluster."""

    start: Instant = datetime(2026, 1, 3, 3, 0, tzinfo=UTC)
    """Start of the first window; of the first on a day of `recurrence` after it."""
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
    """An existing VPC, of this or of another project (Shared VPC), for a GKE cluster that the program creates."""

    project: Annotated[str | None, SetsProperties(gke=("network",))] = Field(
        default=None, pattern=_PROJECT_ID, examples=["my-network-project"]
    )
    """The host project of a Shared VPC; unset: the project of the cluster."""
    name: Annotated[DnsLabel, SetsProperties(gke=("network",))]
    subnetwork: Annotated[DnsLabel, SetsProperties(gke=("network",))]
    """Subnetwork of the nodes, in the region of the cluster; its nodes must reach the internet by a NAT."""
    pods_range: Annotated[DnsLabel, SetsProperties(gke=("network",))] = "pods"
    """Name of the secondary range of pods, a /24 for each node."""
    services_range: Annotated[DnsLabel, SetsProperties(gke=("network",))] = "services"
    """Name of the secondary range of services."""


class CreateGke(SpecModel):
    """Settings of a GKE cluster that the program creates: regional, dataplane v2, workload identity, private
    nodes."""

    network: ExistingVpc | None = None
    """Unset: the program creates a VPC, with NAT."""
    nodes_cidr: Annotated[Cidr, SetsProperties(gke=("nodes_cidr",))] = "10.0.0.0/20"
    pods_cidr: Annotated[Cidr, SetsProperties(gke=("pods_cidr",))] = "10.16.0.0/12"
    services_cidr: Annotated[Cidr, SetsProperties(gke=("services_cidr",))] = "10.1.0.0/20"
    control_plane_cidr: Annotated[Cidr, SetsProperties(gke=("control_plane_cidr",))] = "172.16.0.0/28"
    api_access: Annotated[tuple[Cidr, ...], Field(max_length=100)] = ()
    """CIDR blocks that may reach the API server by its IP addresses; see `dns_access`. None is wider than a /8
    without `api_from_anywhere`."""
    dns_access: bool = True
    """Whether clients reach the API server from any network by its DNS endpoint, with IAM. False: only the
    networks of `api_access` reach it, so that must name some."""
    api_from_anywhere: bool = False
    """Allow `api_access: [0.0.0.0/0]`, and any other network wider than a /8."""
    private_apis: bool = False
    """Resolve `*.googleapis.com` in the VPC to the addresses of private.googleapis.com, for nodes and pods, so
    that teams may have `egress: [cloud-apis]`. Of an existing VPC its owner decides that."""
    authenticator_groups: SecurityGroup | None = None
    """Google group of the name gke-security-groups, whose member groups teams can have as members. Unset: members
    of groups cannot log in."""
    system: GkeSystemNodes = GkeSystemNodes()
    kms_key: GoogleKey | None = None
    """Existing key of the cluster's region for its Secrets, which GKE then encrypts before they are stored. Unset:
    they are encrypted as all of Google's storage is."""
    release_channel: Literal["rapid", "regular", "stable", "extended"] = "regular"
    maintenance: Maintenance = Maintenance()


class GkeCluster(SpecModel):
    """GKE cluster in the stack file: an existing one, or with `create` one that the program creates."""

    provider: Literal["gke"]
    name: Annotated[DnsLabel, SetsProperties(gke=("cluster",))]
    project: Annotated[str, SetsProperties(gke=("project",))] = Field(pattern=_PROJECT_ID, examples=["my-project"])
    location: Annotated[str, SetsProperties(gke=("location",))] = Field(
        pattern=GOOGLE_LOCATION, examples=["us-central1"]
    )
    """Region, or the zone of an existing zonal cluster."""
    kubernetes: KubernetesVersion | None = None
    create: CreateGke | None = None
    node_service_account: Annotated[str | None, SetsProperties(gke=("service_account",))] = Field(
        default=None,
        pattern=r"^[^@\s]+@[a-z0-9.-]+\.gserviceaccount\.com$",
        examples=["gke-nodes@my-project.iam.gserviceaccount.com"],
    )
    """E-mail of an existing service account of the nodes, where IAM is managed elsewhere: the program then creates
    no account and changes no IAM of the project. It needs roles/container.defaultNodeServiceAccount and
    roles/artifactregistry.reader. Unset: the program creates one."""
    impersonate: str | None = Field(
        default=None,
        pattern=SERVICE_ACCOUNT,
        examples=["deployer@my-project.iam.gserviceaccount.com"],
    )
    """Service account that `up` and the kubeconfig impersonate; unset: the credentials as they are."""
    labels: Annotated[dict[GcpLabelKey, GcpLabelValue], Field(max_length=50)] = {}
    """Labels of the company on the cluster, its nodes and their disks."""
    parts: GpuParts = GpuParts()
    """What the program installs, and what an existing cluster has already."""
    fqdn_policies: bool = False
    """Whether network policies may name hosts, for `fqdn` in `egress` of teams. Google may charge for it. An
    existing cluster must have it switched on."""
    gpu_networks_cidr: Annotated[Cidr, SetsProperties(gke=("gpu_network_ranges",))] = "192.168.0.0/16"
    """Range of the subnets of GPU networks, a /20 for each network of a node; on an existing cluster too."""
    production: bool = True
    """The default of `protect`."""
    protect: bool | None = None
    """Refuse to delete or replace the cluster and its pools, and to destroy the stack; unset: as `production`. To
    lift it, deploy `protect: false` first: it changes nothing else."""

    @property
    def is_protected(self) -> bool:
        """Whether the engine refuses to delete the cluster and its pools."""
        return self.production if self.protect is None else self.protect


Cluster = Annotated[SandboxCluster | ExistingCluster | EksCluster | GkeCluster, Field(discriminator="provider")]


class Driver(SpecModel):
    """NVIDIA driver in the stack file: what installs it, and its version."""

    owner: Literal["operator", "host"] | None = None
    """`operator`: a driver container on every GPU node; `host`: the node image contains it, or GKE installs it.
    Unset: host if the pool's node image contains a driver, else operator."""
    version: str | None = Field(default=None, pattern=r"^\d{3}(\.\d+)*$", examples=["580.173.02"])
    """Driver version; unset: the default of the operator release, or of the node image where that has a driver or
    the platform's installer gets it (GKE with Container-Optimized OS). Where nodes have a driver of their owner,
    `580` stands for each driver of the branch."""


class Operator(SpecModel):
    """NVIDIA GPU Operator in the stack file: its release, and what installs driver and container toolkit."""

    release: OperatorVersion = "v26.7.0"
    driver: Driver = Driver()
    toolkit: Literal["operator", "host"] | None = None
    """What installs the NVIDIA container toolkit; `host`: the node image contains it. Unset: host if the pool's
    node image contains it, else operator."""
    compute_domains: bool | None = None
    """Install NVIDIA's DRA driver for ComputeDomains, by which pods on several nodes share GPU memory over NVLink;
    `false`: the owner of the cluster installs it. Unset: yes if NVLink connects the nodes of a pool."""

"""`cluster` and `operator`: where the platform runs and which GPU Operator runs on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.spec._instant import Instant
from gpu_platform.spec._types import Cidr, DnsLabel, KubeconfigPath, OperatorVersion, SpecModel, Zone
from gpu_platform.spec.declared import Shows

IamPrincipal = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:iam::\d{12}:(role|user)/\S+$", examples=["arn:aws:iam::123456789012:role/admin"]
    ),
]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$", examples=["subnet-0a1b2c3d4e5f60718"])]
SecurityGroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-f]{8,17}$", examples=["sg-0a1b2c3d4e5f60718"])]
KubernetesVersion = Annotated[str, Field(pattern=r"^1\.\d{2}$", examples=["1.36"])]


class SandboxCluster(SpecModel):
    """A real control plane on this machine with simulated GPU nodes."""

    provider: Literal["sandbox"]
    name: DnsLabel = "local"
    """The sandbox to use; `gpu-platform up` starts it when it does not run."""


class ExistingCluster(SpecModel):
    """A cluster that is already there, reached by a kubeconfig."""

    provider: Literal["existing"]
    name: DnsLabel = "existing"
    kubeconfig: KubeconfigPath | None = None
    """Path of the kubeconfig; unset: `$KUBECONFIG`, else `~/.kube/config`."""
    context: str | None = None
    """Context of the kubeconfig; unset: its current one."""
    kubernetes: KubernetesVersion | None = None
    """Minor version, such as 1.36; when set, it is held against the operator's matrix at preview."""


class CreateEks(SpecModel):
    """Make the EKS cluster: VPC over the zones of the pools, private nodes, pinned add-ons, control-plane logs."""

    cidr: Annotated[Cidr, Shows(eks=("vpc",), karpenter=("vpc",))] = "10.0.0.0/16"
    """Of the VPC; /16 to /18 leaves room for an address per pod."""
    zones: tuple[Zone, ...] = ()
    """Zones of the VPC beside those that pools name; unset: as many more as EKS asks for, which is two in all.
    Name every zone that a pool may ever be in: subnets with the control plane in them cannot go with a pool."""
    nat: Literal["one", "per-zone"] | None = None
    """NAT gateways; unset: one per zone in production, else one."""
    api_access: tuple[Cidr, ...] = ()
    """Who may reach the API server from outside the VPC; empty: nobody, so `up` must run inside it."""
    admins: Annotated[tuple[IamPrincipal, ...], Field(min_length=1)]
    """IAM roles or users that get cluster-admin by an access entry; whoever runs `up` must be among them."""
    logs_retention_days: Literal[7, 14, 30, 60, 90, 180, 365] = 90


class EksCluster(SpecModel):
    """An Amazon EKS cluster: one that is there, or with `create` one that the program makes."""

    provider: Literal["eks"]
    name: Annotated[DnsLabel, Shows(eks=("cluster_name",), karpenter=("cluster_name",))]
    region: Annotated[str, Shows(eks=("region",), karpenter=("region",))] = Field(
        pattern=r"^[a-z]{2,}(-[a-z]+)+-\d$", examples=["us-east-2"]
    )
    account: str | None = Field(default=None, pattern=r"^\d{12}$", examples=["123456789012"])
    """AWS account; when set, credentials of any other are refused."""
    kubernetes: Annotated[KubernetesVersion | None, Shows(eks=("version",))] = None
    """Minor version. Of a cluster that is there: held against what it turns out to be. Unset with `create`: the
    newest that EKS has in standard support and the operator supports."""
    create: CreateEks | None = None
    production: bool = True
    """Protects cluster and pools from deletion, and makes zones independent of each other."""
    subnets: Annotated[dict[Zone, SubnetId], Field(min_length=1)] | None = None
    """Without `create`: the private subnet of each zone; unset: looked up by the tag
    kubernetes.io/role/internal-elb."""
    security_groups: Annotated[
        tuple[SecurityGroupId, ...],
        Field(max_length=3),
        Shows(eks=("security_groups",), karpenter=("security_groups",)),
    ] = ()
    """Without `create`: groups that nodes carry beside the cluster's own. Where the nodes that are there carry
    one of their own instead, as those of terraform-aws-eks do, pods here reach nothing there without it, not even
    DNS."""


class Exclusion(SpecModel):
    """A time in which GKE upgrades nothing of that scope."""

    name: DnsLabel
    start: Instant
    end: Instant
    scope: Literal["no-upgrades", "no-minor-upgrades", "no-minor-or-node-upgrades"] = "no-minor-or-node-upgrades"


class Maintenance(SpecModel):
    """When GKE may upgrade."""

    start: Instant = datetime(2026, 1, 3, 3, 0, tzinfo=UTC)
    """Begin of the first window."""
    hours: int = Field(default=6, ge=4, le=24)
    recurrence: str = Field(default="FREQ=WEEKLY;BYDAY=SA,SU", pattern=r"^FREQ=(DAILY|WEEKLY).*$")
    exclusions: Annotated[tuple[Exclusion, ...], Field(max_length=20)] = ()


class CreateGke(SpecModel):
    """Make the GKE cluster: regional, dataplane v2, workload identity, private nodes."""

    nodes_cidr: Cidr = "10.0.0.0/20"
    pods_cidr: Annotated[Cidr, Shows(gke=("pods_cidr",))] = "10.16.0.0/12"
    services_cidr: Annotated[Cidr, Shows(gke=("services_cidr",))] = "10.1.0.0/20"
    control_plane_cidr: Annotated[Cidr, Shows(gke=("control_plane_cidr",))] = "172.16.0.0/28"
    api_access: tuple[Cidr, ...] = ()
    """Who may reach the API server by its addresses; it is reachable by DNS with IAM either way."""
    release_channel: Literal["rapid", "regular", "stable"] = "regular"
    maintenance: Maintenance = Maintenance()


class GkeCluster(SpecModel):
    """A Google Kubernetes Engine cluster: one that is there, or with `create` one that the program makes."""

    provider: Literal["gke"]
    name: Annotated[DnsLabel, Shows(gke=("cluster",))]
    project: Annotated[str, Shows(gke=("project",))] = Field(
        pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$", examples=["my-project"]
    )
    location: Annotated[str, Shows(gke=("location",))] = Field(
        pattern=r"^[a-z]+-[a-z]+\d+(-[a-z])?$", examples=["us-central1"]
    )
    """Region, or zone of a zonal cluster that is there."""
    kubernetes: KubernetesVersion | None = None
    create: CreateGke | None = None
    production: bool = True
    """Protects cluster and pools from deletion."""


Cluster = Annotated[SandboxCluster | ExistingCluster | EksCluster | GkeCluster, Field(discriminator="provider")]


class Driver(SpecModel):
    """Who installs the NVIDIA driver, and which."""

    owner: Literal["operator", "host"] | None = None
    """`operator`: a driver container on every GPU node; `host`: the node image, or GKE, brings it. Unset:
    operator, but host where the pool's image has a driver."""
    version: str | None = Field(default=None, pattern=r"^\d{3}(\.\d+)*$", examples=["580.173.02"])
    """Driver version; unset: the default of the operator release."""


class Operator(SpecModel):
    """The NVIDIA GPU Operator."""

    release: OperatorVersion = "v26.7.0"
    driver: Driver = Driver()
    toolkit: Literal["operator", "host"] | None = None
    """Who installs the NVIDIA container toolkit; `host`: the node image brings it. Unset: operator, but host where
    the pool's image has it."""

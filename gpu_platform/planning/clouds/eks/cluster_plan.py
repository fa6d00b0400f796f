"""Types for the plan of an EKS cluster with its network, IAM roles, add-ons, system nodes and Karpenter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.api_access import is_private
from gpu_platform.planning.clouds.eks.access import AccessPlan
from gpu_platform.planning.clouds.eks.images import PinnedImage
from gpu_platform.planning.clouds.eks.kubernetes import version_problem
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice
from gpu_platform.planning.clouds.eks.limits import (
    CLUSTER_TIMEOUTS,
    KARPENTER_LONGEST_GRACE,
    LEAST_ZONES,
    NODE_GROUP_TIMEOUTS,
    SYSTEM_AT_A_TIME,
    TERMINATION_SECONDS,
    addon_timeouts,
    node_group_timeouts,
    surge_of,
)
from gpu_platform.planning.clouds.eks.resource_names import role_name
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.section import (
    HelmChartPlan,
    Timeouts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSubnets:
    """The subnets of a new VPC in one zone. If `pods_cidr` is None, pods share the nodes' subnet."""

    zone: str
    private_cidr: str
    public_cidr: str
    pods_cidr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VpcPlan:
    """A new VPC with private nodes and a gateway endpoint for S3. All other traffic to the internet uses NAT.

    `no_control_plane` contains the ids of zones whose subnets the control plane must not use. Ids are used because
    the letters of zones differ between accounts. `pods_cidr` is a secondary range for pods.
    """

    cidr: str
    pods_cidr: str | None = None
    zones: tuple[ZoneSubnets, ...]
    nat: Literal["one", "per-zone"]
    no_control_plane: tuple[str, ...]

    @property
    def shown(self) -> str:
        """Text that identifies the VPC in a preview."""
        return self.cidr

    @property
    def zone_names(self) -> tuple[str, ...]:
        """Zones with a private subnet."""
        return tuple(zone.zone for zone in self.zones)

    @property
    def pod_networks(self) -> tuple[str, ...]:
        """CIDR block for pods in each zone, as text. Empty if pods use the nodes' subnets."""
        return tuple(f"{zone.pods_cidr} in {zone.zone}" for zone in self.zones if zone.pods_cidr is not None)

    @property
    def nat_zones(self) -> tuple[str, ...]:
        """Zones with a NAT gateway. If there is only one gateway, all zones share it."""
        zones = tuple(zone.zone for zone in self.zones)
        return zones if self.nat == "per-zone" else zones[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpcPlan:
    """An existing VPC for a new cluster, with the subnets of nodes and pods by zone, and the subnets of the
    control plane.
    """

    vpc: str
    subnets: Mapping[str, str]
    control_plane_subnets: tuple[str, ...]
    pod_subnets: Mapping[str, str]
    """Subnets for pods, by zone. If empty, pods take addresses from the nodes' subnets."""

    @property
    def shown(self) -> str:
        """Text that identifies the VPC in a preview."""
        return self.vpc

    @property
    def zone_names(self) -> tuple[str, ...]:
        """Zones with a private subnet.

        Local Zones are excluded, because only pools that name a Local Zone use it.
        """
        return tuple(sorted(zone for zone in self.subnets if not is_local_zone(zone)))

    @property
    def pod_networks(self) -> tuple[str, ...]:
        """Subnet for pods in each zone, as text. Empty if pods use the nodes' subnets."""
        return tuple(f"{subnet} in {zone}" for zone, subnet in sorted(self.pod_subnets.items()))

    @property
    def nat_zones(self) -> tuple[str, ...]:
        """Zones in which the program creates a NAT gateway. It creates none in an existing VPC."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IamPlan:
    """How IAM roles are created.

    `boundary` is the ARN of the permissions boundary. `node_role` is the ARN of an existing role for nodes.
    `cluster` is a pattern for the cluster's ARN, with `*` for the account if the stack file names no account.
    IAM roles are global, but names of clusters are unique only within a region.
    """

    cluster: str
    path: str
    boundary: str | None
    node_role: str | None

    @property
    def new_role(self) -> str:
        """Text that identifies a new role in a preview. It contains the path, because the path of a role cannot be
        changed.
        """
        return f"created in {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addon:
    """An EKS add-on. If it needs an IAM role, its service account gets the role through EKS Pod Identity."""

    name: str
    version: str
    configuration: Mapping[str, Any]
    before_nodes: bool
    """Whether nodes need the add-on to become ready. Other add-ons are Deployments, which need nodes."""
    takes_pod_subnets: bool = False
    """Whether the configuration contains the ids of the pod subnets. The ids of a new VPC's subnets are known only
    during deployment.
    """
    service_account: str | None = None
    managed_policies: tuple[str, ...] = ()
    """ARNs of the managed policies of the add-on's role."""
    statements: tuple[Mapping[str, Any], ...] = ()
    """IAM statements of the add-on's role, in addition to the managed policies."""
    own_association: bool = False
    """Whether the role is associated before the add-on exists.

    This is necessary if the add-on's pods read their credentials only when they start, and the add-on's
    documentation does not mention a role for EKS Pod Identity.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPool:
    """Nodes without GPUs, for pods that must run before any GPU node exists."""

    instance_types: tuple[str, ...]
    """Instance types in order of preference. EC2 uses the first type that has capacity."""
    ami_type: str
    release_version: str | None
    """Release of the image.

    If None, EKS uses the newest release when it creates the nodes and when Kubernetes is upgraded.
    """
    disk: BlockDevice
    metadata_hop_limit: int
    min_size: int
    desired_size: int
    max_size: int
    avoids_reservations: bool = False
    """Whether the nodes avoid open reservations, because a pool uses such a reservation."""

    @property
    def timeouts(self) -> Timeouts:
        """Timeouts of the node group."""
        return node_group_timeouts(self.max_size, SYSTEM_AT_A_TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterControllerPlan:
    """Karpenter's controller, with its charts, version, namespace and AWS resources."""

    cluster: str
    region: str
    iam: IamPlan
    chart: str
    crd_chart: str
    """Chart of the CRDs, from the same repository and with the same version as `chart`."""
    repository: str
    version: str
    namespace: str
    service_account: str
    values: Mapping[str, Any]
    queue: str
    """Name of the SQS queue for EC2 interruption notices."""
    disk_keys: tuple[str, ...]
    """ARNs of the KMS keys that encrypt the stack's volumes, or ARNs of aliases of these keys."""
    events: Mapping[str, Mapping[str, Any]]
    """EventBridge patterns of the events that are sent to the queue, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAutoscalerPlan:
    """The Helm release of the Cluster Autoscaler, and the IAM role of its service account."""

    cluster: str
    release: HelmChartPlan
    service_account: str
    role: str
    """Name of the role's Pulumi resource. The role's name has an additional suffix."""
    iam: IamPlan
    policy: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEksPlan:
    """The settings of a new cluster."""

    vpc: VpcPlan | ExistingVpcPlan
    services_cidr: str | None
    """CIDR block of Services, or None if EKS chooses it."""
    kms_key: str | None
    """ARN of an existing KMS key that encrypts the cluster's Secrets."""
    cluster_policies: tuple[str, ...]
    """ARNs of the managed policies of the cluster's IAM role."""
    api_access: tuple[str, ...]
    admins: tuple[str, ...]
    admin_policy: str
    """ARN of the access policy for admins."""
    support_type: Literal["STANDARD", "EXTENDED"]
    packed_resources: tuple[str, ...]
    """Resources that kube-scheduler considers when it packs pods onto nodes. If empty, kube-scheduler uses its
    default scoring.
    """
    logs: tuple[str, ...]
    log_group: str
    logs_retention_days: int
    retain_data: bool
    """Whether `destroy` keeps the control plane's logs and the KMS key that encrypts Secrets."""
    addons: tuple[Addon, ...]
    system_pool: SystemPool

    @property
    def private_networks(self) -> tuple[str, ...]:
        """Networks that may reach the API server at its address in the VPC, in addition to the cluster's nodes."""
        return tuple(network for network in self.api_access if is_private(network))

    @property
    def public_networks(self) -> tuple[str, ...]:
        """Networks that may reach the API server at its public address."""
        return tuple(network for network in self.api_access if not is_private(network))

    @property
    def extended_support(self) -> bool:
        """Whether the support type is `EXTENDED`."""
        return self.support_type == "EXTENDED"

    @property
    def system_leaves_zones(self) -> bool:
        """Whether there are fewer system nodes than zones, so that a zone may have no system node. No autoscaler
        adds a system node in such a zone.

        Source: Cluster Autoscaler, cloudprovider/aws/README.md, gotchas (persistent volumes); read 2026-11-29.
        """
        return self.system_pool.desired_size < len(self.vpc.zone_names)

    @property
    def upgrade_order(self) -> str | None:
        """Always None, because all EKS clusters are upgraded in the program's default order."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EksClusterPlan:
    """A new (`create`) or existing EKS cluster, and the settings that all its GPU pools share."""

    kind: Literal["eks"] = "eks"
    name: str
    region: str
    account: str | None
    kubernetes: str | None
    """Kubernetes minor version. For an existing cluster, this is the version that the stack file declares."""
    operator: str
    operator_kubernetes: tuple[str, str]
    """Lowest and highest minor version that the GPU Operator's release supports."""
    role_prefix: str
    """Prefix of IAM role names. IAM allows 64 characters, but EKS allows 100 in a cluster's name."""
    assume_role: str | None
    """ARN of the role that the provider and the kubeconfig assume."""
    iam: IamPlan
    create: CreateEksPlan | None
    subnets: Mapping[str, str]
    """For an existing cluster, the subnets that the stack file declares, by zone. Other subnets are looked up."""
    security_groups: tuple[str, ...]
    """For an existing cluster, the ids of the nodes' security groups, besides the cluster's own security group."""
    zones: tuple[str, ...]
    """All zones that pools name, sorted."""
    anywhere: bool
    """Whether a pool names no zone, and therefore uses the subnets of all zones."""
    efa: bool
    """Whether a pool has EFA, which needs the EFA security group and the EFA device plugin."""
    node_policies: tuple[str, ...]
    """ARNs of the managed policies for the nodes' IAM roles."""
    parts: tuple[PartPlan, ...]
    """Controllers that the pools need. Either the program installs them, or the cluster's owner has installed
    them.
    """
    karpenter_pools: bool
    karpenter_node_role: str | None
    """Name of an existing IAM role for Karpenter's nodes. If None, the program creates a role."""
    karpenter: KarpenterControllerPlan | None
    """Karpenter, if the program installs it."""
    efa_plugin: HelmChartPlan | None
    """EFA device plugin, if the program installs it."""
    cluster_autoscaler: ClusterAutoscalerPlan | None = None
    """Cluster Autoscaler, if the program installs it."""
    dranet: HelmChartPlan | None = None
    """EFA DRA driver, if the program installs it."""
    access: AccessPlan
    images: tuple[PinnedImage, ...] = ()
    """Image releases that the stack file specifies. They are checked against the version of an existing cluster.
    """
    identities: tuple[str, ...] = ()
    """Teams whose pods have an identity through EKS Pod Identity."""
    group_keys: tuple[str, ...] = ()
    """Customer-managed keys that encrypt the disks of node groups. EC2 Auto Scaling starts the nodes of these
    groups.
    """
    karpenter_keys: tuple[str, ...] = ()
    """Customer-managed keys that encrypt the disks of Karpenter's nodes."""
    other_keys: tuple[str, ...] = ()
    """Customer-managed keys that encrypt Secrets and volumes."""
    group_sizes: tuple[int, ...] = ()
    """Maximum number of nodes of each managed node group, including the group of system nodes."""
    most_nodes: int = 0
    """Maximum number of nodes of all pools and of the system nodes."""
    gpu_repair_pools: tuple[str, ...] = ()
    """Managed pools whose nodes EKS repairs if the node monitoring agent reports a broken GPU."""
    minimum_vpc_cni: str | None
    """Minimum VPC CNI version that the pools need on an existing cluster, or None if no minimum is known."""
    tags: Mapping[str, str]
    company_tags: Mapping[str, str]
    """Tags from the stack file, without the tags that the program adds."""
    protect: bool
    retained: tuple[str, ...]
    """Resources that `destroy` does not delete, as text for messages."""

    def role_name(self, suffix: str) -> str:
        """Return the name of an IAM role of the cluster, without the suffix that Pulumi appends."""
        return role_name(self.role_prefix, suffix)

    def kubernetes_problem(self, running: str) -> Problem | None:
        """Return why `up` cannot upgrade or roll back the control plane from minor version `running` to the
        planned version.
        """
        if self.create is None or self.kubernetes is None:
            return None
        return version_problem(running, self.kubernetes)

    @property
    def first_up_problem(self) -> Problem | None:
        """Why an `up` that creates the cluster would fail, or None.

        A client outside a new VPC cannot reach a private API server.
        """
        if self.create is None or self.create.public_networks:
            return None
        networks = ", ".join(self.create.api_access) or "nothing"
        if not isinstance(self.create.vpc, ExistingVpcPlan):
            return Problem(
                "cluster.create.api_access",
                f"{networks}, and the VPC does not exist yet",
                "the public network of the machine that runs the first `up`, which creates the VPC and then "
                "objects in the cluster",
                "name this network, and replace it once `up` runs in a network that reaches the VPC; "
                "nothing was changed",
            )
        if self.create.private_networks:
            return None
        return Problem(
            "cluster.create.api_access",
            networks,
            "the network of the machine that runs `up`, even if it is in the VPC, because the cluster's "
            "security group admits only the cluster's nodes and pods",
            "name this network, such as api_access: [10.0.0.0/16]; nothing was changed",
        )

    @property
    def known_subnets(self) -> Mapping[str, str]:
        """Node subnets that the stack file names, by zone. Other subnets are created or looked up."""
        vpc = self.create.vpc if self.create is not None else None
        return vpc.subnets if isinstance(vpc, ExistingVpcPlan) else self.subnets

    @property
    def known_zones(self) -> tuple[str, ...]:
        """Zones that pools use if they name no zone, or an empty tuple if the stack file does not determine all of
        them.
        """
        zones = self.create.vpc.zone_names if self.create is not None else self.subnets
        return tuple(zone for zone in zones if not is_local_zone(zone))

    @property
    def common_subnets(self) -> tuple[str, ...]:
        """Declared subnets of an existing cluster for pools that name no zone.

        Subnets in Local Zones are excluded.
        """
        return tuple(subnet for zone, subnet in self.subnets.items() if not is_local_zone(zone))

    @property
    def system_surge(self) -> int:
        """Number of system nodes that EKS adds during a rolling update, which replaces one node at a time."""
        return surge_of(self.zone_count, 1) if self.create is not None else 0

    @property
    def releases(self) -> Mapping[str, Mapping[str, Any]]:
        """Helm values by chart, for Karpenter and the Cluster Autoscaler if the program installs them."""
        found = {self.karpenter.chart: self.karpenter.values} if self.karpenter is not None else {}
        if self.cluster_autoscaler is not None:
            found[self.cluster_autoscaler.release.chart] = self.cluster_autoscaler.release.values
        return found

    @property
    def zone_count(self) -> int:
        """Number of zones that a node group uses if it names no zone.

        For an existing cluster, this counts the zones that the stack file names.
        """
        if self.create is not None:
            return len(self.create.vpc.zone_names)
        return max(LEAST_ZONES, len({*self.zones, *self.subnets}))

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms that create the nodes of the cluster's pools."""
        return ("eks", "karpenter")

    @property
    def timeouts(self) -> Timeouts:
        """Timeouts for the cluster itself."""
        return CLUSTER_TIMEOUTS

    @property
    def addon_timeouts(self) -> Timeouts:
        """Timeouts for an EKS add-on."""
        return addon_timeouts(self.most_nodes)

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        """Timeouts for a pool, by platform."""
        of_karpenter = Timeouts(delete=KARPENTER_LONGEST_GRACE + TERMINATION_SECONDS)
        return {"eks": NODE_GROUP_TIMEOUTS, "karpenter": of_karpenter}

"""Settings of an EKS cluster, such as its network, replicas and access, and the resources that `destroy` keeps. A
preview reports changes to these settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.planning.clouds.cluster_setting import api_access
from gpu_platform.planning.clouds.eks.access import LoginPlan, OidcPlan
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan, SystemPool
from gpu_platform.planning.clouds.eks.images import rolled_image
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.clouds.section import NOT_SET, CloudCluster, ClusterSetting

_REPLICAS = "replicas"  # a Helm value of Karpenter's chart
_MOVES = "all pods of add-ons and controllers move to new nodes, including Karpenter and the GPU Operator"
_ONE_BY_ONE = f"EKS replaces the system nodes one by one; {_MOVES}"
_NEW_GROUP = f"a new group is created, then the old group is deleted; {_MOVES}"


def cluster_settings(cluster: CloudCluster) -> tuple[ClusterSetting, ...]:
    """Return the settings of a cluster that a preview compares with the last deployment."""
    assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - the plan is of this cloud
    return (
        *_of_subnets(cluster),
        *_of_karpenter(cluster),
        *_of_access(cluster),
        *(_of_create(cluster, cluster.create) if cluster.create is not None else ()),
    )


def _of_karpenter(cluster: EksClusterPlan) -> Iterator[ClusterSetting]:
    yield ClusterSetting(
        name="installs",
        what="installed controllers",
        field="cluster.parts",
        values=tuple(part.title for part in cluster.parts if part.install),
        loss="removes-capacity",
        on_loss="{lost} is uninstalled; if Karpenter is uninstalled, its CRDs are deleted, and with them all "
        "NodePools and their nodes; without the Cluster Autoscaler, managed pools keep their current nodes",
    )
    if cluster.karpenter is None:
        return
    yield ClusterSetting(
        name="karpenter_replicas",
        what="Karpenter replicas",
        field="cluster.production",
        values=int(cluster.karpenter.values[_REPLICAS]),
        loss="removes-capacity",
        on_loss="while the only replica restarts, Karpenter creates no nodes for pending pods",
        on_gain="a second replica takes over when the first fails",
    )


def _of_access(cluster: EksClusterPlan) -> Iterator[ClusterSetting]:
    yield ClusterSetting(
        name="logins",
        what="logins",
        field="cluster.logins",
        values=tuple(_login_text(one) for one in cluster.access.logins),
        loss="cuts-access",
        on_loss="these logins no longer work with the listed groups: {lost}",
    )
    oidc = cluster.access.oidc
    yield ClusterSetting(
        name="oidc",
        what="OIDC provider",
        field="cluster.oidc",
        values=() if oidc is None else (_oidc_text(oidc),),
        loss="cuts-access",
        on_loss="the provider is deleted: tokens of {lost} are no longer accepted, and members of teams in the "
        "stack file must have the user and group names of the new provider",
        on_gain="EKS takes up to an hour to accept the tokens",
    )


def _login_text(login: LoginPlan) -> str:
    name = "" if login.username is None else f"{login.username}, "
    return f"{login.principal} as {name}{', '.join(login.groups)}"


def _oidc_text(oidc: OidcPlan) -> str:
    """Describe an OIDC provider by the fields that EKS cannot change. If one of them changes, the provider is
    replaced.
    """
    parts = {
        "users by claim": oidc.username_claim,
        "with prefix": oidc.username_prefix,
        "groups by claim": oidc.groups_claim,
        "with prefix of groups": oidc.groups_prefix,
    }
    return ", ".join(
        [f"{oidc.issuer} for {oidc.client_id}", *(f"{what} {value}" for what, value in parts.items() if value)]
    )


def _zones(cluster: EksClusterPlan, create: CreateEksPlan) -> ClusterSetting:
    """Return the setting for the zones of a new VPC.

    No zone may be removed, because the control plane and node groups keep their subnets.
    """
    return ClusterSetting(
        # A cluster with another name, region or network has a different VPC.
        name=f"zones of {cluster.name} in {cluster.region}, {create.vpc.shown}",
        what="zones of the VPC",
        field="cluster.create.zones",
        values=create.vpc.zone_names,
        loss="removes-capacity",
        on_loss="the subnet of {lost} must stay, because the control plane, system nodes and pools without "
        "zones keep their subnets: nodes in it would lose internet access, and EC2 refuses to delete it",
        on_gain=_staying(cluster),
        kept=True,
    )


def _of_subnets(cluster: EksClusterPlan) -> Iterator[ClusterSetting]:
    """Yield the setting for the declared subnets of nodes.

    Node groups of pools without zones stay in the subnets where they were created (`ignore_changes` of
    components).
    """
    subnets = [f"{zone}={one}" for zone, one in sorted(cluster.known_subnets.items()) if not is_local_zone(zone)]
    create = cluster.create
    if not subnets or (create is None and not cluster.anywhere):
        return
    stay = _staying(cluster)
    yield ClusterSetting(
        # If the VPC or the cluster changes, all nodes are new, so the subnets are not compared.
        name=f"subnets of {cluster.name}" + (f" in {create.vpc.shown}" if create is not None else ""),
        what="subnets of nodes",
        field="cluster.create.network.subnets" if create is not None else "cluster.subnets",
        values=tuple(subnets),
        loss="in-place",
        on_loss=f"{stay}; {{lost}} must stay while nodes are in it",
        on_gain=stay,
    )


def _staying(cluster: EksClusterPlan) -> str:
    who = "managed pools without zones" + (" and the system nodes" if cluster.create is not None else "")
    return (
        f"existing {who} stay in the subnets where they were created, until another change replaces them; to "
        "move a pool, write its zones, which replaces the pool; Karpenter pools use the new subnets"
    )


def _of_create(cluster: EksClusterPlan, create: CreateEksPlan) -> Iterator[ClusterSetting]:
    if not cluster.known_subnets:
        yield _zones(cluster, create)
    yield ClusterSetting(
        name="nat_gateways",
        what="NAT gateways",
        field="cluster.production or create.nat",
        values=create.vpc.nat_zones,
        loss="removes-capacity",
        on_loss="the NAT gateway of {lost} and its public address are deleted: connections through it to the "
        "internet end, and allow lists with the address no longer match",
        on_gain="connections to the internet from a zone with a new NAT gateway are interrupted once, then "
        "come from its "
        "new public address",
    )
    later = "running nodes keep the addresses of their pods, and only new nodes use the new subnets"
    yield ClusterSetting(
        name="pod_subnets",
        what="subnets of pods",
        field="cluster.create.network.pod_subnets or create.pods_cidr",
        values=create.vpc.pod_networks,
        loss="in-place",
        on_loss=f"{later}; AWS does not delete a subnet while pods have addresses in it, so replace the nodes "
        "first",
        on_gain=later,
    )
    yield from _of_system(create.system_pool, cluster.kubernetes or NOT_SET)
    rolled = _rolled(create.system_pool)
    yield ClusterSetting(
        name="system_version",
        what="Kubernetes version of the system nodes",
        field="cluster.kubernetes",
        values=(cluster.kubernetes or NOT_SET,),
        loss="rolls-nodes",
        on_loss=f"the system nodes are upgraded with the cluster: {rolled}",
    )
    tagged = f"tags are in the launch template of the system nodes: {rolled}"
    yield ClusterSetting(
        name="system_tags",
        what="tags of the system nodes",
        field="cluster.tags",
        values=tuple(f"{key}={value}" for key, value in sorted(cluster.company_tags.items())),
        loss="rolls-nodes",
        on_loss=tagged,
        gain="rolls-nodes",
        on_gain=tagged,
    )
    role = cluster.iam.node_role or cluster.iam.new_role
    replaced = f"a node group, including the group of system nodes, keeps the role of its nodes, so {_NEW_GROUP}"
    yield ClusterSetting(
        name="node_role",
        what="IAM role of the nodes",
        field="cluster.iam.node_role or path",
        values=(role,),
        loss="rolls-nodes",
        on_loss=replaced,
    )
    yield ClusterSetting(
        name="secrets_key",
        what="existing key of the Secrets",
        field="cluster.create.kms_key",
        values=() if create.kms_key is None else (create.kms_key,),
        loss="cuts-access",
        on_loss="a cluster keeps the key of its Secrets, and the Secrets cannot be read without this key",
        fixed=True,
    )
    yield api_access(create.api_access)
    yield ClusterSetting(
        name="admins",
        what="admins",
        field="cluster.create.admins",
        values=create.admins,
        loss="cuts-access",
        on_loss="{lost} is no longer cluster-admin",
    )
    yield ClusterSetting(
        name="support",
        what="support",
        field="cluster.create.support",
        values=(create.support_type.lower(),),
        loss="in-place",
        on_loss="at the end of standard support, EKS either upgrades the control plane automatically, or keeps "
        "its version at a higher price; EKS refuses `standard` once extended support has begun",
    )
    yield ClusterSetting(
        name="kept_by_destroy",
        what="kept by `destroy`",
        field="cluster.production",
        values=(
            f"log group {create.log_group}",
            *((f"KMS key of the secrets of {cluster.name}",) if create.kms_key is None else ()),
        )
        if create.retain_data
        else (),
        loss="in-place",
        on_loss="`destroy` will delete {lost}",
        on_gain="`destroy` will keep these resources",
    )


def _of_system(pool: SystemPool, kubernetes: str) -> Iterator[ClusterSetting]:
    yield ClusterSetting(
        name="system_nodes",
        what="system nodes",
        field="cluster.create.system.desired",
        values=pool.desired_size,
        loss="removes-capacity",
        on_loss="{lost} of the nodes for add-ons and controllers are deleted, and their pods move",
        resizes=True,
    )
    yield ClusterSetting(
        name="system_range",
        what="minimum and maximum number of system nodes",
        field="cluster.create.system.min or max",
        values=(f"{pool.min_size} to {pool.max_size}",),
        loss="in-place",
        on_loss="EKS sets the number of system nodes to desired, whatever an autoscaler has set",
        resizes=True,
    )
    replaced = f"a node group keeps its instance types, so {_NEW_GROUP}"
    yield ClusterSetting(
        name="system_machine_types",
        what="machine types of the system nodes",
        field="cluster.create.system.machine_types",
        values=pool.instance_types,
        loss="rolls-nodes",
        on_loss=replaced,
        gain="rolls-nodes",
        on_gain=replaced,
    )
    key = f", key {pool.disk.kms_key}" if pool.disk.kms_key is not None else ""
    outside = ", outside open reservations" if pool.avoids_reservations else ""
    yield ClusterSetting(
        name="system_disk",
        what="disk and reservations of the system nodes",
        field="cluster.create.system.disk_gb or kms_key, or the reservation of a pool",
        values=(f"{pool.disk.size_gib} GiB{key}{outside}",),
        loss="rolls-nodes",
        on_loss=_rolled(pool),
    )
    pinned = pool.release_version is not None
    yield ClusterSetting(
        # A change to the Kubernetes version rolls the nodes anyway.
        name=f"system_image of Kubernetes {kubernetes}",
        what="image release of the system nodes",
        field="cluster.create.system.release",
        values=(pool.release_version,) if pool.release_version is not None else (),
        # The AWS provider changes nothing if `release` is removed from the stack file (see `rolled_image`).
        loss="rolls-nodes" if pinned else "in-place",
        on_loss=_ONE_BY_ONE
        if pinned
        else "no node is replaced now; the next rolling update uses the newest EKS image",
        gain="rolls-nodes",
        on_gain=_ONE_BY_ONE,
    )


def _rolled(pool: SystemPool) -> str:
    image = rolled_image("create.system.release", pool.release_version)
    return f"{_ONE_BY_ONE}; if create.system.release stays unchanged, {image}"

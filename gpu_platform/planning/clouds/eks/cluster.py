"""Check and plan the EKS cluster of a stack, which can be an existing or a new cluster.

Sources: EKS user guide (VPC requirements, node IAM role, access entries, cluster upgrade policy, control-plane
logs); terraform-aws-eks 21; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, OperatorRelease
from gpu_platform.planning.clouds.api_access import PRIVATE_RANGES, check_api_access, is_private, wide_networks
from gpu_platform.planning.clouds.eks.addons import managed_policy, plan_addons
from gpu_platform.planning.clouds.eks.arns import (
    check_account,
    check_assumable,
    check_key,
    check_principal,
    check_region_supported,
    partition_of,
)
from gpu_platform.planning.clouds.eks.cluster_autoscaler_release import cluster_autoscaler
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan, ExistingVpcPlan, VpcPlan
from gpu_platform.planning.clouds.eks.compute_class import group_priorities
from gpu_platform.planning.clouds.eks.efa import dranet, efa_device_plugin
from gpu_platform.planning.clouds.eks.images import PinnedImage
from gpu_platform.planning.clouds.eks.karpenter_controller import disk_keys, karpenter_controller
from gpu_platform.planning.clouds.eks.kubernetes import addon_kubernetes, explain_support, planned_kubernetes
from gpu_platform.planning.clouds.eks.logins import check_logins, plan_access
from gpu_platform.planning.clouds.eks.node_monitoring import why_unread
from gpu_platform.planning.clouds.eks.parts import check_parts, explain_parts, plan_parts
from gpu_platform.planning.clouds.eks.placement import zones_of
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.prerequisites import group_quotas
from gpu_platform.planning.clouds.eks.services import check_services_cidr, services_decisions
from gpu_platform.planning.clouds.eks.system_pool import check_system_pool, plan_system_pool
from gpu_platform.planning.clouds.eks.tags import check_alike, check_tags, check_volume_tags
from gpu_platform.planning.clouds.eks.vpc import (
    NARROWEST_OF_NODES,
    PREFIXES,
    check_existing_vpc,
    check_pods_cidr,
    check_subnet_ids,
    plan_existing_vpc,
    plan_iam,
    plan_vpc,
)
from gpu_platform.planning.clouds.eks.zones import ZONE_LETTERS, is_local_zone, region_of_zone
from gpu_platform.planning.clouds.leftovers import LEFTOVERS
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateEks, EksCluster, Operator
from gpu_platform.stack.eks_network import EksNetwork
from gpu_platform.stack.pool import Pool

MOST_PUBLIC_NETWORKS = 40
MOST_PRIVATE_NETWORKS = 50
CONTROL_PLANE_LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
ROLE_PREFIX = 35  # IAM allows 64 characters, including suffixes and the characters that Pulumi appends


def check_eks_cluster(
    cluster: EksCluster, pools: Sequence[Pool], operator: Operator | None, catalog: Catalog, problems: Problems
) -> None:
    """Record problems with a cluster and the way its pools use it. `problems` points at `cluster`."""
    check_region_supported(cluster.region, problems.at("region"))
    check_tags(cluster.tags, problems.at("tags"))
    check_alike(cluster.tags, problems.at("tags"))
    check_logins(cluster, problems)
    check_account(cluster.assume_role, cluster, problems.at("assume_role"))
    has_it = "remove assume_role: people who log in through IAM Identity Center already have the role"
    check_assumable(cluster.assume_role, problems.at("assume_role"), has_it)
    check_assumable(cluster.iam.node_role, problems.at("iam").at("node_role"))
    for field in ("permissions_boundary", "node_role"):
        check_account(getattr(cluster.iam, field), cluster, problems.at("iam").at(field))
    check_parts(cluster, problems.at("parts"))
    if cluster.create is not None:
        check_volume_tags(cluster.tags, problems.at("tags"))
        _check_create(cluster, cluster.create, problems)
        zones = [*cluster.create.zones, *(zone for pool in pools for zone in zones_of(pool))]
        _check_local_zones(zones, cluster.create.network, problems)
        if cluster.create.network is not None:
            by_pool = {pool.name: zones_of(pool) for pool in pools}
            check_existing_vpc(cluster, cluster.create.network, by_pool, problems.at("create"))
        _check_kubernetes(cluster, operator, catalog, problems.at("kubernetes"))
    elif cluster.subnets is not None:
        _check_subnets(cluster, pools, problems.at("subnets"))


def _check_zone(zone: str, found: str, cluster: EksCluster, problems: Problems) -> None:
    if region_of_zone(zone) != cluster.region or zone[-1] not in ZONE_LETTERS:
        problems.add(
            found,
            f"zones of {cluster.region}: {cluster.region}{ZONE_LETTERS[0]} and so on",
            "change the zone, or the cluster's region",
        )


def _check_local_zones(zones: Iterable[str], network: EksNetwork | None, problems: Problems) -> None:
    """Record a problem for Local Zones of a new cluster if the control plane would use their subnets.

    Source: EKS user guide, Launch low-latency EKS clusters with AWS Local Zones; read 2026-11-23.
    """
    local = sorted(zone for zone in set(zones) if is_local_zone(zone))
    if not local or (network is not None and network.control_plane_subnets):
        return
    problems.at("create").at("network").add(
        f"no control_plane_subnets, with {', '.join(local)}",
        "control plane subnets in Availability Zones: EKS does not place its network interfaces in Local Zones",
        "name an existing VPC in create.network, with control_plane_subnets",
    )


def _check_create(cluster: EksCluster, create: CreateEks, problems: Problems) -> None:
    here = problems.at("create")
    widest, narrowest = PREFIXES[0], PREFIXES[1] if create.pods_cidr is None else NARROWEST_OF_NODES
    prefix = int(create.cidr.rpartition("/")[2])
    if not widest <= prefix <= narrowest:
        here.at("cidr").add(
            f"{create.cidr!r}",
            f"/{widest} to /{narrowest}: a VPC is at most a /16, and "
            + ("each pod uses an address" if create.pods_cidr is None else "each zone gets an eighth of the VPC"),
            "for example, write cidr: 10.0.0.0/16"
            + (
                ", or give pods a separate range: pods_cidr: 100.64.0.0/16"
                if narrowest < prefix <= NARROWEST_OF_NODES
                else ""
            ),
        )
    check_pods_cidr(create, here.at("pods_cidr"))
    check_services_cidr(create, here.at("services_cidr"))
    for index, zone in enumerate(create.zones):
        _check_zone(zone, f"{zone!r}", cluster, here.at("zones"))
        if zone in create.zones[:index]:
            here.at("zones").at(f"[{index}]").add(f"{zone!r} a second time", "each zone once", "remove it")
    check_api_access(create.api_access, create.api_from_anywhere, here)
    _check_api_networks(create.api_access, here.at("api_access"))
    check_system_pool(cluster, create.system, here.at("system"))
    for index, admin in enumerate(create.admins):
        check_account(admin, cluster, here.at("admins").at(f"[{index}]"))
        check_principal(admin, here.at("admins").at(f"[{index}]"))
    if cluster.assume_role is not None and cluster.assume_role not in create.admins:
        here.at("admins").add(
            f"no {cluster.assume_role}, which `up` assumes",
            "admins that include cluster.assume_role: only admins can log in to a new cluster",
            f"add {cluster.assume_role}",
        )
    check_key(create.kms_key, cluster, here.at("kms_key"))
    check_key(create.system.kms_key, cluster, here.at("system").at("kms_key"), alias=True)
    if cluster.subnets is not None:
        problems.at("subnets").add(
            "subnets together with create",
            "subnets only for an existing cluster: a new cluster has its own VPC",
            "remove subnets, or create",
        )
    if cluster.security_groups:
        problems.at("security_groups").add(
            "security_groups together with create",
            "security_groups only for an existing cluster: nodes of a new cluster have the cluster's "
            "security group",
            "remove security_groups, or create",
        )


def _check_api_networks(networks: Sequence[str], problems: Problems) -> None:
    """Record problems for networks that are partly private, and for more networks than EKS and a security group
    allow.

    Sources: EKS user guide, Service quotas (public endpoint access CIDR ranges, 40) and Cluster API server
    endpoint; VPC user guide, quotas (60 inbound rules of a security group, one of which EKS uses); read
    2026-11-28.
    """
    private = [network for network in networks if is_private(network)]
    public = [network for network in networks if network not in private]
    for network in public:
        inside = [one for one in PRIVATE_RANGES if IPv4Network(network).overlaps(one)]
        if inside and not wide_networks([network]):
            problems.add(
                f"{network!r}, which overlaps the private range {inside[0]}",
                "networks that are entirely private or entirely public: EKS refuses private networks for the "
                "public address of the API server",
                "write its private and its public part as two networks",
            )
    for kind, found, most in (
        ("public", public, MOST_PUBLIC_NETWORKS),
        ("private", private, MOST_PRIVATE_NETWORKS),
    ):
        if len(found) > most:
            problems.add(
                f"{len(found)} {kind} networks",
                f"at most {most}",
                "write fewer, wider networks, or the networks of a proxy",
            )


def _check_kubernetes(
    cluster: EksCluster, operator: Operator | None, catalog: Catalog, problems: Problems
) -> None:
    """Check the Kubernetes version of a new cluster.

    Another check compares a declared version with the versions that the GPU Operator supports.
    """
    pinned = addon_kubernetes(catalog)
    if cluster.kubernetes is not None:
        if cluster.kubernetes not in pinned:
            problems.add(
                f"{cluster.kubernetes!r} for a new cluster",
                f"{', '.join(pinned)}, the versions in standard support that have pinned add-ons",
                f'write kubernetes: "{pinned[-1]}"',
            )
        return
    release = catalog.operator_releases.get(operator.release) if operator is not None else None
    if release is not None and planned_kubernetes(cluster, release, catalog) is None:
        problems.add(
            "nothing",
            f"a version that GPU Operator {release.version} supports ({' to '.join(release.kubernetes)}) and that "
            f"EKS offers for new clusters ({', '.join(pinned)})",
            "use a newer operator release",
        )


def _check_subnets(cluster: EksCluster, pools: Sequence[Pool], problems: Problems) -> None:
    subnets = cluster.subnets or {}
    for zone in subnets:
        _check_zone(zone, f"{zone!r}", cluster, problems)
    check_subnet_ids(subnets, problems)
    for pool in pools:
        missing = sorted(set(zones_of(pool)) - set(subnets))
        if missing:
            problems.add(
                f"no subnet in {', '.join(missing)}, where pool {pool.name} is",
                "a private subnet for every zone that a pool names",
                f"add {missing[0]}: subnet-..., or remove subnets to look up all subnets",
            )


def plan_eks_cluster(
    cluster: EksCluster,
    stack: str,
    pools: Sequence[PoolPlan],
    release: OperatorRelease,
    catalog: Catalog,
    volume_keys: Sequence[str] = (),
    identities: Sequence[str] = (),
    storage_keys: Sequence[str] = (),
    images: Sequence[PinnedImage] = (),
) -> Decided[EksClusterPlan]:
    """Return the plan for a cluster whose pools are already planned.

    `volume_keys` are the ARNs of the keys that encrypt EBS volumes. `identities` are the teams whose pods have an
    identity. `storage_keys` are the ARNs of the keys of all storage classes. `images` are the image releases that
    the stack file specifies.
    """
    clouds = [pool.cloud for pool in pools if isinstance(pool.cloud, EksPoolPlan | KarpenterPoolPlan)]
    efa = any(cloud.efa for cloud in clouds)
    of_karpenter = [cloud for cloud in clouds if isinstance(cloud, KarpenterPoolPlan)]
    scaled = [pool.sharing for pool in pools if isinstance(pool.cloud, EksPoolPlan) and pool.cloud.autoscaled]
    claimed = any(pool.cloud_nodes.nic_devices is not None for pool in pools)
    plugged = any(pool.cloud_nodes.nic_resources for pool in pools)
    parts = plan_parts(cluster, catalog, karpenter=of_karpenter, scaled=bool(scaled), efa=plugged, dranet=claimed)
    installed = {part.name for part in parts if part.install}
    zones = tuple(sorted({zone for cloud in clouds for zone in cloud.zones}))
    tags = {**cluster.tags, names.STACK_LABEL: stack}
    chosen = _kubernetes(cluster, release, catalog)
    kubernetes = chosen.value
    created: Decided[CreateEksPlan | None] = Decided(None)
    if cluster.create is not None and kubernetes is not None:
        created = _plan_create(cluster, cluster.create, kubernetes, zones, catalog, volume_keys, pools)
    plan = EksClusterPlan(
        name=cluster.name,
        region=cluster.region,
        account=cluster.account,
        kubernetes=kubernetes,
        operator=release.version,
        operator_kubernetes=release.kubernetes,
        role_prefix=cluster.name[:ROLE_PREFIX].rstrip("-"),
        assume_role=cluster.assume_role,
        iam=plan_iam(cluster),
        create=created.value,
        subnets=dict(cluster.subnets or {}),
        security_groups=cluster.security_groups,
        zones=zones,
        anywhere=any(not cloud.zones for cloud in clouds),
        efa=efa,
        node_policies=_node_policies(cluster),
        parts=parts,
        karpenter_pools=bool(of_karpenter),
        karpenter_node_role=cluster.parts.karpenter_node_role,
        karpenter=karpenter_controller(cluster, of_karpenter, catalog) if "karpenter" in installed else None,
        efa_plugin=efa_device_plugin(pools, cluster.region, catalog) if "efa_plugin" in installed else None,
        cluster_autoscaler=cluster_autoscaler(
            cluster, partition_of(cluster.region), group_priorities(_managed(pools)), scaled, catalog
        )
        if "cluster_autoscaler" in installed
        else None,
        dranet=dranet(pools, cluster.region, catalog) if "dranet" in installed else None,
        access=plan_access(cluster),
        images=tuple(images),
        identities=tuple(identities),
        group_keys=_group_keys(clouds, cluster.create),
        karpenter_keys=disk_keys(of_karpenter),
        other_keys=_other_keys(cluster.create, storage_keys),
        group_sizes=_group_sizes(clouds, created.value),
        most_nodes=sum(pool.nodes.max for pool in pools)
        + (created.value.system_pool.max_size if created.value is not None else 0),
        gpu_repair_pools=_gpu_repair_pools(pools, catalog),
        minimum_vpc_cni=_minimum_vpc_cni(catalog) if efa and created.value is None else None,
        tags=tags,
        company_tags=dict(cluster.tags),
        protect=cluster.is_protected,
        retained=_retained(cluster, created.value),
    )
    quotas = tuple(
        Decision(
            subject=f"cluster {cluster.name}",
            what="warning: quota",
            chosen=f"{one.name}: {one.amount}",
            why=f"for {one.what}: request a higher quota before `up`, or lower the number",
        )
        for one in group_quotas(plan)
    )
    explained = explain_parts(cluster, parts, of_karpenter)
    return Decided(plan, (*chosen.decisions, *created.decisions, *explained, *quotas))


def _group_sizes(
    pools: Sequence[EksPoolPlan | KarpenterPoolPlan], create: CreateEksPlan | None
) -> tuple[int, ...]:
    managed = [pool for pool in pools if isinstance(pool, EksPoolPlan)]
    system = (create.system_pool.max_size,) if create is not None else ()
    return (*system, *(pool.max_size for pool in managed for _ in pool.node_groups))


def _gpu_repair_pools(pools: Sequence[PoolPlan], catalog: Catalog) -> tuple[str, ...]:
    """Return the managed GPU pools that have node repair and whose GPUs the node monitoring agent monitors."""
    managed = [(pool.name, pool.cloud) for pool in pools if isinstance(pool.cloud, EksPoolPlan)]
    machines = catalog.machine_types
    return tuple(
        name
        for name, cloud in managed
        if cloud.node_repair
        and machines[cloud.instance_type].has_gpus
        and why_unread(cloud.labels, machines[cloud.instance_type].arch) is None
    )


def _group_keys(pools: Sequence[EksPoolPlan | KarpenterPoolPlan], create: CreateEks | None) -> tuple[str, ...]:
    """Return the sorted ARNs of the keys that encrypt the disks of node groups."""
    devices = [device for pool in pools if isinstance(pool, EksPoolPlan) for device in pool.block_devices]
    keys = {device.kms_key for device in devices} | {create.system.kms_key if create is not None else None}
    return tuple(sorted(key for key in keys if key is not None))


def _other_keys(create: CreateEks | None, storage_keys: Sequence[str]) -> tuple[str, ...]:
    """Return the sorted ARNs of the keys that encrypt Secrets and volumes."""
    return tuple(sorted({*storage_keys, *((create.kms_key,) if create is not None and create.kms_key else ())}))


def _minimum_vpc_cni(catalog: Catalog) -> str | None:
    return catalog.eks_addons["vpc-cni"].first_with_efa_only


def _managed(pools: Sequence[PoolPlan]) -> dict[str, EksPoolPlan]:
    return {pool.name: pool.cloud for pool in pools if isinstance(pool.cloud, EksPoolPlan)}


def _kubernetes(cluster: EksCluster, release: OperatorRelease, catalog: Catalog) -> Decided[str | None]:
    chosen = planned_kubernetes(cluster, release, catalog)
    if cluster.kubernetes is not None or chosen is None:
        return Decided(chosen)
    decision = Decision(
        subject=f"cluster {cluster.name}",
        what="Kubernetes",
        chosen=chosen,
        why=f"newest version that is in EKS standard support and that GPU Operator {release.version} supports; "
        "declare it as cluster.kubernetes, otherwise a newer operator release upgrades the cluster",
    )
    return Decided(chosen, (decision,))


def _plan_create(
    cluster: EksCluster,
    create: CreateEks,
    kubernetes: str,
    zones: Sequence[str],
    catalog: Catalog,
    volume_keys: Sequence[str],
    pools: Sequence[PoolPlan],
) -> Decided[CreateEksPlan | None]:
    vpc: Decided[VpcPlan | ExistingVpcPlan] = (
        plan_existing_vpc(cluster, create.network)
        if create.network is not None
        else plan_vpc(cluster, create, zones, catalog)
    )
    by_access = _explain_api_access(cluster, create)
    by_prefixes = Decision(
        subject=f"cluster {cluster.name}",
        what="addresses of pods",
        chosen="prefixes of 16 addresses (VPC CNI, ENABLE_PREFIX_DELEGATION)",
        why="EFA-only interfaces have no addresses, so a node would run out of single addresses before it runs "
        "maxPods pods (the limit on EKS images)",
    )
    of_pods = tuple(
        Decision(
            subject=f"cluster {cluster.name}",
            what="subnets of pods",
            chosen=", ".join(vpc.value.pod_networks),
            why="declared: pods take no addresses from the nodes' subnets or from a node's primary interface; "
            "their traffic out of the VPC has the address of their node",
        )
        for _ in vpc.value.pod_networks[:1]
    )
    partition = partition_of(cluster.region)
    plan = CreateEksPlan(
        vpc=vpc.value,
        services_cidr=create.services_cidr,
        kms_key=create.kms_key,
        cluster_policies=(managed_policy(partition, "AmazonEKSClusterPolicy"),),
        api_access=create.api_access,
        admins=create.admins,
        admin_policy=f"arn:{partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        support_type="EXTENDED" if create.support == "extended" else "STANDARD",
        packed_resources=_packed_resources(pools) if create.scheduling == "pack" else (),
        logs=CONTROL_PLANE_LOGS,
        # EKS requires this name for the log group.
        log_group=f"/aws/eks/{cluster.name}/cluster",
        logs_retention_days=create.logs_retention_days,
        retain_data=cluster.production,
        addons=plan_addons(
            kubernetes,
            partition,
            catalog,
            volume_keys=volume_keys,
            company_tags=cluster.tags,
            pod_subnets=bool(vpc.value.pod_networks),
        ),
        system_pool=plan_system_pool(create.system),
    )
    support = explain_support(cluster, create.support, kubernetes, catalog)
    of_services = services_decisions(cluster, create)
    return Decided(plan, (*vpc.decisions, by_prefixes, *of_pods, *of_services, by_access, support))


def _explain_api_access(cluster: EksCluster, create: CreateEks) -> Decision:
    private = [network for network in create.api_access if is_private(network)]
    public = [network for network in create.api_access if network not in private]
    inside = f"private for its nodes and pods{''.join(f', {network}' for network in private)}"
    locked_out = not public and (create.network is None or not private)
    if create.api_from_anywhere:
        why = "api_from_anywhere: the API server is reachable from the whole internet, protected only by IAM"
    elif locked_out:
        why = (
            "create.api_access names no network from which the first `up` could reach the API server, so this "
            "`up` is refused; other networks in the VPC, and networks connected by VPN or peering, also need an "
            "entry"
        )
    else:
        why = (
            "create.api_access declares these networks; other networks in the VPC or connected to it also need "
            "an entry"
        )
    return Decision(
        subject=f"cluster {cluster.name}",
        what="warning: API server" if create.api_from_anywhere or locked_out else "API server",
        chosen=f"{inside}; public for {', '.join(public) or 'no network'}",
        why=why,
    )


def _node_policies(cluster: EksCluster) -> tuple[str, ...]:
    """Return the ARNs of the managed policies for the nodes' role.

    Nodes describe their own instance when they join, so EKS's minimal policy is not sufficient. On a new cluster
    the VPC CNI has its own role. On an existing cluster, the role of the VPC CNI is not known, so nodes get the
    policy that the VPC CNI needs.
    """
    policies = ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]
    if cluster.create is None:
        policies.append("AmazonEKS_CNI_Policy")
    return tuple(managed_policy(partition_of(cluster.region), name) for name in policies)


def _retained(cluster: EksCluster, created: CreateEksPlan | None) -> tuple[str, ...]:
    if created is None:
        return ()
    if not created.retain_data:
        return (LEFTOVERS,)
    return (
        f"log group {created.log_group}, whose entries are deleted after "
        f"{counted(created.logs_retention_days, 'day')}; "
        "delete or import it before a cluster of that name is created again",
        *((f"KMS key of the secrets of {cluster.name}",) if created.kms_key is None else ()),
        LEFTOVERS,
    )


def _packed_resources(pools: Sequence[PoolPlan]) -> tuple[str, ...]:
    """Return the resources that kube-scheduler considers when it packs pods onto nodes. It prefers the nodes with
    the highest use of these resources.

    GPU use affects only the placement of pods that request GPUs.
    """
    gpus = {offer.name for pool in pools for offer in pool.resources if "/" in offer.name}
    return ("cpu", "memory", *sorted(gpus))

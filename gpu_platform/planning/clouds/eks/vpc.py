"""Plan the VPC of a new EKS cluster, with its zones and subnets. The addresses of subnets do not change when a
zone is added.

Sources: EKS user guide, VPC and subnet requirements (at least two zones; tags of subnets); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

from gpu_platform.base.errors import Problem
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.arns import cluster_arn
from gpu_platform.planning.clouds.eks.cluster_plan import ExistingVpcPlan, IamPlan, VpcPlan, ZoneSubnets
from gpu_platform.planning.clouds.eks.zones import ZONE_LETTERS, is_local_zone
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateEks, EksCluster
from gpu_platform.stack.eks_network import EksNetwork

LEAST_ZONES = 2
PREFIXES = (16, 18)
"""Prefix lengths of the largest and the smallest VPC if each pod uses an address of the VPC."""
NARROWEST_OF_NODES = 21
"""Longest prefix length of a VPC whose pods have a separate range. A public subnet is then a /27.

Load balancers need a /27 (Elastic Load Balancing user guide, "Subnets for your load balancer"; not verified).
"""
POD_RANGES = IPv4Network("100.64.0.0/10")
"""Shared address space (RFC 6598), for pods."""
_PRIVATE_BITS = 3  # an eighth of the VPC for each zone letter, and the last eighth for all public subnets
_PUBLIC_PREFIX = 24


def vpc_zones(cluster: EksCluster, named: Sequence[str]) -> tuple[str, ...]:
    """Return the zones of a new VPC.

    These are the zones that the pools and the stack file name. EKS requires two zones. If fewer zones are named,
    other zones of the region are added.
    """
    if cluster.create is not None and cluster.create.network is not None:
        return tuple(sorted(cluster.create.network.subnets))
    wanted = {*named, *(cluster.create.zones if cluster.create is not None else ())}
    for letter in ZONE_LETTERS:
        if len(wanted) >= LEAST_ZONES:
            break
        wanted.add(cluster.region + letter)
    return tuple(sorted(wanted))


def plan_vpc(cluster: EksCluster, create: CreateEks, named: Sequence[str], catalog: Catalog) -> Decided[VpcPlan]:
    """Return the VPC of a new cluster. `named` contains the zones that its pools name."""
    zones = vpc_zones(cluster, named)
    subject = f"cluster {cluster.name}"
    added = [zone for zone in zones if zone not in {*named, *create.zones}]
    why = "zones that pools and create.zones name"
    if added:
        why += (
            f"; EKS needs {LEAST_ZONES}: {', '.join(added)} added in alphabetical order; "
            "if the account has no such zone, name other zones in create.zones"
        )
    if set(zones) != set(create.zones):
        why += (
            "; the control plane cannot leave its first zones, so `up` refuses to remove a zone: declare all "
            "zones in create.zones before pools move"
        )
    outside = sorted(set(named) - set(create.zones)) if create.zones else []
    by_pools = tuple(
        Decision(
            subject=subject,
            what="warning: zones",
            chosen=f"{zone}, which a pool names and create.zones does not",
            why="the VPC has this zone only because of the pool, and `up` refuses to remove a zone: add it to "
            "create.zones, or correct the zone of the pool before the first `up`",
        )
        for zone in outside
    )
    by_zones = Decision(subject=subject, what="zones", chosen=", ".join(zones), why=why)
    nat = create.nat or ("per-zone" if cluster.production else "one")
    reasons = {
        "per-zone": "production: a failed zone does not cut off the other zones",
        "one": "not production: one NAT gateway is cheapest",
    }
    by_nat = Decision(
        subject=subject,
        what="NAT gateways",
        chosen=nat,
        why="set in the stack file" if create.nat is not None else reasons[nat],
    )
    subnets = tuple(zone_subnets(create.cidr, zone, create.pods_cidr) for zone in zones)
    refused = tuple(one.zone_id for one in catalog.no_control_plane_zones.values() if one.region == cluster.region)
    by_ids = tuple(
        Decision(
            subject=subject,
            what="zones of the control plane",
            chosen=f"these, without {zone}",
            why="EKS accepts no control plane subnet in this zone, but nodes can run in the zone. "
            "The letter of the zone differs by account, so `up` reads the letter from the subnets",
        )
        for zone in refused
    )
    plan = VpcPlan(cidr=create.cidr, pods_cidr=create.pods_cidr, zones=subnets, nat=nat, no_control_plane=refused)
    return Decided(plan, (by_zones, *by_ids, *by_pools, by_nat))


def plan_iam(cluster: EksCluster) -> IamPlan:
    """Return how the IAM roles of a cluster are created."""
    iam = cluster.iam
    return IamPlan(
        cluster=cluster_arn(cluster),
        path=iam.path,
        boundary=iam.permissions_boundary,
        node_role=iam.node_role,
    )


def plan_existing_vpc(cluster: EksCluster, network: EksNetwork) -> Decided[VpcPlan | ExistingVpcPlan]:
    """Return the plan for an existing VPC that a new cluster uses."""
    decision = Decision(
        subject=f"cluster {cluster.name}",
        what="network",
        chosen=f"{network.vpc}, which exists",
        why="create.network; its owner sets up subnets, routes, NAT and the tags that load balancers need"
        + (
            ""
            if network.control_plane_subnets
            else "; the control plane keeps its first zones: name control_plane_subnets before you add zones"
        ),
    )
    plan = ExistingVpcPlan(
        vpc=network.vpc,
        subnets=dict(network.subnets),
        control_plane_subnets=network.control_plane_subnets or tuple(network.subnets.values()),
        pod_subnets=dict(network.pod_subnets),
    )
    return Decided(plan, (decision,))


def check_existing_vpc(
    cluster: EksCluster, network: EksNetwork, pool_zones: Mapping[str, Sequence[str]], problems: Problems
) -> None:
    """Record problems for a new cluster in an existing VPC.

    `problems` points at `create`. `pool_zones` contains the zones of each pool.
    """
    create = cluster.create
    for field in ("cidr", "pods_cidr", "zones", "nat"):
        if create is not None and field in create.model_fields_set:
            problems.at(field).add(
                f"{field} together with network",
                f"{field} only for a VPC that the program creates",
                f"remove {field}",
            )
    here = problems.at("network")
    if not network.control_plane_subnets and len(network.subnets) < LEAST_ZONES:
        here.at("subnets").add(
            f"one zone, {next(iter(network.subnets))}",
            f"subnets in {LEAST_ZONES} zones: EKS places the control plane's interfaces in two zones",
            "add a zone, or name control_plane_subnets",
        )
    if all(is_local_zone(zone) for zone in network.subnets):
        here.at("subnets").add(
            f"only Local Zones: {', '.join(network.subnets)}",
            "a subnet in an Availability Zone: system nodes are never in a Local Zone",
            f"add {cluster.region}a: subnet-...",
        )
    if len(network.control_plane_subnets) == 1:
        here.at("control_plane_subnets").add("one subnet", "at least two, in different zones", "add another")
    _check_pod_subnets(network, here.at("pod_subnets"))
    for field in ("subnets", "pod_subnets"):
        check_subnet_ids(getattr(network, field), here.at(field))
    local = {subnet: zone for zone, subnet in network.subnets.items() if is_local_zone(zone)}
    for index, subnet in enumerate(network.control_plane_subnets):
        place = here.at("control_plane_subnets").at(f"[{index}]")
        if subnet in local:
            place.add(
                f"{subnet!r}, the subnet of {local[subnet]}",
                "a subnet in an Availability Zone: EKS does not place control plane interfaces in Local Zones",
                "name another subnet",
            )
        if subnet in network.control_plane_subnets[:index]:
            place.add(f"{subnet!r} again", "each subnet once", "name another subnet")
    for pool, zones in pool_zones.items():
        missing = sorted(set(zones) - set(network.subnets))
        if missing:
            here.at("subnets").add(
                f"no subnet in {', '.join(missing)}, where pool {pool} is",
                "a private subnet for every zone that a pool names",
                f"add {missing[0]}: subnet-...",
            )


def check_subnet_ids(subnets: Mapping[str, str], problems: Problems) -> None:
    """Record a problem for a subnet that is declared for two zones. `problems` points at the mapping from zones to
    subnets.
    """
    first: dict[str, str] = {}
    for zone, subnet in subnets.items():
        if first.setdefault(subnet, zone) != zone:
            problems.at(zone).add(
                f"{subnet!r} again",
                f"each subnet only once (this subnet is under {first[subnet]}): a subnet is in only one zone",
                "correct the id",
            )


def _check_pod_subnets(network: EksNetwork, problems: Problems) -> None:
    """Record problems for invalid subnets, and for zones without a pod subnet. Pods in such a zone would wait for
    addresses forever.
    """
    if not network.pod_subnets:
        return
    if missing := sorted(set(network.subnets) - set(network.pod_subnets)):
        problems.add(
            f"no subnet in {', '.join(missing)}",
            "a subnet for every zone of subnets: otherwise the VPC CNI gives pods in the zone no address",
            f"add {missing[0]}: subnet-...",
        )
    for zone, subnet in sorted(network.pod_subnets.items()):
        if zone not in network.subnets:
            problems.at(zone).add(
                f"{zone}, which has no subnet for nodes", "zones of subnets", "remove the zone, or add its subnet"
            )
        elif subnet in network.subnets.values():
            problems.at(zone).add(
                f"{subnet}, a subnet for nodes", "another subnet in the same zone and VPC", "correct the id"
            )


def check_pods_cidr(create: CreateEks, problems: Problems) -> None:
    """Record a problem for a secondary range that the VPC cannot have. `problems` points at `create.pods_cidr`.

    AWS allows ranges within 100.64.0.0/10 in addition to any primary range (VPC user guide, "IPv4 CIDR block
    association restrictions"; read 2026-11-25).
    """
    if create.pods_cidr is None:
        return
    widest, narrowest = PREFIXES
    pods = IPv4Network(create.pods_cidr)
    if not pods.subnet_of(POD_RANGES) or not widest <= pods.prefixlen <= narrowest:
        problems.add(
            f"{create.pods_cidr!r}",
            f"a /{widest} to /{narrowest} of {POD_RANGES}: a VPC accepts it in addition to any other "
            "private range",
            "for example, write pods_cidr: 100.64.0.0/16",
        )
    elif pods.overlaps(IPv4Network(create.cidr)):
        problems.add(
            f"{create.pods_cidr!r}, which overlaps cidr {create.cidr}",
            "a separate range",
            "change one of the two ranges",
        )


def check_control_plane_zones(plan: VpcPlan, zone_ids: Sequence[str]) -> list[Problem]:
    """Return why the control plane cannot be in the zones of a new VPC.

    `zone_ids` are the ids that AWS reports for the plan's zones, in the same order.
    """
    pairs = zip(plan.zone_names, zone_ids, strict=True)
    refused = {name: zone for name, zone in pairs if zone in plan.no_control_plane}
    problems = Problems("cluster.create")
    if len(zone_ids) - len(refused) < LEAST_ZONES:
        problems.at("zones").add(
            f"{', '.join(plan.zone_names)}, and "
            + " and ".join(f"{name} is {zone}" for name, zone in refused.items()),
            f"at least {LEAST_ZONES} zones besides {', '.join(plan.no_control_plane)}, where EKS accepts no "
            "subnet of a control plane",
            "name another zone in create.zones; aws ec2 describe-availability-zones prints letters and ids",
        )
    return problems.found


def zone_subnets(cidr: str, zone: str, pods_cidr: str | None = None) -> ZoneSubnets:
    """Return the subnets of a VPC in one zone.

    The subnets depend only on the letter of the zone, so a new zone changes no addresses. Each private subnet gets
    an eighth of the VPC: 8,187 usable addresses if the VPC is a /16. Every pod uses one of these addresses, unless
    pods have a separate range. Each subnet for pods gets an eighth of that range.
    """
    index = ZONE_LETTERS.index(zone[-1])
    eighths = list(IPv4Network(cidr).subnets(prefixlen_diff=_PRIVATE_BITS))
    of_public = max(_PUBLIC_PREFIX, eighths[-1].prefixlen + _PRIVATE_BITS)
    public = list(eighths[-1].subnets(new_prefix=of_public))
    of_pods = list(IPv4Network(pods_cidr).subnets(prefixlen_diff=_PRIVATE_BITS)) if pods_cidr is not None else []
    return ZoneSubnets(
        zone=zone,
        private_cidr=str(eighths[index]),
        public_cidr=str(public[index]),
        pods_cidr=str(of_pods[index]) if of_pods else None,
    )

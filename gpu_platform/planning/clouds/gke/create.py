"""Plan a new GKE cluster with its address ranges, access to its API server, and upgrades.

Sources: GKE docs (VPC-native clusters, maintenance windows and exclusions, DNS-based endpoint, hardening), and
cluster-toolkit 1.95 (module gke-cluster and the A3 and A4 blueprints); read 2026-11-21.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.api_access import is_private
from gpu_platform.planning.clouds.gke.logins import networks_by_address
from gpu_platform.planning.clouds.gke.plan import (
    SYSTEM_SURGE,
    CreateGkePlan,
    ExistingVpcPlan,
    MaintenanceExclusion,
)
from gpu_platform.planning.clouds.gke.system_pool import DEFAULT_TYPES, nodes_in_zone
from gpu_platform.planning.clouds.gke.window import BYDAY, days_of, first_window
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateGke, Exclusion, ExistingVpc, GkeCluster, Maintenance

AUTOSCALING_PROFILE: Final = "OPTIMIZE_UTILIZATION"
"""Autoscaling profile of new clusters.

With this profile, the scheduler prefers nodes whose CPU, memory or GPUs are in use (GKE docs, "About GKE cluster
autoscaling", autoscaling profiles; read 2026-11-28).
"""
SYSTEM_POOL = "system"

POD_PREFIX = 24  # prefix length of the range of pod addresses for each node, with the default of 110 pods
CONTROL_PLANE_PREFIX = 28
SERVICES_PREFIX = 27  # GKE docs, "VPC-native clusters" (IP address ranges); read 2026-11-28
_OWN_RANGES = ("nodes_cidr", "pods_cidr", "services_cidr", "control_plane_cidr")
RESERVED_ADDRESSES = 4  # addresses that Google Cloud reserves in each subnet

SCOPES: Mapping[str, str] = {
    "no-upgrades": "NO_UPGRADES",
    "no-minor-upgrades": "NO_MINOR_UPGRADES",
    "no-minor-or-node-upgrades": "NO_MINOR_OR_NODE_UPGRADES",
}
# The limit is from older documentation. GKE's docs of 2026 mention no limit.
LONGEST_WITHOUT_ANY_UPGRADE = timedelta(days=30)
MOST_WITHOUT_ANY_UPGRADE = 3
MAINTENANCE_PERIOD_DAYS = 92  # docs.cloud.google.com, how-to/maintenance-window; older pages say 32 days
MAINTENANCE_HOURS = 48  # minimum maintenance hours in each period


def check_create(
    create: CreateGke,
    gpu_ranges: Sequence[ipaddress.IPv4Network],
    pool_nodes: int,
    problems: Problems,
) -> None:
    """Record problems with a new cluster that do not depend on its pools' settings.

    `problems` points to `create`. `gpu_ranges` are the address ranges of the GPU networks. `pool_nodes` is the
    maximum number of nodes in all pools, including the nodes that rolling updates add.
    """
    if create.network is not None:
        _check_unused_ranges(create, problems)
        _check_ranges(create, ("control_plane_cidr",), gpu_ranges, problems)
    else:
        _check_ranges(create, _OWN_RANGES, gpu_ranges, problems)
        _check_range_sizes(create, pool_nodes + create.system.max + SYSTEM_SURGE, problems)
    _check_control_plane(create, problems)
    if not create.dns_access and not create.api_access:
        problems.at("dns_access").add(
            "false without api_access",
            "false together with the networks from which `up` and users reach the API server",
            "set api_access, or remove dns_access",
        )
    _check_window(create.maintenance, problems.at("maintenance"))
    _check_exclusions(create.maintenance.exclusions, problems.at("maintenance").at("exclusions"))


def _check_ranges(
    create: CreateGke, fields: Sequence[str], gpu_ranges: Sequence[ipaddress.IPv4Network], problems: Problems
) -> None:
    ranges = [(field, ipaddress.IPv4Network(getattr(create, field))) for field in fields]
    for index, (field, network) in enumerate(ranges):
        taken = [(other, theirs) for other, theirs in ranges[:index] if network.overlaps(theirs)]
        taken += [("the GPU networks", theirs) for theirs in gpu_ranges if network.overlaps(theirs)][:1]
        for other, theirs in taken:
            problems.at(field).add(
                f"{network}, which overlaps {theirs} of {other}",
                "separate ranges for nodes, pods, services, the control plane and the GPU networks",
                "choose a range that is not in use",
            )


def _check_unused_ranges(create: CreateGke, problems: Problems) -> None:
    for field in ("nodes_cidr", "pods_cidr", "services_cidr"):
        if field in create.model_fields_set:
            problems.at(field).add(
                f"{getattr(create, field)} together with network",
                "ranges only for a VPC that the program creates, because the existing subnetwork has its "
                "own ranges",
                f"remove {field}, or network",
            )
    if create.private_apis:
        problems.at("private_apis").add(
            "true together with network",
            "private_apis only with a VPC that the program creates; the owner of an existing VPC manages its DNS",
            "remove private_apis, or network",
        )


def _check_control_plane(create: CreateGke, problems: Problems) -> None:
    control_plane = ipaddress.IPv4Network(create.control_plane_cidr)
    if control_plane.prefixlen != CONTROL_PLANE_PREFIX:
        problems.at("control_plane_cidr").add(
            str(control_plane),
            f"a /{CONTROL_PLANE_PREFIX}; GKE supports only this size",
            f"write {control_plane.network_address}/{CONTROL_PLANE_PREFIX}",
        )
    elif not is_private(str(control_plane)):
        problems.at("control_plane_cidr").add(
            f"{control_plane}, which is public",
            "a range of private addresses; otherwise pods could no longer reach the public servers with these "
            "addresses",
            "write 172.16.0.0/28, or another private range",
        )


def _check_range_sizes(create: CreateGke, nodes: int, problems: Problems) -> None:
    services = ipaddress.IPv4Network(create.services_cidr)
    if services.prefixlen > SERVICES_PREFIX:
        problems.at("services_cidr").add(
            str(services),
            f"a /{SERVICES_PREFIX} or larger; GKE does not support smaller service ranges",
            f"write {services.network_address}/20, or another range",
        )
    for field, possible, each in (
        ("nodes_cidr", node_addresses(create.nodes_cidr), "an address"),
        ("pods_cidr", pod_ranges(create.pods_cidr), f"a /{POD_PREFIX}"),
    ):
        if possible < nodes:
            problems.at(field).add(
                f"{getattr(create, field)}, enough for {counted(max(possible, 0), 'node')}",
                f"enough for {counted(nodes, 'node')}, the maximum while pools are rolled, with {each} for each",
                "use a larger range; the range cannot be changed later",
            )


def node_addresses(cidr: str) -> int:
    """Return the maximum number of nodes in a subnet with this address range."""
    return ipaddress.IPv4Network(cidr).num_addresses - RESERVED_ADDRESSES


def pod_ranges(cidr: str) -> int:
    """Return the maximum number of nodes whose pods fit in an address range."""
    prefix = ipaddress.IPv4Network(cidr).prefixlen
    return 2 ** (POD_PREFIX - prefix) if prefix <= POD_PREFIX else 0


def _check_window(maintenance: Maintenance, problems: Problems) -> None:
    unknown = sorted(set(days_of(maintenance.recurrence)) - set(BYDAY))
    if unknown:
        problems.at("recurrence").add(
            f"{maintenance.recurrence!r} with {', '.join(unknown)}",
            f"days of the week in BYDAY: {', '.join(BYDAY)}",
            "write, for example, FREQ=WEEKLY;BYDAY=SA,SU",
        )
        return
    hours = _open_hours(maintenance)
    if hours is not None and hours < MAINTENANCE_HOURS:
        problems.at("recurrence").add(
            f"{maintenance.recurrence!r} with windows of {counted(maintenance.hours, 'hour')}: "
            f"{counted(hours, 'hour')} in any {MAINTENANCE_PERIOD_DAYS} days",
            f"{MAINTENANCE_HOURS} hours or more in any {MAINTENANCE_PERIOD_DAYS} days; GKE refuses fewer hours",
            "add days, or increase hours",
        )


def _open_hours(maintenance: Maintenance) -> int | None:
    """Return the minimum number of maintenance hours in a period, or None if the recurrence is neither daily nor
    weekly.
    """
    parts = [part.partition("=") for part in maintenance.recurrence.split(";")]
    rule = {key: value for key, _, value in parts}
    if not rule.keys() <= {"FREQ", "BYDAY", "INTERVAL"} or not rule.get("INTERVAL", "1").isdigit():
        return None
    interval = max(int(rule.get("INTERVAL", "1")), 1)
    days = len(days_of(maintenance.recurrence)) or 1
    if rule["FREQ"] == "WEEKLY":
        return math.floor(MAINTENANCE_PERIOD_DAYS / (7 * interval)) * days * maintenance.hours
    if "BYDAY" in rule:
        return None
    return math.floor(MAINTENANCE_PERIOD_DAYS / interval) * maintenance.hours


def _check_exclusions(exclusions: Sequence[Exclusion], problems: Problems) -> None:
    seen: set[str] = set()
    for index, exclusion in enumerate(exclusions):
        here = problems.at(f"[{index}]")
        if exclusion.name in seen:
            here.at("name").add(f"{exclusion.name!r} again", "unique names of the exclusions", "rename one")
        seen.add(exclusion.name)
        length = exclusion.end - exclusion.start
        if length <= timedelta(0):
            here.at("end").add(
                _utc(exclusion.end), f"a time after its start, {_utc(exclusion.start)}", "correct it"
            )
        elif exclusion.scope == "no-upgrades" and length > LONGEST_WITHOUT_ANY_UPGRADE:
            here.at("end").add(
                f"{counted(length.days, 'day')} without any upgrade",
                f"at most {LONGEST_WITHOUT_ANY_UPGRADE.days} days for scope no-upgrades",
                "write scope: no-minor-or-node-upgrades, which upgrades no nodes but patches the control plane",
            )
    whole = [exclusion for exclusion in exclusions if exclusion.scope == "no-upgrades"]
    if len(whole) > MOST_WITHOUT_ANY_UPGRADE:
        problems.add(
            f"{len(whole)} exclusions of scope no-upgrades",
            f"at most {MOST_WITHOUT_ANY_UPGRADE} at a time",
            "write scope: no-minor-or-node-upgrades in some of them",
        )


def plan_create(
    cluster: GkeCluster,
    create: CreateGke,
    *,
    network: str,
    newest_gpus: Sequence[str],
    mtu: int,
    gke_owned: bool,
    open_ports: tuple[int, ...],
    support_end: date | None,
    window: tuple[datetime, datetime, str] | None = None,
    storage: Collection[str] = (),
) -> Decided[CreateGkePlan]:
    """Return the settings of a new cluster.

    `network` is the name of its VPC, and `mtu` the MTU of the VPC. `newest_gpus` are the names of the pools with
    A3 and newer machine types. `gke_owned` is true if GKE runs the device plugin of a pool. `open_ports` are the
    node ports to open for the control plane. `support_end` is the end of support of the declared minor version, or
    None if it is not known. `window` contains start, end and recurrence of the maintenance window in `changes`,
    which replaces `create.maintenance`. `storage` contains the types of the declared storage classes.
    """
    public, private = networks_by_address(create)
    subject = f"cluster {cluster.name}"
    decisions = (
        Decision(
            subject=subject,
            what="API server",
            chosen=_reach(create, public, private),
            why="clients need no network path; the IP addresses are for the networks in api_access"
            if create.dns_access
            else "dns_access is false, so only the networks in api_access reach the API server"
            + (
                f"; `up` and its kubeconfig use the public address, so `up` must run in {', '.join(public)}"
                if public and private
                else ""
            ),
        ),
        Decision(
            subject=subject,
            what="autoscaling profile",
            chosen=AUTOSCALING_PROFILE,
            why="idle GPU nodes are deleted sooner, and whole nodes stay free, because the scheduler prefers "
            "nodes "
            "whose CPU, memory and GPUs are in use",
        ),
    )
    vpc = _existing_vpc(cluster, create.network)
    decisions += (
        Decision(
            subject=subject,
            what="VPC",
            chosen=f"{network} with an MTU of {mtu}" if vpc is None else vpc.subnetwork,
            why="jumbo frames, for storage; an existing VPC keeps its MTU"
            if vpc is None
            else "set in the stack file; nodes reach the internet through the NAT of the VPC's owner",
        ),
    )
    exclusions = _plan_exclusions(create.maintenance, newest_gpus, subject)
    maintenance = create.maintenance
    first = first_window(maintenance.start, maintenance.recurrence)
    declared = first, first + timedelta(hours=maintenance.hours), maintenance.recurrence
    start, end, recurrence = window or declared
    plan = CreateGkePlan(
        existing_vpc=vpc,
        network=network,
        mtu=mtu,
        nodes_cidr=create.nodes_cidr,
        pods_cidr=create.pods_cidr,
        services_cidr=create.services_cidr,
        control_plane_cidr=create.control_plane_cidr,
        open_ports=open_ports,
        api_access=create.api_access,
        dns_access=create.dns_access,
        private_apis=create.private_apis,
        authenticator_groups=create.authenticator_groups,
        public_endpoint=bool(public),
        release_channel=create.release_channel.upper(),
        maintenance_start=_utc(start),
        maintenance_end=_utc(end),
        maintenance_recurrence=recurrence,
        exclusions=exclusions.value,
        autoscaling_profile=AUTOSCALING_PROFILE,
        logs=("SYSTEM_COMPONENTS", "WORKLOADS", "APISERVER", "SCHEDULER", "CONTROLLER_MANAGER"),
        # Pools with the operator's device plugin use the operator's exporter instead.
        metrics=(
            "SYSTEM_COMPONENTS",
            "APISERVER",
            "SCHEDULER",
            "CONTROLLER_MANAGER",
            *(("DCGM",) if gke_owned else ()),
        ),
        nfs_driver="nfs" in storage,
        lustre_driver="lustre" in storage,
        system_machine_type=create.system.machine_type or DEFAULT_TYPES[0],
        system_vcpus=0,
        system_disk_type="",
        system_cpu_quota=None,
        system_nodes=(create.system.min, create.system.max),
        system_nodes_in_zone=nodes_in_zone(create.system.min, create.system.max),
        system_disk_gb=create.system.disk_gb,
        system_kms_key=create.system.kms_key,
        kms_key=create.kms_key,
    )
    late = _late_exclusions(create, support_end, subject)
    return Decided(plan, (*decisions, *exclusions.decisions, *late))


def _reach(create: CreateGke, public: Sequence[str], private: Sequence[str]) -> str:
    """Return how clients reach the API server, as text."""
    ways = (
        "DNS endpoint with IAM" if create.dns_access else "",
        f"a public address for {', '.join(public)}" if public else "",
        f"a private address for {', '.join(private)}" if private else "",
    )
    return ", and ".join(filter(None, ways))


def _existing_vpc(cluster: GkeCluster, vpc: ExistingVpc | None) -> ExistingVpcPlan | None:
    if vpc is None:
        return None
    project = vpc.project or cluster.project
    return ExistingVpcPlan(
        network=f"projects/{project}/global/networks/{vpc.name}",
        subnetwork=f"projects/{project}/regions/{cluster.location}/subnetworks/{vpc.subnetwork}",
        pods_range=vpc.pods_range,
        services_range=vpc.services_range,
    )


def _late_exclusions(create: CreateGke, support_end: date | None, subject: str) -> Iterator[Decision]:
    """Yield a warning for each exclusion of minor upgrades that ends after the support for the minor version ends.

    Google's support dates are estimates, and the date for the Extended channel is not known. Source:
    GoogleCloudPlatform/magic-modules#12569 (validation on maintenance exclusions); read 2026-11-29.
    """
    if support_end is None or create.release_channel == "extended":
        return
    for one in create.maintenance.exclusions:
        if one.scope != "no-upgrades" and one.end.date() > support_end:
            yield Decision(
                subject=subject,
                what=f"warning: exclusion {one.name}",
                chosen=f"until {_utc(one.end)}",
                why="GKE refuses an exclusion that ends after the support for the minor version, and Google "
                f"expects this support to end on {support_end}: write end: {support_end}T00:00:00Z, or "
                "release_channel: extended",
            )


def _plan_exclusions(
    maintenance: Maintenance, newest_gpus: Sequence[str], subject: str
) -> Decided[tuple[MaintenanceExclusion, ...]]:
    """Return the maintenance exclusions of a new cluster.

    If the stack file declares none, a cluster with A3 or newer pools has an exclusion until the end of support.
    This exclusion keeps the version of the control plane close to the version of these pools' nodes. Separate
    exclusions prevent upgrades of the nodes.
    """
    if maintenance.exclusions:
        declared = tuple(
            MaintenanceExclusion(name=one.name, start=_utc(one.start), end=_utc(one.end), scope=SCOPES[one.scope])
            for one in maintenance.exclusions
        )
        return Decided(declared)
    if not newest_gpus:
        return Decided(())
    decision = Decision(
        subject=subject,
        what="maintenance exclusion",
        chosen="no minor upgrades until the version's end of support",
        why=f"nodes of {', '.join(newest_gpus)} keep their version until then; other pools receive patches",
    )
    exclusion = MaintenanceExclusion(
        name="until-end-of-support",
        start=_utc(maintenance.start),
        end=None,
        scope=SCOPES["no-minor-upgrades"],
    )
    return Decided((exclusion,), (decision,))


def _utc(time: datetime) -> str:
    """Return a time in GKE's format. In any other format, every preview would show a difference."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

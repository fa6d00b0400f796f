"""Compares the zones, reservations, APIs and clusters of a GKE stack with the resources in Google Cloud."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Network
from typing import Final

from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import counted
from gpu_platform.catalog.zones import google_region
from gpu_platform.online.answers import no_cluster, problem_finding
from gpu_platform.online.finding import OnlineFinding, Severity
from gpu_platform.online.google.answers import Cluster, Reservation, Subnet
from gpu_platform.planning.clouds.gke.create import node_addresses, pod_ranges
from gpu_platform.planning.clouds.gke.existing_cluster import require_fit
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

_SOON: Final = timedelta(hours=24)


def compare_apis(project: str, disabled: Sequence[str]) -> OnlineFinding:
    """Return a finding about whether the project has enabled the APIs that `up` calls."""
    if not disabled:
        return OnlineFinding(looked_at="Google APIs", severity="fine", found="all enabled")
    return OnlineFinding(
        looked_at="Google APIs",
        severity="stops",
        found=f"not enabled: {', '.join(disabled)}",
        why="Google Cloud refuses every call to an API that is not enabled",
        fix=f"gcloud services enable --project {project} {' '.join(disabled)}",
    )


def compare_offers(pool: PoolPlan, wanted: tuple[str, ...], region: str, offered: frozenset[str]) -> OnlineFinding:
    """Return a finding about whether the zones of a pool offer its machine type.

    If `wanted` is empty, the pool uses the cluster's zones.
    """
    here = sorted(zone for zone in offered if google_region(zone) == region)
    missing = [zone for zone in wanted if zone not in offered]
    looked_at = f"zones of pool {pool.name} that offer {pool.machine_type}"
    used = ", ".join(wanted) or "the zones of the cluster"
    found = f"{', '.join(here) or f'no zone of {region}'} offer it; the pool uses {used}"
    if missing or not here:
        # GKE creates a node pool in all its zones, and refuses it if one zone lacks the machine type.
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found=found,
            why=f"{', '.join(missing) or region} does not have the machine type, so GKE refuses the node pool",
            fix=f"write zones: [{', '.join(here)}]" if here else "choose another region or machine type",
        )
    if not wanted and len(here) < 3:
        return OnlineFinding(
            looked_at=looked_at,
            severity="warns",
            found=found,
            why="the pool names no zones, and some zones of the cluster may not have the machine type",
            fix=f"write zones: [{', '.join(here)}]",
        )
    return OnlineFinding(looked_at=looked_at, severity="fine", found=found)


def compare_reservation(
    pool: PoolPlan, name: str, found: Reservation | None, now: datetime
) -> Iterator[OnlineFinding]:
    """Yield every reason why a pool's nodes cannot use its reservation."""
    looked_at = f"capacity of pool {pool.name}: {name}"
    if found is None:
        yield OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="no such reservation in that project and zone",
            why="Compute Engine refuses to create a machine that names it",
            fix="see gcloud compute reservations list; write capacity.project for a shared reservation",
        )
        return
    text = f"{found.status}, {found.count} × {found.machine_type} in {found.zone}, {found.in_use} in use"
    reasons = list(_reasons(pool, found, now))
    for severity, why, fix in reasons:
        yield OnlineFinding(looked_at=looked_at, severity=severity, found=text, why=why, fix=fix)
    if not reasons:
        yield OnlineFinding(looked_at=looked_at, severity="fine", found=text)


def _reasons(pool: PoolPlan, found: Reservation, now: datetime) -> Iterator[tuple[Severity, str, str]]:
    another = "name another reservation"
    if found.status != "READY":
        yield "stops", f"its status is {found.status}", "wait until it is READY"
    # An aggregate reservation, which future reservations create, has no machine type.
    if found.machine_type and found.machine_type != pool.machine_type:
        fix = f"write machine_type: {found.machine_type}, or {another}"
        yield "stops", f"the pool has machine type {pool.machine_type}", fix
    if not found.specific:
        yield (
            "stops",
            "any machine may use it, but a pool can use only a reservation that requires machines to name it",
            "create the reservation with --require-specific-reservation",
        )
    if found.count and found.count < pool.nodes.desired:
        why = f"the pool has {counted(pool.nodes.desired, 'node')}, the reservation {found.count}"
        yield "stops", why, f"write count.desired: {found.count}, or enlarge the reservation"
    elif found.count and found.count < pool.nodes.max:
        why = f"the pool may have {counted(pool.nodes.max, 'node')}, the reservation {found.count}"
        yield "warns", why, f"write count.max: {found.count}, or enlarge the reservation"
    elif found.count and found.count - found.in_use < pool.nodes.desired:
        why = (
            f"{found.in_use} of its machines are in use; unless the pool uses them, its desired nodes cannot start"
        )
        yield "warns", why, "see who uses it: gcloud compute reservations describe"
    group = pool.cloud.placement if isinstance(pool.cloud, GkePoolPlan) else None
    if group is not None and not group.create and found.policies and group.policy not in found.policies:
        policies = ", ".join(map(repr, found.policies))
        why = f"its placement policy is {policies}; nodes with {group.policy} cannot use it"
        yield "stops", why, f"write placement.group: {found.policies[0]}"
    if found.ends:
        ends = datetime.fromisoformat(found.ends)
        if ends <= now:
            yield "stops", "it has ended", another
        elif ends - now < _SOON:
            yield "warns", f"it ends at {found.ends}, within 24 hours", another


def compare_cluster(
    plan: EnvironmentPlan, cluster: GkeClusterPlan, found: Cluster | None
) -> Iterator[OnlineFinding]:
    """Yield the reasons why `up` cannot create the cluster, or would refuse the existing cluster. `up` makes the
    same check.
    """
    if cluster.create is not None:
        yield _compare_new(plan, cluster, found)
        return
    looked_at = f"existing cluster {cluster.name}"
    if found is None:
        yield no_cluster(cluster.name, "GKE", cluster.location, "cluster.location")
        return
    text = f"GKE {found.facts.version} {found.status}, datapath {found.facts.datapath or 'LEGACY_DATAPATH'}"
    try:
        require_fit(cluster, found.facts)
    except BadInput as refused:
        yield from (problem_finding(looked_at, problem) for problem in refused.problems)
    else:
        ready = found.status in ("RUNNING", "RECONCILING")
        yield OnlineFinding(
            looked_at=looked_at,
            severity="fine" if ready else "stops",
            found=text,
            why="" if ready else "node pools can be created only in a running cluster",
            fix="" if ready else "wait until the cluster is RUNNING",
        )
    yield _compare_api_access(found)
    yield from _compare_pools(plan, found)


def _compare_api_access(found: Cluster) -> OnlineFinding:
    """Return a finding that names the networks that can reach the API server of an existing cluster."""
    looked_at = "networks that reach the API server"
    networks = ", ".join(found.authorized) or "all networks with a route to it"
    if found.facts.dns_endpoint is not None:
        text = f"clients with IAM permission through the DNS endpoint; the IP endpoint allows {networks}"
        return OnlineFinding(looked_at=looked_at, severity="fine", found=text)
    return OnlineFinding(
        looked_at=looked_at,
        severity="warns",
        found=f"at {found.facts.endpoint} {networks}",
        why="the DNS endpoint is closed to clients outside the VPC, so `up`, members and CI reach the API "
        "server only from these networks",
        fix="connect from these networks, or let the owner of the cluster open the DNS endpoint: gcloud "
        "container clusters update --enable-dns-access, or add your network with "
        "--master-authorized-networks",
    )


def compare_network(what: str, name: str, exists: bool) -> OnlineFinding:
    """Return a finding about whether these credentials can find the network or subnet of an existing cluster."""
    if exists:
        return OnlineFinding(looked_at=f"{what} {name}", severity="fine", found="exists")
    return OnlineFinding(
        looked_at=f"{what} {name}",
        severity="warns",
        found="not found",
        why="it may be in a Shared VPC whose host project these credentials cannot see",
        fix="grant roles/compute.networkUser in the host project",
    )


def compare_subnet(
    plan: EnvironmentPlan, cluster: GkeClusterPlan, name: str, found: Subnet | None
) -> OnlineFinding:
    """Return a finding about whether a subnet has enough addresses for nodes, pods and services, and whether it
    overlaps a GPU network.
    """
    looked_at = f"subnet {name}"
    if found is None:
        why, fix = "the cluster cannot be created", "correct cluster.create.network"
        return OnlineFinding(looked_at=looked_at, severity="stops", found="no such subnet", why=why, fix=fix)
    ranges = ", ".join([found.cidr, *(f"{other} {cidr}" for other, cidr in found.secondary.items())])
    why, fix = _subnet_problem(plan, cluster, found) or ("", "")
    return OnlineFinding(looked_at=looked_at, severity="stops" if why else "fine", found=ranges, why=why, fix=fix)


def _subnet_problem(plan: EnvironmentPlan, cluster: GkeClusterPlan, found: Subnet) -> tuple[str, str] | None:
    for network in cluster.networks:
        if IPv4Network(found.cidr).overlaps(IPv4Network(network.cidr)):
            why = f"its range overlaps {network.cidr} of the GPU networks, which the nodes also join"
            return why, "write another cluster.gpu_networks_cidr"
    create, vpc = cluster.create, cluster.create.existing_vpc if cluster.create is not None else None
    if create is None or vpc is None:
        return None
    for field, name in (("pods_range", vpc.pods_range), ("services_range", vpc.services_range)):
        if name not in found.secondary:
            return f"it has no secondary range {name}", f"add it, or correct cluster.create.network.{field}"
    on_gke = [(pool, pool.cloud) for pool in plan.pools if isinstance(pool.cloud, GkePoolPlan)]
    most = create.most_system_nodes + sum(pool.nodes.max + cloud.surge for pool, cloud in on_gke)
    room = min(node_addresses(found.cidr), pod_ranges(found.secondary[vpc.pods_range]))
    if room < most:
        why = f"it has room for {counted(room, 'node')}, but the pools have up to {most} during a rolling update"
        return why, "use a larger subnet, or lower count.max of the pools"
    return None


def compare_bucket(name: str, region: str, location: str | None) -> OnlineFinding:
    """Return a finding about whether a bucket exists near the cluster. `location` is None if there is no such
    bucket.
    """
    looked_at = f"bucket {name}"
    if location is None:
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="no such bucket",
            why="its IAM policy cannot be changed, and no pod can use it",
            fix="create it, or correct its name in storage or identity",
        )
    if location in (region, region.partition("-")[0]):
        return OnlineFinding(looked_at=looked_at, severity="fine", found=f"in {location}")
    return OnlineFinding(
        looked_at=looked_at,
        severity="warns",
        found=f"in {location}",
        why=f"reads from {region} are slower, and traffic between locations is charged",
        fix=f"copy it to a bucket in {region}",
    )


def _compare_new(plan: EnvironmentPlan, cluster: GkeClusterPlan, found: Cluster | None) -> OnlineFinding:
    looked_at = f"name of the new cluster: {cluster.name}"
    if found is None:
        return OnlineFinding(looked_at=looked_at, severity="fine", found="free")
    if cluster.resource_labels.items() <= found.labels.items():
        return OnlineFinding(looked_at=looked_at, severity="fine", found="this stack has created it already")
    return OnlineFinding(
        looked_at=looked_at,
        severity="stops",
        found=(
            f"a GKE cluster with this name exists (Kubernetes {found.facts.version}), without the labels of "
            f"stack {plan.stack}"
        ),
        why="GKE refuses a second cluster of the same name",
        fix="choose another cluster.name, or remove cluster.create to use the existing cluster",
    )


def _compare_pools(plan: EnvironmentPlan, found: Cluster) -> Iterator[OnlineFinding]:
    for pool in plan.pools:
        if not isinstance(pool.cloud, GkePoolPlan) or pool.cloud.node_pool not in found.node_pools:
            continue
        labels = found.node_pools[pool.cloud.node_pool]
        if labels.get("gpu-platform-pool") != pool.name:
            yield OnlineFinding(
                looked_at=f"node pool {pool.cloud.node_pool}",
                severity="stops",
                found="exists, without the labels of this program",
                why="GKE refuses a second node pool of the same name",
                fix=f"rename {pool.path} in the stack file",
            )

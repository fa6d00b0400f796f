"""Compares the resource group, sizes, subnet and cluster of an AKS stack with the resources in Azure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network

from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import counted
from gpu_platform.online.answers import no_cluster, problem_finding
from gpu_platform.online.azure.answers import Cluster, Group, Reserved, Size, Subnet
from gpu_platform.online.finding import OnlineFinding
from gpu_platform.planning.clouds.aks.existing_cluster import require_fit
from gpu_platform.planning.clouds.aks.infiniband import FEATURE, register
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan, AksPoolPlan, CreateAksPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

_RESERVED_ADDRESSES = 5  # in each range of a subnet


def compare_providers(subscription: str, unregistered: Sequence[str]) -> OnlineFinding:
    """Return a finding about whether the subscription has registered the resource providers that `up` uses."""
    if not unregistered:
        return OnlineFinding(looked_at="resource providers", severity="fine", found="all registered")
    commands = [f"az provider register --subscription {subscription} --namespace {name}" for name in unregistered]
    return OnlineFinding(
        looked_at="resource providers",
        severity="stops",
        found=f"not registered: {', '.join(unregistered)}",
        why="Azure refuses to create their resources, and `up` registers none",
        fix="; ".join(commands),
    )


def compare_feature(subscription: str, state: str) -> OnlineFinding:
    """Return a finding about whether the subscription has the feature that InfiniBand needs."""
    registered = state == "Registered"
    return OnlineFinding(
        looked_at=f"feature {FEATURE}",
        severity="fine" if registered else "stops",
        found=state,
        why="" if registered else "AKS may put the nodes of a pool with InfiniBand on different fabrics",
        fix=""
        if registered
        else f"{register(subscription)}, and wait until it is registered before you create the pool",
    )


def compare_group(cluster: AksClusterPlan, create: CreateAksPlan, found: Group | None) -> OnlineFinding:
    """Return a finding about whether the resource group exists, and whether it should. `found` is None if there is
    no such group.
    """
    looked_at = f"resource group {cluster.resource_group}"
    if not create.creates_resource_group:
        if found is not None:
            return OnlineFinding(looked_at=looked_at, severity="fine", found=f"in {found.region}")
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="no such resource group",
            why="cluster.create.resource_group is existing",
            fix=f"az group create --subscription {cluster.subscription} --name {cluster.resource_group} "
            f"--location {cluster.region}, or remove "
            "cluster.create.resource_group",
        )
    if found is None:
        return OnlineFinding(looked_at=looked_at, severity="fine", found="free")
    if cluster.tags.items() <= found.tags.items():
        return OnlineFinding(looked_at=looked_at, severity="fine", found="this stack has created it already")
    return OnlineFinding(
        looked_at=looked_at,
        severity="stops",
        found=f"exists in {found.region}, without the tags of this stack",
        why="the program creates a group only if it does not exist",
        fix="write resource_group: existing in cluster.create, or choose another cluster.resource_group",
    )


def compare_size(
    what: str, field: str, machine_type: str, wanted: tuple[str, ...], region: str, size: Size | None
) -> OnlineFinding:
    """Return a finding about whether the subscription may use a VM size in the region and zones of its nodes.

    `what` are the nodes, and `field` is the path of their zones. Without `wanted` zones, any zone will do. `size`
    is None if the region does not have it.
    """
    looked_at = f"{machine_type} of {what}"
    if size is None or size.restriction:
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found=f"not in {region}" if size is None else f"not for this subscription: {size.restriction}",
            why="Azure refuses to create a virtual machine of this size",
            fix="choose another region or machine type"
            if size is None
            else "request access to the size in the Azure portal, or choose another machine type",
        )
    here = ", ".join(sorted(size.zones)) or "none"
    missing = [zone for zone in wanted if zone not in size.zones]
    found = f"zones {here}; the nodes use {', '.join(wanted) or 'no zone'}"
    if not missing:
        return OnlineFinding(looked_at=looked_at, severity="fine", found=found)
    quoted = ", ".join(f'"{zone}"' for zone in sorted(size.zones))
    lacking = ("zone " if len(missing) == 1 else "zones ") + ", ".join(missing)
    return OnlineFinding(
        looked_at=looked_at,
        severity="stops",
        found=found,
        why=f"the subscription has no such size in {lacking}",
        fix=f"write {field}: [{quoted}]" if quoted else f"remove {field}, or choose another region",
    )


def compare_reservation(
    pool: PoolPlan, cloud: AksPoolPlan, region: str, found: Sequence[Reserved] | None
) -> OnlineFinding:
    """Return a finding about whether a pool's capacity reservation group has enough nodes for the pool.

    `found` are the reservations of the group, or None if there is no such group.
    """
    looked_at = f"reservation of pool {pool.name}"
    field = f"{pool.path}.capacity"
    if found is None:
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="no such capacity reservation group",
            why="the agent pool cannot be created",
            fix=f"correct {field}.reservation",
        )
    [zone] = cloud.zones
    fits = [one for one in found if (one.region, one.size, one.zone) == (region, cloud.vm_size, zone)]
    if not fits:
        listed = [f"{one.size} in {one.region} zone {one.zone or 'any'}" for one in found]
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found=", ".join(listed) or "a group without reservations",
            why=f"the nodes need {cloud.vm_size} in {region} zone {zone}",
            fix=f"add this reservation to the group, or correct {field}",
        )
    nodes = sum(one.nodes for one in fits)
    enough = nodes >= pool.nodes.max
    return OnlineFinding(
        looked_at=looked_at,
        severity="fine" if enough else "warns",
        found=f"{counted(nodes, 'node')} of {cloud.vm_size}",
        why="" if enough else f"the pool may have {counted(pool.nodes.max, 'node')}, and the rest is not reserved",
        fix="" if enough else f"reserve more nodes, or lower {pool.path}.count",
    )


def compare_subnet(
    plan: EnvironmentPlan, create: CreateAksPlan, path: str, found: Subnet | None
) -> Iterator[OnlineFinding]:
    """Yield whether an existing subnet has enough addresses for the nodes, and the way to the internet that the
    stack file names. `found` is None if there is no such subnet.
    """
    looked_at = f"subnet {path.rpartition('/')[2]}"
    if found is None:
        yield OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="no such subnet",
            why="the cluster cannot be created",
            fix="correct cluster.create.network.subnet",
        )
        return
    clouds = [(pool, pool.cloud) for pool in plan.pools if isinstance(pool.cloud, AksPoolPlan)]
    most = create.most_system_nodes + sum(pool.nodes.max + cloud.surge for pool, cloud in clouds)
    room = sum(IPv4Network(cidr).num_addresses - _RESERVED_ADDRESSES for cidr in found.cidrs if ":" not in cidr)
    text = f"{', '.join(found.cidrs)}, enough for {counted(room, 'node')}"
    problem = None
    if room < most:
        why = f"the cluster has up to {counted(most, 'node')} during a rolling update"
        problem = why, "use a larger subnet, or lower count.max of the pools"
    elif create.outbound_type == "userAssignedNATGateway" and not found.has_nat:
        problem = "it has no NAT gateway", "connect one, or write outbound: load-balancer"
    elif create.outbound_type == "userDefinedRouting" and not found.has_routes:
        problem = "it has no route table", "give it a route to the firewall, or write outbound: load-balancer"
    why, fix = problem or ("", "")
    yield OnlineFinding(looked_at=looked_at, severity="stops" if why else "fine", found=text, why=why, fix=fix)


def compare_encryption_set(cluster: AksClusterPlan, path: str, region: str | None) -> OnlineFinding:
    """Return a finding about whether a disk encryption set is in the cluster's region. `region` is the region of
    the set, or None if the set does not exist.
    """
    fits = region == cluster.region
    return OnlineFinding(
        looked_at=f"disk encryption set {path.rpartition('/')[2]}",
        severity="fine" if fits else "stops",
        found="no such disk encryption set" if region is None else f"in {region}",
        why="" if fits else f"disks in {cluster.region} need a disk encryption set in the same region",
        fix="" if fits else f"create it in {cluster.region}, or correct its resource ID in the stack file",
    )


def compare_cluster(
    plan: EnvironmentPlan, cluster: AksClusterPlan, found: Cluster | None
) -> Iterator[OnlineFinding]:
    """Yield the reasons why `up` cannot create the cluster, or would refuse the existing cluster. `up` makes the
    same check.
    """
    if cluster.create is not None:
        yield _compare_new(plan, cluster, found)
        return
    looked_at = f"existing cluster {cluster.name}"
    if found is None:
        yield no_cluster(cluster.name, "AKS", f"resource group {cluster.resource_group}", "cluster.resource_group")
        return
    yield from _compare_facts(cluster, looked_at, found)
    yield _compare_api_access(found)
    yield from _compare_pools(plan, found)


def _compare_facts(cluster: AksClusterPlan, looked_at: str, found: Cluster) -> Iterator[OnlineFinding]:
    try:
        require_fit(cluster, found.facts)
    except BadInput as refused:
        yield from (problem_finding(looked_at, problem) for problem in refused.problems)
        return
    ready = found.state == "Succeeded"
    yield OnlineFinding(
        looked_at=looked_at,
        severity="fine" if ready else "stops",
        found=f"AKS {found.facts.version}, {found.state}, network policies by "
        f"{found.facts.network_policy if found.facts.enforces_policies else 'nobody'}",
        why="" if ready else "AKS refuses changes while another operation runs, or after it has failed",
        fix="" if ready else "wait, or see az aks show --query provisioningState",
    )


def _compare_api_access(found: Cluster) -> OnlineFinding:
    looked_at = "networks that reach the API server"
    if found.private:
        text = "only networks that reach its private address"
        return OnlineFinding(
            looked_at=looked_at,
            severity="warns",
            found=text,
            why="`up`, members and CI must run in such a network",
            fix="connect from such a network",
        )
    text = ", ".join(found.authorized) or "all networks"
    return OnlineFinding(looked_at=looked_at, severity="fine", found=text)


def _compare_new(plan: EnvironmentPlan, cluster: AksClusterPlan, found: Cluster | None) -> OnlineFinding:
    looked_at = f"name of the new cluster: {cluster.name}"
    if found is None:
        return OnlineFinding(looked_at=looked_at, severity="fine", found="free")
    if cluster.tags.items() <= found.tags.items():
        return OnlineFinding(looked_at=looked_at, severity="fine", found="this stack has created it already")
    return OnlineFinding(
        looked_at=looked_at,
        severity="stops",
        found=f"an AKS cluster with this name exists (Kubernetes {found.facts.version}), without the tags of "
        f"stack {plan.stack}",
        why="the program would not create a second cluster of the same name",
        fix="choose another cluster.name, or remove cluster.create to use the existing cluster",
    )


def _compare_pools(plan: EnvironmentPlan, found: Cluster) -> Iterator[OnlineFinding]:
    for pool in plan.pools:
        if not isinstance(pool.cloud, AksPoolPlan) or pool.cloud.agent_pool not in found.agent_pools:
            continue
        if found.agent_pools[pool.cloud.agent_pool].get("gpu-platform-pool") != pool.name:
            yield OnlineFinding(
                looked_at=f"agent pool {pool.cloud.agent_pool}",
                severity="stops",
                found="exists, without the tags of this program",
                why="AKS has only one agent pool of a name",
                fix=f"rename {pool.path} in the stack file",
            )

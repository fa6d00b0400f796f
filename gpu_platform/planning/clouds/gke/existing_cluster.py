"""Check that an existing GKE cluster meets the requirements of its pools. The facts about the cluster are looked
up at deployment.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.gke.kubeconfig import gke_kubeconfig
from gpu_platform.planning.clouds.gke.logins import no_groups
from gpu_platform.planning.clouds.gke.node_versions import broken_problem, check_skew
from gpu_platform.planning.clouds.gke.plan import PROFILE_IN_SHARED_VPC, SAME_PROJECT, GkeClusterPlan
from gpu_platform.planning.clouds.gke.versions import order
from gpu_platform.planning.kubernetes_versions import minor, operator_fix
from gpu_platform.planning.problems import Problems

DATAPLANE_V2 = "ADVANCED_DATAPATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingGke:
    """Facts about a cluster, looked up in GKE."""

    version: str
    """Version of the control plane, such as 1.34.1-gke.1829001."""
    autopilot: bool
    datapath: str
    calico: bool
    """Whether GKE's Calico enforces network policies. The cluster's owner can enable Calico if the cluster does
    not have Dataplane V2.
    """
    multi_networking: bool
    fqdn_policies: bool
    workload_pool: str | None
    """Workload identity pool, `<project>.svc.id.goog`, or None if workload identity is disabled."""
    security_group: str | None
    """E-mail address of the security group for Google Groups for RBAC, or None if the feature is disabled."""
    dns_endpoint: str | None
    """Host name of the DNS endpoint, or None if it is not open to clients outside the VPC."""
    endpoint: str
    certificate_authority: str
    """Certificate authority of `endpoint` as base64 PEM."""
    network_project: str
    """Project of the nodes' VPC, which is the host project of a Shared VPC, or else the cluster's project."""
    ranges: Mapping[str, str]
    """Known CIDR ranges of nodes, pods, services and the control plane, by purpose."""
    exposed_pools: tuple[str, ...] = ()
    """Node pools without GKE's metadata server. Their nodes expose the credentials of the node service account to
    pods.
    """

    @property
    def enforces_policies(self) -> bool:
        """Whether NetworkPolicies have an effect. GKE enforces them only with Dataplane V2 or Calico.

        Source: GKE docs, "Control communication between Pods and Services using network policies"; read
        2026-11-28.
        """
        return self.datapath == DATAPLANE_V2 or self.calico


def existing_kubeconfig(name: str, found: ExistingGke, impersonated: str | None = None) -> str:
    """Return the kubeconfig of a cluster. It contains the DNS endpoint if clients outside the VPC can use that
    endpoint, or else the IP address.
    """
    if found.dns_endpoint is not None:
        return gke_kubeconfig(name, found.dns_endpoint, None, impersonated)
    return gke_kubeconfig(name, found.endpoint, found.certificate_authority, impersonated)


def missing_logins(plan: GkeClusterPlan, found: ExistingGke) -> tuple[str, ...]:
    """Return warnings about members who cannot log in to the existing cluster. The warnings contain the steps that
    the cluster's owner must take.
    """
    if not plan.groups or found.security_group is not None:
        return ()
    return (
        f"{no_groups(plan.groups)}: GKE cluster {plan.name} does not recognise Google groups. Its owner can run "
        f"gcloud container clusters update {plan.name} --location {plan.location} "
        "--security-group=gke-security-groups@ followed by the domain",
    )


def doubtful_networks(plan: GkeClusterPlan, found: ExistingGke) -> tuple[str, ...]:
    """Return a warning that GPU NICs with a network profile may not work in the cluster's Shared VPC."""
    if not plan.gpu_nics or plan.networks or found.network_project == plan.project:
        return ()
    return (f"GPU NICs in the Shared VPC of {found.network_project}: {PROFILE_IN_SHARED_VPC}",)


def require_version(plan: GkeClusterPlan, version: str) -> None:
    """Raise BadInput if the pools or the operator do not support the version of a new cluster.

    The release channel of the cluster determines the version.
    """
    problems = Problems("cluster")
    _check_version(plan, version, problems)
    if problems.found:
        raise BadInput(f"GKE cluster {plan.name}", problems.found)


def _check_version(plan: GkeClusterPlan, version: str, problems: Problems) -> None:
    for broken in sorted(set(plan.broken_from.values()), key=order):
        pools = [name for name, first in plan.broken_from.items() if first == broken]
        if order(version) >= order(broken):
            broken_problem(pools, version, broken, problems)
    for pool, release in plan.node_versions.items():
        check_skew(release, version, Problems(f"image.release of pool {pool}", problems.found))
    lowest, newest = plan.operator_kubernetes
    if not minor(lowest) <= minor(version) <= minor(newest):
        problems.add(
            f"GKE {version}",
            f"{lowest} to {newest}, the range that GPU Operator {plan.operator} supports",
            operator_fix(f"1.{minor(version)}", plan.operator_kubernetes),
        )
    needed = plan.minimum_version
    if needed is not None and order(version) < order(needed):
        problems.add(
            f"GKE {version}",
            f"{needed} or newer, because the pools need it",
            f"upgrade the cluster, or write kubernetes: '1.{minor(needed)}' before the cluster is created",
        )


def require_fit(plan: GkeClusterPlan, found: ExistingGke) -> None:
    """Raise one BadInput that lists every reason why a cluster cannot run the planned pools."""
    problems, update = (
        Problems("cluster"),
        f"gcloud container clusters update {plan.name} --location {plan.location}",
    )
    _check_version(plan, found.version, problems)
    if plan.kubernetes is not None and minor(found.version) < minor(plan.kubernetes):
        problems.at("kubernetes").add(
            f"{plan.kubernetes!r} on GKE {found.version}",
            "the minor version of the cluster, or an older minor version",
            "correct the version, or upgrade the cluster",
        )
    if found.autopilot:
        problems.add(
            "an Autopilot cluster", "a Standard cluster, because Autopilot has no node pools", "create one"
        )
    if found.workload_pool is None:
        problems.add(
            "no workload identity pool",
            "workload identity, so that pods use GKE's metadata server",
            "gcloud container clusters update --workload-pool=PROJECT.svc.id.goog",
        )
    if plan.gpu_nics and found.datapath != DATAPLANE_V2:
        problems.add(
            f"datapath {found.datapath or 'LEGACY_DATAPATH'}",
            f"{DATAPLANE_V2} (dataplane v2): GPU NICs need it",
            "create a new cluster; the datapath of an existing cluster cannot be changed",
        )
    if (teams := {*plan.teams, *plan.identities}) and not found.enforces_policies:
        problems.add(
            f"no enforcement of network policies, with {counted(len(teams), 'team')}",
            "Dataplane V2 or GKE's network policy add-on; otherwise pods of different teams can reach each "
            "other and any address",
            f"{update} --update-addons=NetworkPolicy=ENABLED, then {update} --enable-network-policy, which "
            "replaces all nodes",
        )
    if plan.networks and not found.multi_networking:
        problems.add(
            "no multi-networking",
            "multi-networking, for pools that join GPU networks",
            f"{update} --enable-multi-networking, or {_without_networks(plan)}",
        )
    if plan.networks and found.network_project != plan.project:
        problems.add(
            f"nodes in a Shared VPC of {found.network_project}",
            f"a VPC of {plan.project} {SAME_PROJECT}",
            "write network: {rdma: false} in the pools, or use a cluster with a VPC in its own project",
        )
    if plan.fqdn_policies and not found.fqdn_policies:
        problems.at("fqdn_policies").add(
            "true on a cluster without FQDN network policies",
            "a cluster with Dataplane V2 and FQDN network policies",
            f"{update} --enable-fqdn-network-policy, then kubectl -n kube-system rollout restart daemonset anetd",
        )
    if plan.identities and found.exposed_pools:
        named = " and ".join(f"team {name}" for name in plan.identities)
        problems.add(
            f"node pools whose nodes expose their own credentials to pods: {', '.join(found.exposed_pools)}",
            f"GKE's metadata server on all nodes; the server gives the pods of {named} their own identity, "
            "and without the server, pods get the node's identity",
            f"gcloud container node-pools update {found.exposed_pools[0]} --cluster {plan.name} --location "
            f"{plan.location} --workload-metadata=GKE_METADATA, which replaces its nodes",
        )
    _check_ranges(plan, found, problems)
    if problems.found:
        raise BadInput(f"GKE cluster {plan.name}", problems.found)


def subnetwork_of(subnetwork: str, plan: GkeClusterPlan) -> tuple[str, str, str]:
    """Return the project, region and name of a cluster's subnetwork. `subnetwork` is a path or just a name."""
    *path, name = subnetwork.split("/")
    named = dict(zip(path[-5::2], path[-4::2], strict=False))
    return named.get("projects", plan.project), named.get("regions", plan.region), name


def _without_networks(plan: GkeClusterPlan) -> str:
    """Return a fix for pools that join GPU networks. The suggested `network` settings need no GPU networks."""
    rdma = any(network.device_mode == "RDMA" for network in plan.networks)
    return f"write network: {{{'via: profile' if rdma else 'rdma: false'}}} in the pools"


def _check_ranges(plan: GkeClusterPlan, found: ExistingGke, problems: Problems) -> None:
    """Record a problem for cluster ranges that overlap a GPU network.

    A node has an interface in each GPU network, so it would send traffic for the overlapping range to the GPU
    network instead.
    """
    for what, cidr in found.ranges.items():
        theirs = ipaddress.IPv4Network(cidr)
        taken = [network.cidr for network in plan.networks if theirs.overlaps(ipaddress.IPv4Network(network.cidr))]
        if taken:
            problems.add(
                f"{cidr} for {what}, which overlaps {taken[0]} of the GPU networks",
                "separate ranges for the cluster and its GPU networks",
                f"write a different cluster.gpu_networks_cidr, or {_without_networks(plan)}",
            )

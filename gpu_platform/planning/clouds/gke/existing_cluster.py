"""A GKE cluster as it turned out to be, held against what the pools need; not known before a deploy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.errors import BadInput
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.gke.versions import minor, order
from gpu_platform.planning.clouds.kubeconfig import gke_kubeconfig
from gpu_platform.planning.problems import Problems

DATAPLANE_V2 = "ADVANCED_DATAPATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """What GKE says about a cluster."""

    version: str
    """Of the control plane: 1.34.1-gke.1829001."""
    autopilot: bool
    datapath: str
    multi_networking: bool
    workload_pool: str | None
    """`<project>.svc.id.goog`; None: workload identity is off."""
    dns_endpoint: str | None
    """Host name; None where it is not open to clients outside the VPC."""
    endpoint: str
    certificate_authority: str
    """Of `endpoint`: base64 PEM."""
    ranges: Mapping[str, str]
    """Of pods, services and the control plane, as far as GKE says them: what each is for, and its CIDR."""


def found_kubeconfig(name: str, found: FoundCluster) -> str:
    """Return how to reach a cluster: by its DNS endpoint with IAM where it is open, else by its address."""
    if found.dns_endpoint is not None:
        return gke_kubeconfig(name, found.dns_endpoint, None)
    return gke_kubeconfig(name, found.endpoint, found.certificate_authority)


def require_version(plan: GkeClusterPlan, version: str) -> None:
    """Raise BadInput where a new cluster, whose version its channel chose, is too old for the pools of a plan."""
    problems = Problems("cluster")
    _check_version(plan, version, problems)
    if problems.found:
        raise BadInput(f"GKE cluster {plan.name}", problems.found)


def _check_version(plan: GkeClusterPlan, version: str, problems: Problems) -> None:
    needed = plan.minimum_version
    if needed is not None and order(version) < order(needed):
        problems.add(
            f"GKE {version}",
            f"{needed} or newer: the pools need it",
            f"upgrade the cluster, or write kubernetes: '1.{minor(needed)}' before it is made",
        )


def require_fit(plan: GkeClusterPlan, found: FoundCluster) -> None:
    """Raise BadInput with everything for which a cluster cannot carry the pools of a plan."""
    problems = Problems("cluster")
    _check_version(plan, found.version, problems)
    if plan.kubernetes is not None and minor(found.version) < minor(plan.kubernetes):
        problems.at("kubernetes").add(
            f"{plan.kubernetes!r} on GKE {found.version}",
            "what the cluster has, or older",
            "correct it, or upgrade",
        )
    if found.autopilot:
        problems.add("an Autopilot cluster", "a Standard cluster: Autopilot has no node pools", "make one")
    if found.workload_pool is None:
        problems.add(
            "no workload identity pool",
            "workload identity: the nodes' metadata server is GKE's",
            "gcloud container clusters update --workload-pool=PROJECT.svc.id.goog",
        )
    if plan.gpu_nics and found.datapath != DATAPLANE_V2:
        problems.add(
            f"datapath {found.datapath or 'LEGACY_DATAPATH'}",
            f"{DATAPLANE_V2} (dataplane v2): GPU NICs need it",
            "make another cluster: the datapath of one that is there cannot be changed",
        )
    if plan.networks and not found.multi_networking:
        problems.add(
            "no multi-networking",
            "multi-networking, for pools that join GPU networks",
            "make another cluster with it, or give the pools network: {via: profile}",
        )
    _check_ranges(plan, found, problems)
    if problems.found:
        raise BadInput(f"GKE cluster {plan.name}", problems.found)


def _check_ranges(plan: GkeClusterPlan, found: FoundCluster, problems: Problems) -> None:
    """A node has an interface in each GPU network: what overlaps one of them would be sent there."""
    for what, cidr in found.ranges.items():
        theirs = ipaddress.IPv4Network(cidr)
        taken = [network.cidr for network in plan.networks if theirs.overlaps(ipaddress.IPv4Network(network.cidr))]
        if taken:
            problems.add(
                f"{cidr} for {what}, which overlaps {taken[0]} of the GPU networks",
                "ranges of their own for the cluster and its GPU networks",
                "give the pools network: {via: profile}, or make another cluster",
            )

"""Check and plan the GKE versions of nodes: minimum versions, broken versions, and versions that pools declare.

Nodes are created with the cluster's version unless the pool declares another version. They may be at most two
minor versions older than the control plane, and never newer. Source: GKE docs, Versioning and support; read
2026-11-23.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.gke.gpu_networks import network_mode
from gpu_platform.planning.clouds.gke.network import PROFILE_FEATURE
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan
from gpu_platform.planning.clouds.gke.versions import highest, order
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.requirements import has_topology_policy
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import FlexStart, Pool

FLEX_START: Final = "flex-start"
FLEX_START_QUEUED: Final = "flex-start-queued"
TOPOLOGY_MANAGER: Final = "topology-manager"
OLDEST_NODES: Final = 2
"""Maximum number of minor versions by which nodes may be older than the control plane."""
_RELEASE: Final = re.compile(r"1\.\d+\.\d+-gke\.\d+")


def _minimum_of_pool(pool: Pool, machine: MachineType, catalog: Catalog) -> str | None:
    """Return the minimum GKE version for the machine type, capacity and kubelet settings of a pool."""
    names: list[str] = []
    if isinstance(pool.capacity, FlexStart):
        names.append(FLEX_START_QUEUED if pool.capacity.queued else FLEX_START)
    if has_topology_policy(pool, machine.gpu_count):
        names.append(TOPOLOGY_MANAGER)
    features = [catalog.gke_features[name].minimum for name in names]
    return highest([catalog.gcp_family(machine).minimum_gke, *features])


def minimums_of_plans(pools: Sequence[GkePoolPlan], catalog: Catalog) -> list[str | None]:
    """Return the minimum GKE versions of planned pools, one for each required feature."""
    features = catalog.gke_features
    return [
        version
        for pool in pools
        for version in (
            catalog.gcp_family(catalog.machine_types[pool.machine_type]).minimum_gke,
            features[PROFILE_FEATURE].minimum if pool.network == "profile" else None,
            features[FLEX_START_QUEUED].minimum if pool.queued_provisioning else None,
            features[FLEX_START].minimum if pool.flex_start and not pool.queued_provisioning else None,
            features[TOPOLOGY_MANAGER].minimum if pool.kubelet is not None else None,
        )
    ]


def fabric_broken_from(pool: GkePoolPlan, catalog: Catalog) -> str | None:
    """Return the first GKE version whose nodes cannot use the GPU NICs of a pool, or None if all versions work."""
    machine = catalog.machine_types[pool.machine_type]
    return catalog.gcp_family(machine).fabric_broken_from if pool.network != "none" else None


def check_versions(
    cluster: GkeCluster, pools: Sequence[tuple[Pool, MachineType]], catalog: Catalog, problems: Problems
) -> None:
    """Record a problem for pools that need a newer minor version than the declared one.

    The patch version is checked at deployment. The pool's network is checked together with the pool. `problems`
    points to the cluster's `kubernetes`.
    """
    if cluster.kubernetes is None:
        return
    for pool, machine in pools:
        needed = _minimum_of_pool(pool, machine, catalog)
        if needed is not None and minor(cluster.kubernetes) < minor(needed):
            problems.add(
                f"{cluster.kubernetes!r} with pool {pool.name} ({machine.name})",
                f"GKE {needed} or newer for this machine type, capacity and topology policy",
                f"write kubernetes: '1.{minor(needed)}', or change the pool's machine type or capacity",
            )


def check_node_version(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record problems with a node version that the pool or the cluster does not support. `problems` points to the
    pool.
    """
    release, here = pool.image.release, problems.at("image").at("release")
    if release is None:
        _check_fabric_of_cluster(pool, machine, cluster, catalog, problems)
        return
    if not _RELEASE.fullmatch(release):
        here.add(
            f"{release!r}",
            "a GKE version with its build, such as 1.35.1-gke.1396000",
            "see gcloud container get-server-config",
        )
        return
    needed = _minimum_of_pool(pool, machine, catalog)
    if network_mode(pool, machine, catalog) == "profile":
        needed = highest([needed, catalog.gke_features[PROFILE_FEATURE].minimum])
    if needed is not None and order(release) < order(needed):
        here.add(
            f"{release!r} with {machine.name}",
            f"GKE {needed} or newer for the pool's machine type, capacity, topology policy and network",
            "write a newer version, or remove release",
        )
    broken = _broken_from(pool, machine, catalog)
    if broken is not None and order(release) >= order(broken):
        here.add(f"{release!r} with {machine.name}", _before(broken), _fix(pool, broken))
    if cluster.kubernetes is not None:
        check_skew(release, cluster.kubernetes, here)


def check_skew(release: str, control_plane: str, here: Problems) -> None:
    """Record a problem for a node version that is newer than the control plane or too old for it."""
    newest, oldest = minor(control_plane), minor(control_plane) - OLDEST_NODES
    exact = order(control_plane) if "-gke." in control_plane else (newest + 1, 0, 0)
    if order(release) > exact or minor(release) < oldest:
        here.add(
            f"{release!r} with a control plane of {control_plane}",
            f"a version from 1.{oldest} to the version of the control plane",
            "correct the version, or remove release",
        )


def _broken_from(pool: Pool, machine: MachineType, catalog: Catalog) -> str | None:
    if network_mode(pool, machine, catalog) == "none":
        return None
    return catalog.gcp_family(machine).fabric_broken_from


def _check_fabric_of_cluster(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record a problem for GPU NICs that nodes with the cluster's version cannot use. Nothing is recorded if the
    version is not known.
    """
    broken = _broken_from(pool, machine, catalog)
    if broken is None:
        return
    if cluster.kubernetes is not None and minor(cluster.kubernetes) >= minor(broken):
        version = f"GKE {cluster.kubernetes}"
    elif cluster.kubernetes is None and cluster.create is not None:
        version = f"the version of release channel {cluster.create.release_channel}"
    else:
        return
    problems.at("network").at("rdma").add(
        f"GPU NICs of {machine.name} on {version}", _before(broken), _fix(pool, broken)
    )


def _before(broken: str) -> str:
    return (
        f"nodes before GKE {broken}; the kernel of newer nodes does not support GPUDirect-TCPX "
        "(GKE release note of 2025-10-17)"
    )


def _fix(pool: Pool, broken: str) -> str:
    return (
        f"write image: {{release: ...}} for {pool.name} with a version of 1.{minor(broken) - 1} from "
        "gcloud container get-server-config, or network: {rdma: false}, or another machine type"
    )


def broken_problem(pools: Sequence[str], version: str, broken: str, problems: Problems) -> None:
    """Record a problem for pools that declare no version, if they cannot use their GPU NICs on a cluster of
    `version`.
    """
    problems.add(
        f"GKE {version} with GPU NICs of pools {', '.join(pools)}",
        _before(broken),
        "write image: {release: ...} with an older version for these pools, or network: {rdma: false}",
    )

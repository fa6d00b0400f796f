"""Dynamic Resource Allocation: what must be so before the operator's GPUCluster can work.

Sources: GPU Operator docs 26.7, "DRA Driver for NVIDIA GPUs" (prerequisites, limitations) and release notes;
kubernetes-sigs/dra-driver-nvidia-gpu, "MIG"; Kubernetes 1.36, pkg/features/kube_features.go; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_platform.catalog import Catalog
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.pools.software import branch_of, driver_version, node_software
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing.named import PoolShare
from gpu_platform.spec.cluster import Cluster, EksCluster, GkeCluster, Operator
from gpu_platform.spec.sharing import Dra

MINIMUM_KUBERNETES = "1.34"
MINIMUM_PATCH = "1.34.2"
PARTITIONS_KUBERNETES = "1.36"  # DRAPartitionableDevices is on by default from here
MINIMUM_DRIVER_BRANCH = 580
MULTI_NODE_NVLINK = ("gb200", "gb300")  # GPU models with compute domains
FEATURE_GATE = "DynamicMIG"
DEVICE_PLUGIN = "device-plugin"


def is_dra(shares: Sequence[PoolShare]) -> bool:
    """Return whether the environment allocates GPUs by DRA."""
    return any(isinstance(share.pool.sharing, Dra) for share in shares)


def check_dra(
    shares: Sequence[PoolShare],
    cluster: Cluster | None,
    kubernetes: str | None,
    operator: Operator | None,
    catalog: Catalog,
    problems: Problems,
) -> None:
    """Record what keeps the pools with DRA from working; `problems` stands at the root.

    `kubernetes`: the cluster's minor version where it is known before a deploy.
    """
    of_dra = [share for share in shares if isinstance(share.pool.sharing, Dra)]
    if not of_dra:
        return
    for share in shares:
        if share.sound and not isinstance(share.pool.sharing, Dra):
            problems.at(share.path).at("sharing").add(
                f"{share.pool.sharing.mode!r} on pool {share.pool.name} beside dra on pool {of_dra[0].pool.name}",
                "dra on all pools or on none: a cluster has a GPUCluster or a ClusterPolicy, never both",
                "write mode: dra for all pools, or make an environment of its own for them",
            )
    for share in of_dra:
        _check_partitions(share, kubernetes, catalog, Problems(share.sharing_path, problems.found))
    if cluster is not None:
        _check_cluster(cluster, kubernetes, of_dra[0], problems)
    if operator is not None:
        _check_operator(operator, catalog, problems.at("operator"))
    if cluster is not None and operator is not None and not isinstance(cluster, GkeCluster):
        for share in of_dra:
            _check_driver(share, cluster, operator, catalog, problems)
        _check_toolkit(cluster, operator, problems.at("operator").at("toolkit"))


def _check_partitions(share: PoolShare, kubernetes: str | None, catalog: Catalog, here: Problems) -> None:
    sharing = share.pool.sharing
    machine = catalog.machine_types.get(share.pool.machine_type)
    if not isinstance(sharing, Dra) or not sharing.partitions or machine is None:
        return
    gpu = catalog.gpu_of(machine)
    if gpu.mig is None:
        here.at("partitions").add(
            f"true on {gpu.product} ({machine.name})", "partitions on a GPU with MIG", "remove partitions"
        )
    elif gpu.architecture == "ampere":
        here.at("partitions").add(
            f"true on {gpu.product} ({machine.name})",
            "partitions on Hopper and newer: an Ampere GPU changes its MIG mode only with a reset, which the DRA "
            "driver does not do, and with GPUCluster there is no MIG manager",
            "use mode: mig on all pools, or whole GPUs",
        )
    if kubernetes is not None and _minor(kubernetes) < _minor(PARTITIONS_KUBERNETES):
        here.at("partitions").add(
            f"true on Kubernetes {kubernetes}",
            f"Kubernetes {PARTITIONS_KUBERNETES} or newer, where DRAPartitionableDevices is on by default",
            "upgrade the cluster, or remove partitions",
        )


def _check_cluster(cluster: Cluster, kubernetes: str | None, first: PoolShare, problems: Problems) -> None:
    if isinstance(cluster, GkeCluster):
        Problems(first.sharing_path, problems.found).at("mode").add(
            "'dra' on provider gke",
            "eks, existing or sandbox: the operator has no procedure for its GPUCluster on GKE",
            "use the device plugin's modes",
        )
        return
    here = problems.at("cluster").at("kubernetes")
    makes_newest = isinstance(cluster, EksCluster) and cluster.create is not None
    if kubernetes is None and not makes_newest:
        here.add(
            "nothing",
            f"the minor version, {MINIMUM_KUBERNETES} or newer: DRA needs {MINIMUM_PATCH}",
            f'write kubernetes: "{PARTITIONS_KUBERNETES}"',
        )
    elif kubernetes is not None and _minor(kubernetes) < _minor(MINIMUM_KUBERNETES):
        here.add(
            f"{kubernetes!r} with dra on pool {first.pool.name}",
            f"{MINIMUM_KUBERNETES} or newer: DRA needs {MINIMUM_PATCH}",
            "upgrade the cluster, or use the device plugin's modes",
        )


def _check_operator(operator: Operator, catalog: Catalog, here: Problems) -> None:
    release = catalog.operator_releases.get(operator.release)
    if release is not None and not release.gpu_cluster:
        have = [one.version for one in catalog.operator_releases.values() if one.gpu_cluster]
        here.at("release").add(
            f"{release.version!r} with mode dra",
            "a release with GPUCluster: " + ", ".join(have),
            f"write release: {have[0]}",
        )


def _check_toolkit(cluster: Cluster, operator: Operator, here: Problems) -> None:
    if operator.toolkit == "operator":
        here.add(
            "'operator' with mode dra",
            "host: GPUCluster brings no container toolkit; the nodes' runtime must be set up for CDI",
            "write toolkit: host, on nodes whose image has it",
        )
    elif cluster.provider == "existing" and operator.toolkit is None:
        here.add(
            "nothing",
            "host, said: with mode dra the nodes' container runtime must be set up for CDI; nobody installs it",
            "write toolkit: host, once that is so",
        )


def _check_driver(
    share: PoolShare, cluster: Cluster, operator: Operator, catalog: Catalog, problems: Problems
) -> None:
    pool = share.pool
    if pool.machine_type not in catalog.machine_types:
        return
    software = node_software(pool, cluster, operator, catalog)
    version = driver_version(pool, software, operator, catalog.operator_releases.get(operator.release))
    branch = branch_of(version) if version is not None else software.driver_branch
    here = problems.at("operator").at("driver").at("version")
    allowed = f"{MINIMUM_DRIVER_BRANCH} or newer: the DRA driver needs it"
    if branch is None:
        here.add(f"nothing for pool {pool.name}", f"the driver that the nodes have, {allowed}", "write version")
    elif branch < MINIMUM_DRIVER_BRANCH:
        here.add(f"{version or f'branch {branch}'} for pool {pool.name}", allowed, "take a newer driver")


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def dra_decisions(pools: Sequence[PoolPlan], kubernetes: str | None) -> Iterator[Decision]:
    """Yield what follows from DRA for the whole cluster."""
    yield Decision(
        subject="operator",
        what="allocation",
        chosen="GPUCluster with the DRA driver; no device plugin, feature discovery or MIG manager",
        why="the pools say mode: dra; there is no way back to a ClusterPolicy but a new cluster",
    )
    if kubernetes == MINIMUM_KUBERNETES:
        yield Decision(
            subject="cluster",
            what="Kubernetes patch",
            chosen=f"{MINIMUM_PATCH} or newer, to be seen to",
            why="the DRA driver needs it, and a stack file names the minor version alone",
        )
    for pool in pools:
        if pool.sharing.partitions:
            yield Decision(
                subject=f"pool {pool.name}",
                what="partitions",
                chosen=f"feature gate {FEATURE_GATE}, which is alpha",
                why="instances are cut when a claim asks for one; what others cut before is destroyed",
            )


def allocation(pools: Sequence[PoolPlan]) -> str:
    """Return who gives GPUs to pods: the stack output `allocation`, the same for as long as a cluster stands."""
    return "dra" if any(pool.devices for pool in pools) else DEVICE_PLUGIN


def check_allocation(outputs: Mapping[str, Any], pools: Sequence[PoolPlan], problems: Problems) -> None:
    """Record a change from device plugin to DRA or back; `outputs`: of the last deployment, empty without one.

    The operator refuses a GPUCluster beside a ClusterPolicy and has no migration between them.
    """
    if not outputs:
        return
    before, now = outputs.get("allocation", DEVICE_PLUGIN), allocation(pools)
    if before != now:
        problems.at("pools").add(
            f"{now} on a cluster that this stack has deployed with {before}",
            f"{before}: the operator has no way from one to the other on a cluster that stands",
            "take a new cluster; or run `gpu-platform destroy` first, where nothing runs any more",
        )


def compute_domains(pools: Sequence[PoolPlan]) -> bool:
    """Return whether compute domains are of use: GPUs with NVLink between nodes."""
    return any(pool.gpu_model in MULTI_NODE_NVLINK for pool in pools)

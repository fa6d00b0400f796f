"""Checks the requirements of the operator's GPUCluster, and therefore of Dynamic Resource Allocation.

Sources: GPU Operator docs 26.7, "DRA Driver for NVIDIA GPUs" (prerequisites, limitations) and release notes;
kubernetes-sigs/dra-driver-nvidia-gpu, "MIG"; Kubernetes 1.36, pkg/features/kube_features.go; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.context import Context
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.nodes.software import branch_of, driver_version, node_software
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.stack.cluster import Operator
from gpu_platform.stack.sharing import Dra

MINIMUM_KUBERNETES = "1.34"
MINIMUM_PATCH = "1.34.2"
PARTITIONS_KUBERNETES = "1.36"  # DRAPartitionableDevices is on by default from this version
MINIMUM_DRIVER_BRANCH = 580


def check(context: Context, resolved_pools: Sequence[ResolvedPool]) -> None:
    """Record each problem that prevents pools with DRA from working."""
    problems, catalog, operator, cloud = context.problems, context.catalog, context.operator, context.cloud
    of_dra = [resolved for resolved in resolved_pools if isinstance(resolved.pool.sharing, Dra)]
    if not of_dra:
        return
    for resolved in resolved_pools:
        with_gpus = catalog.has_gpus(resolved.pool.machine_type)
        if with_gpus and resolved.sound and not isinstance(resolved.pool.sharing, Dra):
            problems.at(resolved.path).at("sharing").add(
                f"{resolved.pool.sharing.mode!r} on pool {resolved.pool.name} alongside dra on pool "
                f"{of_dra[0].pool.name}",
                "dra on all pools or on none, because a cluster has either a GPUCluster or a ClusterPolicy",
                "write mode: dra for all pools, or create a separate environment for them",
            )
    for resolved in of_dra:
        _check_partitions(resolved, context.kubernetes, catalog, context.at(resolved.sharing_path))
    if cloud is not None:
        _check_cluster(cloud, of_dra[0], context)
    if operator is not None:
        _check_operator(operator, catalog, problems.at("operator"))
    if cloud is not None and operator is not None and cloud.no_gpu_cluster is None:
        for resolved in of_dra:
            _check_driver(resolved, cloud, operator, context)
        _check_toolkit(cloud, operator, problems.at("operator").at("toolkit"))


def _check_partitions(resolved: ResolvedPool, kubernetes: str | None, catalog: Catalog, here: Problems) -> None:
    sharing = resolved.pool.sharing
    machine = catalog.machine_types.get(resolved.pool.machine_type)
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
            "partitions on Hopper and newer; an Ampere GPU changes its MIG mode only with a reset, which the DRA "
            "driver does not perform, and GPUCluster has no MIG manager",
            "use mode: mig on all pools, or whole GPUs",
        )
    if kubernetes is not None and minor(kubernetes) < minor(PARTITIONS_KUBERNETES):
        here.at("partitions").add(
            f"true on Kubernetes {kubernetes}",
            f"Kubernetes {PARTITIONS_KUBERNETES} or newer, which enables DRAPartitionableDevices by default",
            "upgrade the cluster, or remove partitions",
        )


def _check_cluster(cloud: Cloud, first: ResolvedPool, context: Context) -> None:
    if cloud.no_gpu_cluster is not None:
        context.at(first.sharing_path).at("mode").add(
            f"'dra' on provider {cloud.cluster.provider}", cloud.no_gpu_cluster, "use the device plugin's modes"
        )
        return
    here, kubernetes = context.at("cluster.kubernetes"), cloud.kubernetes
    if kubernetes is None and not cloud.chooses_kubernetes:
        here.add(
            "nothing",
            f"the minor version, {MINIMUM_KUBERNETES} or newer, because DRA requires {MINIMUM_PATCH}",
            f'write kubernetes: "{PARTITIONS_KUBERNETES}"',
        )
    elif kubernetes is not None and minor(kubernetes) < minor(MINIMUM_KUBERNETES):
        here.add(
            f"{kubernetes!r} with dra on pool {first.pool.name}",
            f"{MINIMUM_KUBERNETES} or newer, because DRA requires {MINIMUM_PATCH}",
            "upgrade the cluster, or use the device plugin's modes",
        )


def _check_operator(operator: Operator, catalog: Catalog, here: Problems) -> None:
    release = catalog.operator_releases.get(operator.release)
    if release is not None and release.dra_driver is None:
        have = [one.version for one in catalog.operator_releases.values() if one.dra_driver is not None]
        here.at("release").add(
            f"{release.version!r} with mode dra",
            "a release with GPUCluster: " + ", ".join(have),
            f"write release: {have[0]}",
        )


def _check_toolkit(cloud: Cloud, operator: Operator, here: Problems) -> None:
    if operator.toolkit == "operator":
        here.add(
            "'operator' with mode dra",
            "host, because GPUCluster installs no container toolkit; the nodes' runtime must be set up for CDI",
            "write toolkit: host, and use nodes whose image contains the toolkit",
        )
    elif cloud.owner_prepares_nodes and operator.toolkit is None:
        here.add(
            "nothing",
            "toolkit: host, because mode dra needs nodes whose container runtime is already set up for CDI",
            "write toolkit: host, after you have set up the runtime",
        )


def _check_driver(resolved: ResolvedPool, cloud: Cloud, operator: Operator, context: Context) -> None:
    pool, catalog = resolved.pool, context.catalog
    if pool.machine_type not in catalog.machine_types:
        return
    software = node_software(pool, cloud, operator, catalog)
    version = driver_version(pool, software, operator, catalog.operator_releases.get(operator.release))
    branch = branch_of(version) if version is not None else software.driver_branch
    here = context.at("operator.driver.version")
    allowed = f"{MINIMUM_DRIVER_BRANCH} or newer, which the DRA driver requires"
    if branch is None:
        here.add(f"nothing for pool {pool.name}", f"the driver version on the nodes, {allowed}", "set version")
    elif branch < MINIMUM_DRIVER_BRANCH:
        here.add(f"{version or f'branch {branch}'} for pool {pool.name}", allowed, "use a newer driver")

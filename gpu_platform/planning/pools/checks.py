"""Check the name, machine type, labels, taints, driver and provider fields of each node pool."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import MachineType
from gpu_platform.catalog.unknown_machine import machines_of_gpu, unknown_machine_type
from gpu_platform.planning.clouds.protocol import LONGEST_POOL_NAME, Cloud
from gpu_platform.planning.context import Context
from gpu_platform.planning.nodes.software import branch_of, driver_version, node_software
from gpu_platform.planning.pools.cpu_pools import check_cpu_pool, check_workload
from gpu_platform.planning.pools.declared_fields import check_declared_fields
from gpu_platform.planning.pools.nvlink_domain import check_domain
from gpu_platform.planning.pools.rdma_drivers import check_default_driver
from gpu_platform.planning.pools.reservations import check_reservations
from gpu_platform.planning.pools.sales import check_sale
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.requirements import GPU_TAINT
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.planning.sharing.named import RESERVED_KEYS, reserved_key
from gpu_platform.planning.sharing.sharing import check_sharing
from gpu_platform.stack.pool import Pool


def check(context: Context, resolved_pools: Sequence[ResolvedPool]) -> None:
    """Record problems with each pool, and conflicts between pools."""
    for resolved in resolved_pools:
        check_pool(context, resolved)
        if context.operator is not None and context.catalog.has_gpus(resolved.pool.machine_type):
            _check_driver(context, resolved)
    if context.cloud is not None:
        context.cloud.pools.check_together(context.pools, context.operator, context.catalog, context.problems)
    identity = context.cloud.reservation_identity if context.cloud is not None else ()
    check_reservations(context.pools, context.problems, identity)


def check_pool(context: Context, resolved: ResolvedPool) -> None:
    """Record all problems with one pool, except problems with its driver."""
    pool, catalog, problems = resolved.pool, context.catalog, context.at(resolved.path)
    machine = catalog.machine_types.get(pool.machine_type)
    if pool.name in RESERVED_KEYS:
        problems.at("name").add(*reserved_key(pool.name))
    if machine is None:
        problems.at("machine_type").add(
            *unknown_machine_type(pool.machine_type, catalog, context.cloud.vendor if context.cloud else None)
        )
    else:
        check_workload(pool, machine, problems)
        if not machine.has_gpus:
            check_cpu_pool(dict(context.pools)[resolved.index], machine, problems)
        elif resolved.sound:
            check_sharing(resolved, machine, catalog.gpu_of(machine), problems)
        if pool.topology is not None and pool.topology.policy == "single-numa-node":
            _check_single_numa(pool, machine, problems)
    most, why = context.cloud.longest_pool_name if context.cloud is not None else LONGEST_POOL_NAME
    if len(pool.name) > most:
        problems.at("name").add(f"{len(pool.name)} characters", f"at most {most}: {why}", "shorten it")
    for key in pool.labels:
        if key.split("/")[0].endswith(names.RESERVED_DOMAINS) and "/" in key:
            problems.at("labels").at(key).add(
                f"{key!r}",
                "a label outside the domains "
                + ", ".join(names.RESERVED_DOMAINS)
                + ", which are reserved for the program",
                "remove it, or use the fields of the pool",
            )
    has_gpus = catalog.has_gpus(pool.machine_type)
    taken = {(GPU_TAINT.key, GPU_TAINT.effect)} if has_gpus else set[tuple[str, str]]()
    for index, taint in enumerate(pool.taints):
        if (taint.key, taint.effect) in taken:
            problems.at("taints").at(f"[{index}]").add(
                f"{taint.key}:{taint.effect} again",
                "each key and effect only once" + ("; the GPU taint is always included" if has_gpus else ""),
                "remove it",
            )
        taken.add((taint.key, taint.effect))
    if context.cloud is not None:
        _check_on_cloud(context, context.cloud, resolved, machine)


def _check_on_cloud(context: Context, cloud: Cloud, resolved: ResolvedPool, machine: MachineType | None) -> None:
    pool, problems = resolved.pool, context.at(resolved.path)
    check_declared_fields(pool, cloud.cluster.provider, problems)
    other_vendor = machine is not None and machine.vendor != (cloud.vendor or machine.vendor)
    if machine is not None and other_vendor:
        of_cloud = [one for one in context.catalog.machine_types.values() if one.vendor == cloud.vendor]
        same_gpu = machines_of_gpu({machine.gpu} if machine.gpu else (), of_cloud)
        problems.at("machine_type").add(
            f"{machine.name!r} of {machine.vendor} on {cloud.cluster.provider}",
            f"a machine type of {cloud.vendor}",
            same_gpu or f"write {next(one.name for one in of_cloud if one.has_gpus == machine.has_gpus)}",
        )
    cloud.pools.check_nodes(pool, problems)
    if machine is None or other_vendor:
        return
    catalog, operator = context.catalog, context.operator
    if operator is not None:
        software = node_software(pool, cloud, operator, catalog)
        if machine.has_gpus:
            cloud.software.check(pool, software, operator, catalog, problems)
            cloud.software.check_sharing(pool, software, machine, catalog, context.at(resolved.sharing_path))
    if machine.has_gpus:
        check_domain(pool, machine, catalog, problems)
    check_sale(pool, machine, cloud, catalog, problems)
    cloud.pools.check(pool, machine, catalog, problems)


def _check_single_numa(pool: Pool, machine: MachineType, problems: Problems) -> None:
    nodes = machine.numa_nodes
    if nodes is not None and len(set(nodes)) > 1 and pool.workload == "training":
        per_numa = max(nodes.count(node) for node in set(nodes))
        problems.at("topology").at("policy").add(
            "'single-numa-node'",
            f"restricted; {machine.name} has its GPUs on {len(set(nodes))} NUMA nodes, "
            f"so a pod with more than {counted(per_numa, 'GPU')} would never start",
            "write policy: restricted",
        )


def _check_driver(context: Context, resolved: ResolvedPool) -> None:
    """Record a problem if the driver on a pool's nodes is known and does not support the pool's GPU."""
    pool, catalog, operator, problems = resolved.pool, context.catalog, context.operator, context.at(resolved.path)
    machine = catalog.machine_types.get(pool.machine_type)
    if machine is None or operator is None:
        return
    software = node_software(pool, context.cloud, operator, catalog)
    release = catalog.operator_releases.get(operator.release)
    if release is not None:
        check_default_driver(context, pool, operator, release)
    version = driver_version(pool, software, operator, release)
    branch = branch_of(version) if version is not None else software.driver_branch
    if branch is None:
        return
    gpu = catalog.gpu_of(machine)
    newest = gpu.maximum_driver_branch
    if branch < gpu.minimum_driver_branch or (newest is not None and branch > newest):
        allowed = f"branch {gpu.minimum_driver_branch} " + ("or newer" if newest is None else f"to {newest}")
        of_image = version is None or pool.image.driver is not None
        own = "an image with such a driver in image.ami and image.driver, or use another machine type"
        image = context.cloud.software.release_with_driver(pool, catalog) if context.cloud is not None else None
        if image is not None:
            own = f"{image} or a newer one in image.release, {own}"
        problems.at("machine_type").add(
            f"{machine.name!r} ({gpu.product}) with driver "
            + (f"{version}" if version is not None else f"branch {branch} of its image"),
            f"driver {allowed} for {gpu.product} ({gpu.source})",
            f"name {own}" if of_image else "set operator.driver.version to a version in that range",
        )

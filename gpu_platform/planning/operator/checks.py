"""Check the GPU Operator's release, driver and Kubernetes version against its support matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.base.errors import did_you_mean
from gpu_platform.catalog import Catalog, OperatorRelease
from gpu_platform.planning.clouds.gpu_parts import gpu_parts
from gpu_platform.planning.context import Context
from gpu_platform.planning.kubernetes_versions import minor, operator_fix
from gpu_platform.planning.nodes.software import is_full, node_software
from gpu_platform.planning.operator.dra_driver import check_compute_domains
from gpu_platform.planning.operator.parts import check_parts
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.stack.cluster import Operator


def check(context: Context, resolved_pools: Sequence[ResolvedPool]) -> None:
    """Record a problem if the operator's release, its driver, the Kubernetes version and the GPU pools are not
    compatible with each other.
    """
    resolved_pools = [one for one in resolved_pools if context.catalog.has_gpus(one.pool.machine_type)]
    check_parts(context, resolved_pools)
    operator = context.operator
    if operator is None:
        return
    _check_release(operator, context, resolved_pools)
    check_compute_domains(context, resolved_pools)
    if context.cloud is not None:
        pools = [(resolved.index, resolved.pool) for resolved in resolved_pools]
        context.cloud.software.check_operator(pools, context.catalog, context.problems)


def _check_release(operator: Operator, context: Context, resolved_pools: Sequence[ResolvedPool]) -> None:
    catalog, problems, kubernetes = context.catalog, context.at("operator"), context.kubernetes
    release = catalog.operator_releases.get(operator.release)
    if release is None:
        known = list(catalog.operator_releases)
        fix = did_you_mean(operator.release, known) or f"write release: {known[-1] if known else ''}"
        problems.at("release").add(f"{operator.release!r}", "one of " + ", ".join(known), fix)
        return
    if context.cloud is not None and gpu_parts(context.cloud.cluster).gpu_operator == "present":
        # The cluster's owner upgrades the operator, and chooses its driver version and the Kubernetes version.
        return
    if release.status == "end-of-support":
        problems.at("release").add(
            f"{release.version!r}, which is out of support",
            "a supported release (" + _supported(catalog) + f"; {release.source})",
            "use the newest release; upgrade one major version at a time",
        )
    _check_driver_version(operator, release, context, resolved_pools)
    if kubernetes is not None and not minor(release.kubernetes[0]) <= minor(kubernetes) <= minor(
        release.kubernetes[1]
    ):
        problems.at("release").add(
            f"{release.version!r} on Kubernetes {kubernetes}",
            f"Kubernetes {release.kubernetes[0]} to {release.kubernetes[1]} ({release.source})",
            operator_fix(kubernetes, release.kubernetes, supported_releases(catalog)),
        )


def _nearest(version: str, drivers: Sequence[str]) -> str:
    """Return the driver whose branch is closest to the branch of a version, such as `580` for `580.173.02`. If two
    are equally close, return the older one.
    """
    branch = int(version.partition(".")[0])
    return min(drivers, key=lambda driver: (abs(int(driver.partition(".")[0]) - branch), driver))


def _check_driver_version(
    operator: Operator, release: OperatorRelease, context: Context, resolved_pools: Sequence[ResolvedPool]
) -> None:
    version, cloud, here = operator.driver.version, context.cloud, context.at("operator.driver.version")
    if version is None:
        return
    owners = {node_software(resolved.pool, cloud, operator, context.catalog).driver for resolved in resolved_pools}
    by_image = cloud is not None and cloud.creates_nodes
    by_operator = "operator" in owners if by_image else operator.driver.owner != "host"
    if by_operator and version not in release.drivers:
        here.add(
            f"{version!r}",
            f"a driver of {release.version}: " + ", ".join(release.drivers),
            f"write version: {_nearest(version, release.drivers)}, or remove it to use the default of the release",
        )
    if "installer" in owners and not is_full(version):
        here.add(
            f"{version!r}",
            "a full version for pools with Container-Optimized OS, such as 580.126.20, because its installer "
            "downloads the driver by version",
            "write a version that `sudo cos-extensions list` prints on a node, or remove version",
        )
    if owners == {"cloud"} and cloud is not None:
        here.add(
            f"{version!r}",
            f"nothing, because {cloud.cluster.provider} chooses the driver on all pools",
            "remove version",
        )


def supported_releases(catalog: Catalog) -> Mapping[str, tuple[str, str]]:
    """Return the releases that are still supported, newest first, with their Kubernetes versions."""
    releases = sorted(catalog.operator_releases.values(), key=lambda release: release.date, reverse=True)
    return {one.version: one.kubernetes for one in releases if one.status != "end-of-support"}


def _supported(catalog: Catalog) -> str:
    return ", ".join(r.version for r in catalog.operator_releases.values() if r.status == "supported")

"""Check and choose the images of EKS nodes. They are images of an EKS family, or custom AMIs that are based on
such an image.

`_check_driver` in `planning/pools/checks.py` checks whether the driver of the image supports the GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.base.versions import is_older
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.catalog.families import family_of
from gpu_platform.catalog.models import AwsFamily, LaterDriver, NodeImage
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Dra, Mig

DEFAULT_FAMILY = "al2023"
# EKS release versions and Karpenter aliases.
# Sources: awslabs/amazon-eks-ami, release v20260818; Karpenter docs, "Managing AMIs"; read 2026-11-23.
# Source: EKS API, Nodegroup.releaseVersion of Bottlerocket (version and commit); read 2026-11-23.
_RELEASES = {
    "al2023": (re.compile(r"(?P<minor>1\.\d+)\.\d+-\d{8}"), "1.36.2-20260818"),
    "bottlerocket": (re.compile(r"\d+\.\d+\.\d+-[0-9a-f]{8}"), "1.64.0-2f4c3a1b"),
}
# First releases whose SOCI can use local disks.
# AL2023 has had SOCI since v20250821 (amazon-eks-ami#2352).
# AL2023 has had the directory of SOCI on local disks since v20260120 (amazon-eks-ami#2548).
# Bottlerocket has had SOCI since 1.44.0.
_FIRST_WITH_SOCI = {"al2023": "20260120", "bottlerocket": "1.44.0"}
# In older releases the runtime gives all GPUs of a node to any container with NVIDIA_VISIBLE_DEVICES=all.
# CUDA images set this variable themselves, so no admission policy can detect the variable.
# Source: awslabs/amazon-eks-ami#2706, v20260423; read 2026-11-25.
_FIRST_WITHOUT_BYPASS = {"al2023": "20260423"}
_ORDER = {"al2023": re.compile(r"\d{8}$"), "bottlerocket": re.compile(r"\d+\.\d+\.\d+")}
_ALIASES = {"al2023": re.compile(r"v\d{8}"), "bottlerocket": re.compile(r"v\d+\.\d+\.\d+")}


# The provider calls UpdateNodegroupVersion for every change to the launch template, version or release.
# The provider sends the release only if the release changed.
# If the request contains no release, EKS uses the newest release, and allows no older release afterwards.
# Source: terraform-provider-aws#40902 and internal/service/eks/node_group.go; read 2026-11-29.
# Source: EKS API, UpdateNodegroupVersion, releaseVersion; read 2026-11-29.
# Source: EKS user guide, "Update a managed node group"; read 2026-11-29.
_NEWEST: Final = "the new nodes get the newest EKS image"


def rolled_image(field: str, release: str | None) -> str:
    """Describe the image that a managed node group's nodes get if EKS rolls them for a reason other than a new
    release.
    """
    if release is None:
        return f"{_NEWEST}, whose kernel, container runtime and, on GPU nodes, driver may be newer"
    return (
        f"{_NEWEST}, and not {release}: the AWS provider sends {field} only when it changes. In the same edit "
        f"set {field} to the release that the nodes must get, or afterwards to the release that `aws eks "
        "describe-nodegroup` prints: EKS accepts no older release"
    )


def node_image(pool: Pool, catalog: Catalog) -> NodeImage | None:
    """Return the image family of the nodes or of their custom AMI, or None for a family that does not exist on
    EKS.
    """
    return catalog.node_images.get(("aws", pool.image.family or DEFAULT_FAMILY))


def image_of(pool: Pool, catalog: Catalog) -> NodeImage:
    """Return the image family of a valid pool."""
    image = node_image(pool, catalog)
    assert image is not None  # noqa: S101 - `check_declared_fields` refuses other families
    return image


def driver_branch(pool: Pool, image: NodeImage, catalog: Catalog) -> int | None:
    """Return the driver branch of the node image, which depends on the image's release and the machine type."""
    later = _later_driver(pool, image, catalog)
    release = pool.image.release
    if later is None or release is None or pool.image.ami is not None:
        return image.driver_branch
    older = _first_if_older(image.family, release, {image.family: later.first_release.removeprefix("v")})
    return later.branch if older is None else image.driver_branch


def release_with_driver(pool: Pool, catalog: Catalog) -> str | None:
    """Return the first release whose driver supports the machine type, as text for a message, or None if the
    driver does not depend on the release.
    """
    image = node_image(pool, catalog)
    later = _later_driver(pool, image, catalog) if image is not None else None
    if later is None:
        return None
    build = later.first_release
    return build if pool.provisioner == "karpenter" else f"a release that ends in -{build.removeprefix('v')}"


def _later_driver(pool: Pool, image: NodeImage, catalog: Catalog) -> LaterDriver | None:
    machine = catalog.machine_types.get(pool.machine_type)
    family = family_of(machine) if machine is not None else None
    return next((one for one in image.later_drivers if family in one.families), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedImage:
    """An image release that the stack file specifies, for nodes with the Kubernetes version of the cluster."""

    place: str
    """Stack file field that specifies the release."""
    release: str
    family: str
    minor: str | None
    """Kubernetes version in the name of the release, or None for Bottlerocket releases and Karpenter aliases."""
    alias: bool = False
    """Whether Karpenter uses the release. The release may then also be an alias."""
    first_releases: Mapping[str, str]
    """For each Kubernetes version, the family's first release with an image for this version."""


def pinned_images(
    cluster: EksCluster, pools: Sequence[tuple[int, Pool]], catalog: Catalog
) -> Iterator[PinnedImage]:
    """Yield the image releases that the stack file specifies for the system nodes and the pools.

    `pools` contains each pool with its index in the stack file.
    """
    system = cluster.create.system.release if cluster.create is not None else None
    if system is not None:
        image = catalog.node_images["aws", DEFAULT_FAMILY]
        yield _pinned("cluster.create.system.release", system, image)
    for index, pool in pools:
        image, release = node_image(pool, catalog), pool.image.release
        if image is not None and release is not None and pool.image.ami is None:
            by_alias = pool.provisioner == "karpenter"
            yield _pinned(f"pools[{index}].image.release", release, image, alias=by_alias)


def _pinned(place: str, release: str, image: NodeImage, *, alias: bool = False) -> PinnedImage:
    match = _RELEASES[image.family][0].fullmatch(release)
    return PinnedImage(
        place=place,
        release=release,
        family=image.family,
        minor=match.groupdict().get("minor") if match is not None else None,
        alias=alias,
        first_releases=image.first_releases,
    )


def check_pinned_image(image: PinnedImage, kubernetes: str, why: str, problems: Problems) -> None:
    """Record a problem if the Kubernetes version of a release differs from the cluster's.

    `why` explains where the cluster's version comes from.
    """
    here, found = Problems(image.place, problems.found), f"{image.release!r} on Kubernetes {kubernetes}, {why}"
    if image.minor not in (None, kubernetes):
        here.add(
            found,
            f"a release of Kubernetes {kubernetes}: nodes are upgraded with the cluster",
            f"name a release that begins with {kubernetes}, or remove release",
        )
        return
    first = image.first_releases.get(kubernetes)
    if first is not None and _first_if_older(image.family, image.release, {image.family: first.removeprefix("v")}):
        here.add(
            found,
            f"a release of {image.family} with an image of Kubernetes {kubernetes}: {first} or newer",
            f"name {first if image.alias else f'a release of {first}'} or a newer release, or remove release",
        )


def check_image(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record problems with a pool's image.

    The checks cover the name of the release, the requirements of faster image pulls, and a driver that is declared
    without an AMI or a release.
    """
    image, here = pool.image, problems.at("image")
    if image.family == "bottlerocket" and catalog.nvlink_domain(machine) is not None:
        here.at("family").add(
            f"'bottlerocket' on {machine.name}",
            "al2023: the image that EKS documents for UltraServers, with IMEX and its driver settings",
            "remove family",
        )
    _check_fast_pull(pool, here)
    _check_cache(pool, machine, here.at("cache"))
    if image.driver is not None and image.ami is None and image.release is None:
        here.at("driver").add(
            f"{image.driver!r} without ami or release",
            "driver only together with ami or release: the newest EKS image has its own driver",
            "remove driver, or name the AMI or release that contains this driver",
        )
    if image.release is not None:
        _check_release(pool, image.release, here.at("release"))
        if machine.has_gpus:
            _check_bypass(pool, image.release, here.at("release"))


def check_mig(pool: Pool, family: AwsFamily, problems: Problems) -> None:
    """Record a problem if the driver in EKS images does not support MIG.

    `problems` points at the `sharing` field.
    """
    sharing = pool.sharing
    partitioned = isinstance(sharing, Mig) or (isinstance(sharing, Dra) and sharing.partitions)
    if family.mig or not partitioned or pool.image.ami is not None:
        return
    problems.at("mode" if isinstance(sharing, Mig) else "partitions").add(
        f"{sharing.mode!r} with MIG on {family.name}",
        "whole GPUs, time-slicing or MPS: the driver in EKS images manages GPU memory coherently (CDMM), without "
        "MIG",
        f"remove {'sharing' if isinstance(sharing, Mig) else 'partitions'}, or name your own image in image.ami "
        "whose driver has CDMM off",
    )


def _check_fast_pull(pool: Pool, here: Problems) -> None:
    """Record a problem for a release that is too old for SOCI. Custom AMIs are not checked."""
    family, release = pool.image.family or DEFAULT_FAMILY, pool.image.release
    if not pool.image.fast_pull or release is None:
        return
    if first := _first_if_older(family, release, _FIRST_WITH_SOCI):
        here.at("fast_pull").add(
            f"true with release {release}",
            f"{family} {first} or newer: older images have no SOCI, or cannot use it on local disks",
            "name a newer release, or remove fast_pull",
        )


def _check_bypass(pool: Pool, release: str, here: Problems) -> None:
    """Record a problem for a release whose runtime gives GPUs to pods that request none. Custom AMIs are not
    checked.
    """
    family = pool.image.family or DEFAULT_FAMILY
    if pool.image.ami is not None:
        return
    if first := _first_if_older(family, release, _FIRST_WITHOUT_BYPASS):
        here.add(
            f"{release!r}",
            f"{family} {first} or newer: with older images a pod that requests no GPU can use all GPUs of "
            "its node",
            "name a newer release, or remove release",
        )


def _first_if_older(family: str, release: str, firsts: Mapping[str, str]) -> str | None:
    """Return the family's release from `firsts` if `release` is older than this release.

    Return None if `release` is not older, or if either release is not known.
    """
    first = firsts.get(family)
    if first is None:
        return None
    found = _ORDER[family].search(release)
    return first if found is not None and is_older(found[0], first) else None


def _check_cache(pool: Pool, machine: MachineType, here: Problems) -> None:
    """Record a problem for a snapshot with cached images if the pool's nodes could not use it."""
    cache = pool.image.cache
    if cache is None:
        return
    if not cache.startswith("snap-"):
        here.add(f"{cache!r}", "an EBS snapshot", "write cache: snap-..., of a Bottlerocket data volume")
    if pool.image.family != "bottlerocket":
        here.add(
            f"a snapshot with family {pool.image.family or DEFAULT_FAMILY}",
            "bottlerocket: other images store container images on the disk of the operating system",
            "write family: bottlerocket, or remove cache",
        )
    elif pool.local_nvme and machine.local_nvme_gb > 0:
        here.add(
            f"a snapshot on {machine.name}, whose container images are on local disks",
            "`local_nvme: false` if `cache` is set, because local disks are empty when a node starts",
            "write local_nvme: false, or remove cache and write fast_pull: true",
        )
    if pool.image.fast_pull:
        here.add(
            "a snapshot with fast_pull",
            "either a snapshot or fast_pull: Bottlerocket deletes images of another snapshotter when it starts",
            "remove fast_pull, or cache",
        )


def _check_release(pool: Pool, release: str, problems: Problems) -> None:
    if pool.image.ami is not None:
        problems.add(
            f"{release!r} together with ami", "release or ami, not both: an AMI is one release", "remove one"
        )
        return
    family = pool.image.family or DEFAULT_FAMILY
    version, example = _RELEASES.get(family, (None, ""))
    if version is None:
        return  # an image family of GKE, which another check rejects
    alias = _ALIASES[family] if pool.provisioner == "karpenter" else None
    if version.fullmatch(release) is None and not (alias is not None and alias.fullmatch(release)):
        problems.add(
            f"{release!r}",
            f"a release of {family} as EKS names it: {example}",
            "see `aws eks describe-nodegroup` (releaseVersion), and the releases of "
            + ("awslabs/amazon-eks-ami" if family == "al2023" else "bottlerocket-os/bottlerocket"),
        )


def karpenter_alias(pool: Pool, image: NodeImage) -> str:
    """Return the alias of a pinned image for a pool without a custom AMI, such as `al2023@v20260818`."""
    release = pool.image.release
    if release is None or release.startswith("v"):
        return f"{image.family}@{release or image.release}"
    version, _, build = release.partition("-")
    return f"{image.family}@v{build if image.family == 'al2023' else version}"

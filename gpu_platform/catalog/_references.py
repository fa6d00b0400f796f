"""Checks that references between facts point to existing entries, and that every family is used.

Without this check, a missing entry would only show up as a KeyError in the code for the cloud that needs the
entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import get_args

from gpu_platform.base.errors import Problem, did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.catalog.families import family_of
from gpu_platform.catalog.models import (
    CatalogFile,
    CloudVendor,
    Gpu,
    MachineType,
    OperatorRelease,
    xid_codes,
)

Place = Callable[[object], str]
"""Function that returns the place of an entry, such as `machine_types_aws.yaml: machine_types[p5.48xlarge]`."""


def check_references(facts: CatalogFile, place: Place) -> Iterator[Problem]:
    """Yield a problem for each entry that contradicts other entries. `facts` contains the entries of all files."""
    for machine in facts.machine_types:
        yield from _check_machine_type(machine, facts, place(machine))
    yield from _check_families_are_used(facts, place)
    for quota in facts.gpu_quotas:
        known = _families(facts, quota.vendor)
        for name in quota.families:
            yield from _known(name, known, f"{place(quota)}.families", f"families of {quota.vendor}")
    for version in facts.kubernetes_versions:
        platforms = [platform.name for platform in facts.kubernetes_platforms]
        yield from _known(version.platform, platforms, f"{place(version)}.platform", "kubernetes_platforms")
    yield from _check_prices(facts, place)
    for gpu in facts.gpus:
        yield from _check_mig(gpu, place(gpu))
    for release in facts.operator_releases:
        yield from _check_release(release, place(release))
    yield from _check_addons(facts, place)
    yield from _check_xids(facts, place)
    for limit in facts.burn_in_limits:
        for model in limit.gpus:
            yield from _known(model, [gpu.model for gpu in facts.gpus], f"{place(limit)}.gpus", "gpus")
        families = [family.name for family in facts.families]
        for name in limit.families:
            yield from _known(name, families, f"{place(limit)}.families", "families")


def _check_xids(facts: CatalogFile, place: Place) -> Iterator[Problem]:
    """Check that each Xid code has only one class, and that every Xid text refers to an existing class."""
    owners: dict[int, str] = {}
    for xid_class in facts.xid_classes:
        for code in xid_codes(xid_class.codes):
            if code in owners:
                yield Problem(
                    f"{place(xid_class)}.codes",
                    f"{code}, which {owners[code]} has",
                    "codes that no other class contains",
                )
            owners[code] = xid_class.name
    names = [xid_class.name for xid_class in facts.xid_classes]
    for text in facts.xid_texts:
        yield from _known(text.xid_class, names, f"{place(text)}.xid_class", "xid_classes")


def _known(name: str, known: Collection[str], path: str, kind: str) -> Iterator[Problem]:
    if name not in known:
        fix = did_you_mean(name, known) or f"add an entry {name!r} to {kind}"
        yield Problem(
            path, f"{name!r}, which is not an entry of {kind}", f"one of {kind}: {', '.join(known)}", fix
        )


def _check_machine_type(machine: MachineType, facts: CatalogFile, path: str) -> Iterator[Problem]:
    if machine.gpu is not None:
        yield from _known(machine.gpu, [gpu.model for gpu in facts.gpus], f"{path}.gpu", "gpus")
    if machine.numa_nodes is not None and len(machine.numa_nodes) != machine.gpu_count:
        found = f"{counted(len(machine.numa_nodes), 'NUMA node')} for {counted(machine.gpu_count, 'GPU')}"
        yield Problem(
            f"{path}.numa_nodes", found, "the NUMA node of each GPU", "write one for each GPU, or omit the field"
        )
    if machine.vendor == "on-prem":
        return
    families = _families(facts, machine.vendor)
    yield from _known(family_of(machine), families, f"{path}.name", f"families of {machine.vendor}")
    if machine.vendor == "gcp" and machine.has_gpus and machine.accelerator_label is None:
        allowed = "the value of cloud.google.com/gke-accelerator, which is the name of the GPU in GKE's API"
        yield Problem(f"{path}.accelerator_label", "nothing", allowed, "add accelerator_label")
    limits = (machine.default_enis, machine.ips_per_eni)
    unknown_to_nodeadm = machine.vendor == "aws" and limits == (None, None) and _in_nvlink_domain(machine, facts)
    if machine.vendor == "aws" and None in limits and not unknown_to_nodeadm:
        allowed = "both limits of EC2, because nodes reserve memory for the pods that they allow"
        yield Problem(path, "no default_enis or no ips_per_eni", allowed, "add default_enis and ips_per_eni")
    images = [image for image in facts.node_images if image.vendor == machine.vendor]
    if not any(machine.arch in image.image_types for image in images):
        allowed = f"an architecture of a node image of {machine.vendor}"
        yield Problem(f"{path}.arch", f"{machine.arch!r}", allowed, "add an image_type to node_images")


def _in_nvlink_domain(machine: MachineType, facts: CatalogFile) -> bool:
    """Return whether a machine type is part of an UltraServer. nodeadm's table does not contain these types."""
    mine = (machine.vendor, family_of(machine))
    return any((one.vendor, one.name) == mine and one.nvlink_domain is not None for one in facts.families)


def _check_families_are_used(facts: CatalogFile, place: Place) -> Iterator[Problem]:
    used = {(machine.vendor, family_of(machine)) for machine in facts.machine_types}
    for family in facts.families:
        if (family.vendor, family.name) not in used:
            found, allowed = (
                f"{family.name!r}, a family without machine types",
                "a family with at least one machine type",
            )
            yield Problem(place(family), found, allowed, "add the machine types, or remove the family")


def _check_prices(facts: CatalogFile, place: Place) -> Iterator[Problem]:
    """Yield a problem for each price or offering of a machine type that the catalogue does not list for the
    vendor. Also yield a problem for each duplicate price of a machine type in a region.
    """
    types = {
        vendor: [machine.name for machine in facts.machine_types if machine.vendor == vendor]
        for vendor in get_args(CloudVendor)
    }
    priced: dict[tuple[str, str], str] = {}
    for one in facts.price_lists:
        for name, prices in one.usd_per_hour.items():
            path = f"{place(one)}.usd_per_hour.{name}"
            yield from _known(name, types[one.vendor], path, f"machine_types of {one.vendor}")
            for region in prices:
                if other := priced.get((name, region)):
                    found, allowed = f"a second price in {region} (first: {other})", "one price per region"
                    yield Problem(path, found, allowed, "remove one of them")
                priced.setdefault((name, region), path)
    for one in facts.part_prices:
        for name in one.machine_types:
            path = f"{place(one)}.machine_types"
            yield from _known(name, types[one.vendor], path, f"machine_types of {one.vendor}")
            for region in one.regions:
                if other := priced.get((name, region)):
                    found, allowed = (
                        f"a second price of {name} in {region} (first: {other})",
                        "one price per region",
                    )
                    yield Problem(path, found, allowed, "remove one of them")
                priced.setdefault((name, region), path)
    for one in facts.offerings:
        for name in one.machine_types:
            path = f"{place(one)}.machine_types"
            yield from _known(name, types[one.vendor], path, f"machine_types of {one.vendor}")


def _families(facts: CatalogFile, vendor: CloudVendor) -> list[str]:
    return [family.name for family in facts.families if family.vendor == vendor]


def _check_mig(gpu: Gpu, path: str) -> Iterator[Problem]:
    if gpu.mig is None:
        return
    names = [profile.name for profile in gpu.mig.profiles]
    for name, _ in gpu.mig.balanced or ():
        yield from _known(name, names, f"{path}.mig.balanced", "mig.profiles")
    for profile in gpu.mig.profiles:
        last = max(profile.starts, default=0) + profile.memory_slices
        if profile.compute_slices > gpu.mig.compute_slices or last > gpu.mig.memory_slices:
            yield Problem(
                f"{path}.mig.profiles[{profile.name}]",
                f"{profile.compute_slices} compute slices, and memory slices up to {last}",
                f"at most {gpu.mig.compute_slices} and {gpu.mig.memory_slices}, the slices of the GPU",
                "correct the profile",
            )


def _check_release(release: OperatorRelease, path: str) -> Iterator[Problem]:
    if release.default_driver not in release.drivers:
        allowed = "one of drivers: " + ", ".join(release.drivers)
        yield Problem(f"{path}.default_driver", f"{release.default_driver!r}", allowed, "add it to drivers")
    lowest, highest = (int(version.split(".")[1]) for version in release.kubernetes)
    if lowest > highest:
        found = " to ".join(release.kubernetes)
        yield Problem(f"{path}.kubernetes", found, "the lowest version, then the highest", "exchange them")


def _check_addons(facts: CatalogFile, place: Place) -> Iterator[Problem]:
    """Check that every add-on has a version for each Kubernetes version that any add-on supports."""
    versions = sorted({version for addon in facts.eks_addons for version in addon.versions})
    for addon in facts.eks_addons:
        missing = [version for version in versions if version not in addon.versions]
        if missing:
            allowed = f"a version of the add-on for each of {', '.join(versions)}"
            found = f"none for Kubernetes {', '.join(missing)}"
            yield Problem(f"{place(addon)}.versions", found, allowed, "pin one for each Kubernetes version")

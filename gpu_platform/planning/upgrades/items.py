"""List the software of a stack with its support status. This includes Kubernetes, nodes, the GPU Operator,
drivers, the DRA driver and images.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from gpu_platform.catalog import Catalog
from gpu_platform.planning.kubernetes_versions import minor, minor_version
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.upgrades.report import Item, RunningVersions
from gpu_platform.planning.upgrades.support import (
    Status,
    Support,
    driver_support,
    kubernetes_support,
    newest_operator,
    operator_support,
    platform_of,
)

_KUBELET = re.compile(r"v\d+\.\d+")  # excludes simulated nodes, which report the version of their simulator


def upgrade_items(
    plan: EnvironmentPlan, running: RunningVersions | None, today: datetime.date, catalog: Catalog
) -> tuple[Item, ...]:
    """Return the software of a stack, with the support status of the running version or, if none was read, of the
    planned version.
    """
    return (
        _kubernetes(plan, running, today, catalog),
        *_nodes(plan, running),
        *_operator(plan, running, catalog),
        *_drivers(plan, running, today, catalog),
        *_dra_driver(plan),
        *_images(running, catalog),
    )


def current_kubernetes(plan: EnvironmentPlan, running: RunningVersions | None) -> str | None:
    """Return the running minor version of Kubernetes or, if it was not read, the planned minor version. Return
    None if neither is known.
    """
    return minor_version(running.kubernetes) if running is not None else plan.cluster.kubernetes


def _kubernetes(
    plan: EnvironmentPlan, running: RunningVersions | None, today: datetime.date, catalog: Catalog
) -> Item:
    git_version = running.kubernetes if running is not None else None
    platform = platform_of(plan.cluster.provider, git_version, catalog)
    current = current_kubernetes(plan, running)
    return Item(
        subject="Kubernetes" if platform.name == "kubernetes" else f"Kubernetes ({platform.title})",
        planned=plan.cluster.kubernetes,
        running=git_version,
        support=kubernetes_support(platform, current, today, catalog),
        newest=newest_kubernetes(platform.name, today, catalog),
    )


def newest_kubernetes(platform: str, today: datetime.date, catalog: Catalog) -> str | None:
    """Return the newest minor version with standard support on a platform, or None."""
    fact = catalog.kubernetes_platforms[platform]
    known = [
        version.version
        for version in catalog.kubernetes_versions.values()
        if version.platform == (fact.dates_of or fact.name)
        and version.standard_until >= today
        and (not fact.only or version.version in fact.only)
    ]
    return max(known, key=minor, default=None)


def kubernetes_warnings(
    plan: EnvironmentPlan, argument: str, today: datetime.date, catalog: Catalog
) -> tuple[str, ...]:
    """Return a warning if the planned Kubernetes version is not in standard support, or will soon leave it.

    `argument` is the name of the stack in commands.
    """
    platform = platform_of(plan.cluster.provider, None, catalog)
    create = plan.cluster.cloud.create if plan.cluster.cloud is not None else None
    if create is not None and create.extended_support:
        after = "the cluster keeps this version because of its channel or support type"
        platform = platform.model_copy(update={"after_standard": after})
    support = kubernetes_support(platform, plan.cluster.kubernetes, today, catalog)
    if plan.cluster.kubernetes is None or not (support.status.past or support.status is Status.ENDING):
        return ()
    version = f"{platform.title} {plan.cluster.kubernetes}"
    until = f", {support.until}" if support.status is Status.ENDING else ""
    # The plan does not know whether the cluster exists, so this is a warning.
    refused = create is not None and not create.extended_support and support.status.past and platform.new_cluster
    new = f"{platform.new_cluster} ({platform.source}). " if refused else ""
    return (
        f"cluster.kubernetes: {version}: {support.text}{until} ({support.source}). {new}"
        f"`gpu-platform upgrade {argument}` lists the steps",
    )


def _nodes(plan: EnvironmentPlan, running: RunningVersions | None) -> Iterator[Item]:
    """Yield an item for each pool with nodes that are older than the control plane."""
    if running is None or (control_plane := minor_version(running.kubernetes)) is None:
        return
    for pool in plan.pools:
        kubelets = [text for text in running.kubelets.get(pool.name, ()) if _KUBELET.match(text)]
        older = sorted(text for text in kubelets if minor(text) < minor(control_plane))
        if older:
            text = f"older than the control plane; nodes may be at most three minor versions behind ({_SKEW})"
            far = any(minor(control_plane) - minor(one) > 3 for one in older)
            support = Support(status=Status.ENDED if far else Status.OUTDATED, text=text)
            yield Item(
                subject=f"nodes of pool {pool.name}",
                planned=plan.cluster.kubernetes,
                running=", ".join(older),
                support=support,
                newest=control_plane,
            )


_SKEW = "Kubernetes version skew policy, 2026-11-22"


def _operator(plan: EnvironmentPlan, running: RunningVersions | None, catalog: Catalog) -> Iterator[Item]:
    """Yield an item for the operator, unless the cluster's owner installs and upgrades it."""
    if plan.operator.install == "none":
        return
    current = running.operator if running is not None else None
    yield Item(
        subject="GPU Operator",
        planned=plan.operator.release,
        running=current,
        support=operator_support(current or plan.operator.release, catalog),
        newest=newest_operator(catalog),
    )


def _drivers(
    plan: EnvironmentPlan, running: RunningVersions | None, today: datetime.date, catalog: Catalog
) -> Iterator[Item]:
    """Yield an item for each driver version, with the GPU pools that use it."""
    groups: dict[tuple[str | None, tuple[str, ...], str], list[PoolPlan]] = {}
    for pool in (one for one in plan.pools if one.gpus_per_node):
        drivers = running.drivers.get(pool.name, ()) if running is not None else ()
        groups.setdefault((pool.driver_version, drivers, pool.software.driver), []).append(pool)
    for (planned, drivers, owner), pools in groups.items():
        named = ", ".join(pool.name for pool in pools)
        oldest = min(drivers, key=_order, default=None)
        yield Item(
            subject="driver" if len(groups) == 1 else f"driver of {named}",
            planned=planned,
            running=", ".join(drivers) or None,
            support=driver_support(oldest or planned, today, catalog),
            newest=catalog.operator_releases[plan.operator.release].default_driver
            if owner == "operator" and plan.operator.install != "none"
            else None,
        )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _dra_driver(plan: EnvironmentPlan) -> Iterator[Item]:
    if plan.operator.gpu_cluster:
        text = f"part of GPU Operator {plan.operator.release}, which upgrades the driver; its version is not known"
        yield Item(
            subject="DRA driver", planned=None, running=None, support=Support(status=Status.UNKNOWN, text=text)
        )


def _images(running: RunningVersions | None, catalog: Catalog) -> Iterator[Item]:
    """Yield an item for each running image of the platform whose release differs from the release in the
    catalogue.
    """
    if running is None:
        return
    wanted = {_repository(image.reference): image for image in catalog.images.values()}
    for owner, references in sorted(running.images.items()):
        for reference in references:
            image = wanted.get(_repository(reference))
            if image is not None and image.reference != reference:
                text = f"{owner} runs a release other than the one in the catalogue"
                yield Item(
                    subject=f"image {image.name}",
                    planned=_release(image.reference),
                    running=_release(reference),
                    support=Support(status=Status.OUTDATED, text=text, source=str(image.source)),
                    newest=_release(image.reference),
                )


def _repository(reference: str) -> str:
    path = reference.partition("@")[0]
    name, colon, tag = path.rpartition(":")
    return name if colon and "/" not in tag else path


def _release(reference: str) -> str:
    """Return the tag of an image and the beginning of its digest, such as `3.13-slim@sha256:966241`."""
    rest = reference.removeprefix(_repository(reference)).removeprefix(":")
    return re.sub(r"(sha256:\w{6})\w+", r"\1", rest)

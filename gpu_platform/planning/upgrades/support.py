"""Determine the support status of Kubernetes versions, driver branches and operator releases on a given date, from
the catalogue.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, KubernetesPlatform

NEAR_DAYS: Final = 90
"""A version is reported as ending if its support ends within this number of days."""


class Status(StrEnum):
    """Support status of a version. `extended` and `ended` apply after the end of standard support."""

    SUPPORTED = "supported"
    OUTDATED = "outdated"  # supported, but a newer version exists
    ENDING = "ending"  # support ends within NEAR_DAYS
    EXTENDED = "extended"  # after standard support, with paid or special support
    ENDED = "ended"
    UNKNOWN = "unknown"

    @property
    def past(self) -> bool:
        """Whether standard support is over."""
        return self in (Status.EXTENDED, Status.ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The support status of one version.

    `until` is the last day of this status, or None if it is not known. `text` describes the status. `source` is
    the source of the dates.
    """

    status: Status
    until: datetime.date | None = None
    text: str = ""
    source: str = ""


def platform_of(provider: str, git_version: str | None, catalog: Catalog) -> KubernetesPlatform:
    """Return the platform that determines the support status of a cluster's Kubernetes versions.

    `git_version` is the version of its API server, if it was read. Values such as `v1.35.2-eks-4f4795d` and
    `v1.35.1-gke.1616000` identify the provider of a cluster that the stack file reaches through a kubeconfig.
    """
    if provider not in catalog.kubernetes_platforms:
        found = (name for name in catalog.kubernetes_platforms if f"-{name}" in (git_version or ""))
        provider = next(found, "kubernetes")
    return catalog.kubernetes_platforms[provider]


def kubernetes_support(
    platform: KubernetesPlatform, version: str | None, today: datetime.date, catalog: Catalog
) -> Support:
    """Return the support status of a minor version such as 1.35 on a platform."""
    dates = catalog.kubernetes_versions.get((platform.dates_of or platform.name, version or ""))
    if version is None:
        return Support(status=Status.UNKNOWN, text="the version of the cluster is not known")
    if dates is None:
        text = f"the catalogue has no support dates for {platform.title} {version}"
        return Support(status=Status.UNKNOWN, text=text)
    source = str(dates.source)
    standard, extended = dates.standard_until, dates.extended_until
    if today <= standard:
        left = (standard - today).days
        if left > NEAR_DAYS:
            return Support(status=Status.SUPPORTED, until=standard, source=source)
        text = f"standard support ends in {counted(left, 'day')}: then {platform.after_standard}"
        return Support(status=Status.ENDING, until=standard, text=text + _price(platform), source=source)
    ended = f"standard support ended on {standard}: {platform.after_standard}"
    if extended is None:
        return Support(status=Status.ENDED, until=standard, text=ended, source=source)
    if today <= extended:
        return Support(status=Status.EXTENDED, until=extended, text=ended + _price(platform), source=source)
    text = f"standard support ended on {standard}, extended support on {extended}"
    return Support(status=Status.ENDED, until=extended, text=text, source=source)


def _price(platform: KubernetesPlatform) -> str:
    if platform.usd_per_hour is None or platform.extended_usd_per_hour is None:
        return ""
    return (
        f" ({platform.extended_usd_per_hour:.2f} instead of {platform.usd_per_hour:.2f} USD/h per cluster, "
        f"{platform.source})"
    )


def driver_branch(version: str) -> int | None:
    """Return the branch of a driver version, such as 580 for 580.173.02, or None if the text is not a version."""
    head = version.partition(".")[0]
    return int(head) if head.isdecimal() else None


def driver_support(version: str | None, today: datetime.date, catalog: Catalog) -> Support:
    """Return the support status of a driver version, which depends on its branch."""
    branch = driver_branch(version) if version is not None else None
    if branch is None:
        return Support(status=Status.UNKNOWN, text="the node image or the host chooses the version")
    fact = catalog.driver_branches.get(branch)
    if fact is None:
        return Support(status=Status.UNKNOWN, text=f"the catalogue has no support dates for R{branch}")
    name, source = f"R{fact.branch}, {fact.kind} branch", str(fact.source)
    if fact.ended:
        return Support(status=Status.ENDED, text=f"{name}: support has ended", source=source)
    if fact.until is None:
        return Support(status=Status.UNKNOWN, text=f"{name}: end of support unknown", source=source)
    if today > fact.until:
        text = f"{name}: support ended on {fact.until}"
        return Support(status=Status.ENDED, until=fact.until, text=text, source=source)
    left = (fact.until - today).days
    if left <= NEAR_DAYS:
        text = f"{name}: support ends in {counted(left, 'day')}"
        return Support(status=Status.ENDING, until=fact.until, text=text, source=source)
    return Support(status=Status.SUPPORTED, until=fact.until, text=name, source=source)


def operator_support(version: str, catalog: Catalog) -> Support:
    """Return the support status of an operator release according to NVIDIA's life-cycle policy, which contains no
    dates.
    """
    release = catalog.operator_releases.get(version)
    if release is None:
        return Support(status=Status.UNKNOWN, text=f"release {version} is not in the catalogue")
    source, newest = str(release.source), newest_operator(catalog)
    match release.status:
        case "end-of-support":
            text = "end of support: no features and no fixes"
            return Support(status=Status.ENDED, text=text, source=source)
        case "deprecated":
            text = f"deprecated: only critical fixes, until the major release after {newest}"
            return Support(status=Status.OUTDATED, text=text, source=source)
        case _ if version != newest:
            return Support(status=Status.OUTDATED, text=f"{newest} is out", source=source)
        case _:
            return Support(status=Status.SUPPORTED, text="newest major release; no end date", source=source)


def newest_operator(catalog: Catalog) -> str:
    """Return the newest operator release in the catalogue."""
    return max(catalog.operator_releases.values(), key=lambda release: release.date).version

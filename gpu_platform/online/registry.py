"""The lookups and credentials of each cloud, by the kind of cluster plan.

To support another cloud, add its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from gpu_platform.catalog import Catalog
from gpu_platform.online.aws.credentials import aws_sources
from gpu_platform.online.aws.lookups import AwsCloud
from gpu_platform.online.azure.credentials import azure_sources
from gpu_platform.online.azure.lookups import AzureCloud
from gpu_platform.online.finding import Lookup
from gpu_platform.online.google.credentials import google_sources
from gpu_platform.online.google.lookups import GoogleCloud
from gpu_platform.planning.plan import EnvironmentPlan


class OnlineCloud(Protocol):
    """All lookups of `doctor --online` in the cloud of one stack."""

    def lookups(self) -> Sequence[Lookup]:
        """Return the lookups in the order of the report."""
        ...

    def kubeconfig(self) -> str | None:
        """Return the kubeconfig of an existing cluster, or None if it does not exist. Raises NotLookedAt if
        credentials, a permission or a connection is missing.
        """
        ...


_CLOUDS: Final[Mapping[str, Callable[[EnvironmentPlan, Catalog, datetime], OnlineCloud]]] = {
    "aks": AzureCloud,
    "eks": AwsCloud,
    "gke": GoogleCloud,
}
_CREDENTIALS: Final[Mapping[str, Callable[[], list[str]]]] = {
    "aks": azure_sources,
    "eks": aws_sources,
    "gke": google_sources,
}


def credential_sources(plan: EnvironmentPlan) -> list[str]:
    """Return the kinds and places of the credentials on this machine for the cloud of a plan."""
    cloud = plan.cluster.cloud
    return _CREDENTIALS[cloud.kind]() if cloud is not None else []


def cloud_of(plan: EnvironmentPlan, catalog: Catalog, now: datetime) -> OnlineCloud | None:
    """Return the lookups in the cloud of a plan, or None if `doctor --online` does not support its cloud."""
    cloud = plan.cluster.cloud
    return _CLOUDS[cloud.kind](plan, catalog, now) if cloud is not None and cloud.kind in _CLOUDS else None

"""The clouds that `doctor --online` can query, by the kind of cluster plan.

To support another cloud, add an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from gpu_platform.catalog import Catalog
from gpu_platform.online.aws.lookups import AwsCloud
from gpu_platform.online.azure.lookups import AzureCloud
from gpu_platform.online.finding import Lookup
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


def cloud_of(plan: EnvironmentPlan, catalog: Catalog, now: datetime) -> OnlineCloud | None:
    """Return the lookups in the cloud of a plan, or None if `doctor --online` does not support its cloud."""
    cloud = plan.cluster.cloud
    return _CLOUDS[cloud.kind](plan, catalog, now) if cloud is not None and cloud.kind in _CLOUDS else None

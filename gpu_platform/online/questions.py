"""All lookups of `doctor --online` for a stack: in its cloud, and for the software in its existing cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gpu_platform.catalog import Catalog
from gpu_platform.online.finding import Lookup
from gpu_platform.online.registry import cloud_of
from gpu_platform.planning.plan import EnvironmentPlan


def questions(plan: EnvironmentPlan, catalog: Catalog, now: datetime) -> Sequence[Lookup]:
    """Return the lookups in the order of the report. A sandbox has none."""
    # Imported only here, because importing the Kubernetes client takes a third of a second.
    from gpu_platform.online.cluster.lookups import installed_lookup

    cloud = cloud_of(plan, catalog, now)
    if cloud is None:
        return (installed_lookup(plan, None, catalog),) if plan.cluster.access == "kubeconfig" else ()
    existing = plan.cluster.cloud is not None and plan.cluster.cloud.create is None
    return (*cloud.lookups(), *((installed_lookup(plan, cloud.kubeconfig, catalog),) if existing else ()))

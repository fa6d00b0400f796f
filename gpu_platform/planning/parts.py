"""Lists the controllers that must not be installed twice in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import Chart
from gpu_platform.planning.addons import addon_parts
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.queues import queue_parts


def cluster_parts(plan: EnvironmentPlan, catalog: Catalog) -> tuple[PartPlan, ...]:
    """Return the controllers of an environment, whether the program or the owner of the cluster installs them.

    Their charts come from the repositories in the stack file.
    """
    cloud = plan.cluster.cloud
    parts = (
        *(cloud.parts if cloud is not None else ()),
        *plan.operator.parts,
        *queue_parts(plan.queues, catalog, trainer=plan.addons.has("trainer")),
        *addon_parts(plan.addons, catalog),
    )
    charts = cluster_charts(plan, catalog)
    return tuple(replace(one, chart=charts[one.chart.name]) if one.chart is not None else one for one in parts)


def cluster_charts(plan: EnvironmentPlan, catalog: Catalog) -> Mapping[str, Chart]:
    """Return the charts of the catalogue by name, with the repositories from the stack file."""
    return {
        name: chart.model_copy(update={"repository": plan.charts.repository_of(name) or chart.repository})
        for name, chart in catalog.charts.items()
    }

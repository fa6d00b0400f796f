"""Lists the controllers that a cluster must have only once."""

from __future__ import annotations

from gpu_platform.catalog import Catalog
from gpu_platform.planning.addons import addon_parts
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.queues import queue_parts


def cluster_parts(plan: EnvironmentPlan, catalog: Catalog) -> tuple[PartPlan, ...]:
    """Return the controllers of an environment, whether the program or the owner of the cluster installs them."""
    cloud = plan.cluster.cloud
    return (
        *(cloud.parts if cloud is not None else ()),
        *plan.operator.parts,
        *queue_parts(plan.queues, catalog, trainer=plan.addons.has("trainer")),
        *addon_parts(plan.addons, catalog),
    )

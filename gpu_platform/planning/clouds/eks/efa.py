"""Plan the EFA device plugin and the EFA DRA driver, which make EFA interfaces available to pods.

Sources: EKS user guide, "Run machine learning training on Amazon EKS with Elastic Fabric Adapter"; chart
aws-efa-k8s-device-plugin; kubernetes-sigs/karpenter#751 (huge pages); libfabric fi_efa(7); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import Chart
from gpu_platform.planning.clouds.daemonsets import UPDATE_STRATEGY
from gpu_platform.planning.clouds.eks.labels import EFA_PRESENT_LABEL
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.clouds.section import HelmChartPlan
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.pools.section import PoolPlan

CHART = "aws-efa-k8s-device-plugin"
DRANET_CHART = "aws-dranet"


def efa_device_plugin(pools: Sequence[PoolPlan], region: str, catalog: Catalog) -> HelmChartPlan:
    """Return the device plugin for all nodes with EFA interfaces. It tolerates the taints of their pools."""
    chart = catalog.charts[CHART]
    taints = {taint for pool in pools if pool.cloud_nodes.nic_resources for taint in pool.tolerated_by_daemons}
    return HelmChartPlan(
        name=chart.name,
        chart=chart.name,
        repository=chart.repository,
        version=chart.version,
        namespace=chart.namespace,
        values={
            **_image(chart, region, catalog),
            # The chart selects instance types that support EFA. This label is only on nodes that use EFA.
            "supportedInstanceLabels": {"keys": [EFA_PRESENT_LABEL], "values": ["true"]},
            "tolerations": [_toleration(taint) for taint in sorted(taints, key=lambda one: (one.key, one.effect))],
            "updateStrategy": UPDATE_STRATEGY,
        },
    )


def dranet(pools: Sequence[PoolPlan], region: str, catalog: Catalog) -> HelmChartPlan:
    """Return the EFA DRA driver for nodes whose pods claim EFA interfaces.

    By default its chart selects all instance types with EFA and tolerates no taint of GPU nodes. Sources: EKS user
    guide, Manage EFA devices; aws/eks-charts, stable/aws-dranet at commit 52396092; read 2026-11-23.
    """
    chart = catalog.charts[DRANET_CHART]
    taints = {
        taint
        for pool in pools
        if isinstance(pool.cloud, EksPoolPlan) and pool.cloud.dranet
        for taint in pool.tolerated_by_daemons
    }
    return HelmChartPlan(
        name=chart.name,
        chart=chart.name,
        repository=chart.repository,
        version=chart.version,
        namespace=chart.namespace,
        values={
            **_image(chart, region, catalog),
            "supportedInstanceLabels": {"keys": [names.EFA_DRIVER_LABEL], "values": ["dranet"]},
            "tolerations": [_toleration(taint) for taint in sorted(taints, key=lambda one: (one.key, one.effect))],
            "updateStrategy": UPDATE_STRATEGY,
        },
    )


def _image(chart: Chart, region: str, catalog: Catalog) -> Mapping[str, Any]:
    """Return the Helm value with the chart's image in the region, or an empty mapping if the region's registry is
    not known.

    The chart's default is the registry of us-west-2, which denies access to nodes in other partitions.
    """
    registry = catalog.eks_registries.get(region)
    if registry is None:
        return {}
    return {"image": {"repository": f"{registry.account}.dkr.ecr.{region}.amazonaws.com/{chart.eks_image}"}}


def _toleration(taint: Taint) -> Mapping[str, str]:
    return {"key": taint.key, "operator": "Exists", "effect": taint.effect}

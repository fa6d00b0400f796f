"""EFA in pods: the device plugin, and what a pod asks for.

Sources: EKS user guide, "Run machine learning training on Amazon EKS with Elastic Fabric Adapter"; chart
aws-efa-k8s-device-plugin; kubernetes-sigs/karpenter#751 (huge pages); libfabric fi_efa(7); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.labels import EFA_PRESENT_LABEL
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, HelmChartPlan, KarpenterPoolPlan
from gpu_platform.planning.pools.section import PoolPlan, Taint

CHART = "aws-efa-k8s-device-plugin"
NAMESPACE = "kube-system"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
HUGE_PAGES_RESOURCE = "hugepages-2Mi"
HUGE_PAGES = "5120Mi"


def efa_device_plugin(pools: Sequence[PoolPlan], catalog: Catalog) -> HelmChartPlan:
    """Return the device plugin for the nodes that have EFA interfaces, whatever the taints of their pools."""
    chart = catalog.charts[CHART]
    taints = {taint for pool in pools if efa_interfaces(pool) for taint in pool.taints}
    return HelmChartPlan(
        name=chart.name,
        chart=chart.name,
        repository=chart.repository,
        version=chart.version,
        namespace=NAMESPACE,
        values={
            # The chart's own list has types that can carry EFA; the label is on nodes that do.
            "supportedInstanceLabels": {"keys": [EFA_PRESENT_LABEL], "values": ["true"]},
            "tolerations": [_toleration(taint) for taint in sorted(taints, key=lambda one: (one.key, one.effect))],
        },
    )


def efa_interfaces(pool: PoolPlan) -> int:
    """Return how many EFA interfaces a node of the pool has; that is what the device plugin advertises."""
    match pool.cloud:
        case EksPoolPlan() as cloud:
            return sum(one.interface_type != "interface" for one in cloud.interfaces)
        case KarpenterPoolPlan() as cloud:
            return sum(
                one["interfaceType"] != "interface" for one in cloud.node_class.get("networkInterfaces", ())
            )
        case _:
            return 0


def efa_requests(pool: PoolPlan, gpus: int) -> Mapping[str, str]:
    """Return what a pod of `gpus` GPUs asks for beside them: with all GPUs of a node, all its EFA interfaces.

    Pods of fewer GPUs talk within their node. On Karpenter no huge pages: it knows none, and makes no node for a
    pod that waits for them; libfabric does without.
    """
    count = efa_interfaces(pool)
    if count == 0 or pool.sharing.mode != "none" or gpus < pool.gpus_per_node:
        return {}
    huge_pages = {} if isinstance(pool.cloud, KarpenterPoolPlan) else {HUGE_PAGES_RESOURCE: HUGE_PAGES}
    return {EFA_RESOURCE: str(count), **huge_pages}


def _toleration(taint: Taint) -> Mapping[str, str]:
    return {"key": taint.key, "operator": "Exists", "effect": taint.effect}

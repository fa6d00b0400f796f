"""Plan the charts and the IAM policies of Karpenter's controller.

Sources: Karpenter 1.14 docs, "Settings" and upgrade guide (CRDs); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.iam_policies import iam_policy
from gpu_platform.planning.clouds.eks.cluster_plan import KarpenterControllerPlan
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.resource_names import queue_name
from gpu_platform.planning.clouds.eks.vpc import plan_iam
from gpu_platform.stack.cluster import EksCluster

CHART = "karpenter"
CRD_CHART = "karpenter-crd"
SERVICE_ACCOUNT = "karpenter"
_EVENTS: Mapping[str, tuple[str, str]] = {
    "health": ("aws.health", "AWS Health Event"),
    "spot-interruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state-change": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation-interruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}


def karpenter_controller(
    cluster: EksCluster, pools: Sequence[KarpenterPoolPlan], catalog: Catalog
) -> KarpenterControllerPlan:
    """Return the plan for Karpenter's controller on a cluster that has Karpenter pools."""
    chart, crds = catalog.charts[CHART], catalog.charts[CRD_CHART]
    queue = queue_name(cluster.name)
    return KarpenterControllerPlan(
        cluster=cluster.name,
        region=cluster.region,
        iam=plan_iam(cluster),
        chart=chart.name,
        crd_chart=crds.name,
        repository=chart.repository,
        version=chart.version,
        namespace=chart.namespace,
        service_account=SERVICE_ACCOUNT,
        values=_values(cluster, queue),
        queue=queue,
        disk_keys=disk_keys(pools),
        events={name: {"source": [source], "detail-type": [kind]} for name, (source, kind) in _EVENTS.items()},
    )


def disk_keys(pools: Sequence[KarpenterPoolPlan]) -> tuple[str, ...]:
    """Return the sorted customer-managed keys that encrypt the disks of nodes."""
    devices = [device for pool in pools for device in pool.node_class["blockDeviceMappings"]]
    return tuple(sorted({device["ebs"]["kmsKeyID"] for device in devices if "kmsKeyID" in device["ebs"]}))


def _values(cluster: EksCluster, queue: str) -> Mapping[str, Any]:
    own = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    not_on_gpu_nodes = [
        {"key": label, "operator": "DoesNotExist"} for label in ("karpenter.sh/nodepool", names.POOL_LABEL)
    ]
    return {
        "replicas": 2 if cluster.production else 1,
        "serviceAccount": {"name": SERVICE_ACCOUNT},
        "settings": {
            "clusterName": cluster.name,
            "interruptionQueue": queue,
            "eksControlPlane": True,
            "featureGates": {"reservedCapacity": True},
        },
        "controller": {"resources": own},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": not_on_gpu_nodes}]
                }
            }
        },
    }


def queue_policy(queue_arn: str, rule_arns: list[str]) -> dict[str, Any]:
    """Return the policy of the interruption queue. Only these EventBridge rules may send messages to the queue."""
    return iam_policy("karpenter-queue", {"queue": queue_arn, "rules": sorted(rule_arns)})


def controller_policy(
    region: str, cluster: str, node_role_arn: str, queue_arn: str, disk_keys: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the IAM policy of the controller.

    It allows creating, tagging and deleting EC2 instances of this cluster, and reading prices. `disk_keys` are
    ARNs of the KMS keys that encrypt volumes, or ARNs of aliases of these keys.
    """
    keys = [key for key in disk_keys if ":alias/" not in key]
    aliases = [key for key in disk_keys if ":alias/" in key]
    owners = sorted({f"{alias.partition(':alias/')[0]}:key/*" for alias in aliases})
    return iam_policy(
        "karpenter-controller",
        {
            "partition": node_role_arn.split(":")[1],
            "account": node_role_arn.split(":")[4],
            "region": region,
            "cluster": cluster,
            "node_role": node_role_arn,
            "queue": queue_arn,
            "keys": _short(keys),
            "keys_of_aliases": _short(owners),
            "aliases": [alias.rpartition(":")[2] for alias in aliases],
        },
    )


def _short(resources: Sequence[str]) -> str | Sequence[str]:
    """Return a single resource as a string instead of a list, because IAM limits the length of a policy."""
    return resources[0] if len(resources) == 1 else resources

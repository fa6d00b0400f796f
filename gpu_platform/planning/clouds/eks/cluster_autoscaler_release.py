"""Plan the Helm release and the IAM policy of the Cluster Autoscaler.

All Kubernetes versions use the same release. Its image is built for one minor version, and also runs on
neighbouring versions.

Sources: kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md (auto-discovery) and the values of
the chart, commit 55c37cd5, 2026-08-22; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.iam_policies import iam_policy
from gpu_platform.planning.clouds.eks.cluster_autoscaler import SCALED_TAG, owned_tag, slow_start_flags
from gpu_platform.planning.clouds.eks.cluster_plan import ClusterAutoscalerPlan
from gpu_platform.planning.clouds.eks.vpc import plan_iam
from gpu_platform.planning.clouds.section import HelmChartPlan
from gpu_platform.planning.sharing.section import SharingPlan
from gpu_platform.stack.cluster import EksCluster

CHART: Final = "cluster-autoscaler"
SERVICE_ACCOUNT: Final = "cluster-autoscaler"


def cluster_autoscaler(
    cluster: EksCluster,
    partition: str,
    priorities: Mapping[int, Sequence[str]],
    scaled: Sequence[SharingPlan],
    catalog: Catalog,
) -> ClusterAutoscalerPlan:
    """Return the plan for the Cluster Autoscaler of a cluster with scaled managed node groups.

    `partition` is the AWS partition for ARNs. `priorities` contains patterns of Auto Scaling group names by
    priority. It is empty if pools have no order of preference. `scaled` contains the sharing plans of the scaled
    pools.
    """
    chart = catalog.charts[CHART]
    return ClusterAutoscalerPlan(
        cluster=cluster.name,
        release=HelmChartPlan(
            name=CHART,
            chart=chart.name,
            repository=chart.repository,
            version=chart.version,
            namespace=chart.namespace,
            values=_values(cluster, priorities, scaled),
        ),
        service_account=SERVICE_ACCOUNT,
        role=CHART,
        iam=plan_iam(cluster),
        policy=autoscaler_policy(cluster, partition),
    )


def _values(
    cluster: EksCluster, priorities: Mapping[int, Sequence[str]], scaled: Sequence[SharingPlan]
) -> Mapping[str, Any]:
    in_order = {"expanderPriorities": {str(key): list(value) for key, value in priorities.items()}}
    not_on_pools = [{"key": names.POOL_LABEL, "operator": "DoesNotExist"}]
    return {
        "fullnameOverride": CHART,
        "cloudProvider": "aws",
        "awsRegion": cluster.region,
        # EKS sets the first tag on every node group.
        # Only node groups of pools that may be scaled have the second tag.
        "autoDiscovery": {
            "clusterName": cluster.name,
            "tags": [f"{owned_tag(cluster.name)}=owned", f"{SCALED_TAG}={cluster.name}"],
        },
        "rbac": {"serviceAccount": {"name": SERVICE_ACCOUNT}},
        "replicaCount": 2 if cluster.production else 1,
        "resources": {"requests": {"cpu": "100m", "memory": "600Mi"}, "limits": {"memory": "600Mi"}},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": not_on_pools}]
                }
            }
        },
        # A pod may fit several pools with different CPU, memory and GPUs.
        # A new node is added to the pool where the pod leaves the least CPU and memory unused.
        # Every pool has a different label, so no two node groups are similar.
        # The flag balance-similar-node-groups would therefore have no effect.
        "extraArgs": {
            # The Node Readiness Controller sets this taint on new nodes.
            # The autoscaler recognises the program's other startup taint by its prefix.
            # Without the flag startup-taint, the autoscaler would conclude that no pod fits on a new node.
            # Source: kubernetes/autoscaler, utils/taints/taints.go; read 2026-11-29.
            "startup-taint": names.READINESS_TAINT_KEY,
            "expander": "priority,least-waste" if priorities else "least-waste",
            **slow_start_flags(scaled),
            "logtostderr": True,
            "stderrthreshold": "info",
            "v": 4,
        },
        **(in_order if priorities else {}),
    }


def autoscaler_policy(cluster: EksCluster, partition: str) -> Mapping[str, Any]:
    """Return the IAM policy. It allows all read operations, but allows writes only to scalable groups of this
    cluster.
    """
    return iam_policy(
        "cluster-autoscaler",
        {
            "partition": partition,
            "region": cluster.region,
            "account": cluster.account or "*",
            "cluster": cluster.name,
            "owned_tag": owned_tag(cluster.name),
            "scaled_tag": SCALED_TAG,
        },
    )

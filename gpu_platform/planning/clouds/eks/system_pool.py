"""Check and plan the nodes without GPUs of a new EKS cluster."""

from __future__ import annotations

from gpu_platform.planning.clouds.eks.cluster_plan import SystemPool
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.cluster import EksCluster
from gpu_platform.spec.eks_system import SystemNodes

_LEAST_IN_PRODUCTION = 2


def check_system_pool(cluster: EksCluster, system: SystemNodes, problems: Problems) -> None:
    """Record numbers that a production cluster cannot have, and an image of another Kubernetes version."""
    if cluster.production and system.min < _LEAST_IN_PRODUCTION:
        problems.at("min").add(
            f"{system.min} on a cluster with production: true",
            f"{_LEAST_IN_PRODUCTION} or more: the two replicas of Karpenter run on different nodes, and a node "
            "may fail",
            f"write min: {_LEAST_IN_PRODUCTION}, or production: false",
        )
    minor = system.release.rpartition(".")[0] if system.release is not None else None
    if minor is not None and cluster.kubernetes not in (None, minor):
        problems.at("release").add(
            f"{system.release!r} with cluster.kubernetes {cluster.kubernetes}",
            f"a release of Kubernetes {cluster.kubernetes}: nodes are upgraded with the cluster",
            f"name a release that begins with {cluster.kubernetes}, or remove release",
        )


def plan_system_pool(cluster: EksCluster, system: SystemNodes) -> Decided[SystemPool]:
    """Return the node group of the system nodes."""
    plan = SystemPool(
        instance_types=system.machine_types,
        ami_type="AL2023_x86_64_STANDARD",
        release_version=system.release,
        disk=BlockDevice(
            device_name="/dev/xvda",
            size_gib=system.disk_gb,
            volume_type="gp3",
            iops=None,
            throughput_mibps=None,
            kms_key=None,
        ),
        metadata_hop_limit=1,  # pods there get credentials by Pod Identity, never the node's
        min_size=system.min,
        desired_size=system.desired,
        max_size=system.max,
    )
    why = "for add-ons, Karpenter and the GPU Operator"
    if system == SystemNodes():
        why += (
            "; Prometheus, Ray heads, ingress and other controllers of your own need more: add a CPU pool, with "
            "workload general and a machine type without GPUs"
        )
    decision = Decision(
        subject=f"cluster {cluster.name}",
        what="system nodes",
        chosen=f"{system.desired} of {' or '.join(system.machine_types)}, {system.min} to {system.max}",
        why=why,
    )
    return Decided(plan, (decision,))

"""DaemonSets on a node, and the CPU, memory and pod slots that they use.

On EKS, the requests of all containers are: aws-node with its network policy agent 2 x 25m (aws/amazon-vpc-cni-k8s,
chart), kube-proxy 100m (add-on), ebs-csi-node 3 x 10m and 40 MiB (kubernetes-sigs/aws-ebs-csi-driver, chart),
eks-node-monitoring-agent 10m and 30 MiB with a DCGM server that requests nothing (v1.7.0, chart), the EFA device
plugin 10m and 20 MiB (aws/eks-charts), dranet 100m and 50 MiB (kubernetes-sigs/dranet, install.yaml), fsx-csi-node
30m and 104 MiB (v1.10.0, chart), s3-csi-node 10m and 40 MiB (awslabs/mountpoint-s3-csi-driver v2.7.0, chart). For
comparison, the DaemonSets in 18 clusters of 2i2c-org/infrastructure request 170m to 195m and 250 MiB, including
two of 2i2c's own DaemonSets.

GKE publishes no requests. Up to 344m and 596 MiB were measured in 12 clusters of 2i2c-org/infrastructure
(calico-node, fluentbit-gke, gke-metadata-server, gke-metrics-agent, ip-masq-agent, netd, pdcsi-node and two of
2i2c's own; daemonset_requests.yaml). kube-proxy, node-local-dns, the collector of managed Prometheus and GKE's
device plugin run on the nodes as well. The same amounts are assumed for machines outside any cloud.

AKS publishes no requests either. 226m and 300 MiB were measured in the AKS cluster of 2i2c-org/infrastructure
(cloud-node-manager, csi-azuredisk-node, csi-azurefile-node, kube-proxy and two of 2i2c's own). Cilium, which
replaces kube-proxy, requests 100 MiB (Azure/AKS#5244, 2025-09-02). azure-cns and azure-ip-masq-agent run on the
nodes as well.

The operator's operands request nothing by default (NVIDIA/gpu-operator v26.7.0, chart). The cluster's owner may
add other DaemonSets, which the stack file does not describe. The plan reserves room for two of them, such as a log
collector and an exporter. The two DaemonSets of 2i2c request 15m and 130 MiB together. All sources were read
2026-11-25, and those for AKS on 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import Catalog, MachineType


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSet:
    """One DaemonSet, or several DaemonSets of the same owner.

    CPU is in millicores and memory in MiB. `pods` is the number of pods on each node.
    """

    name: str
    cpu_millicores: int = 0
    memory_mib: int = 0
    pods: int = 1


HELM_SECONDS: Final = 900
"""How long Helm waits for the pods of a release that has a DaemonSet, before it rolls the release back."""
UPDATE_STRATEGY: Final[Mapping[str, Any]] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
"""Update strategy of DaemonSets in charts, which replaces their pods in at most ten steps.

A change of the tolerations, such as those for the taint of a new pool, replaces the pods on all nodes. Kubernetes
replaces one pod at a time by default, so on large clusters Helm would roll each change back. Sources:
kubernetes-sigs/node-feature-discovery v0.19.0, values.yaml of the chart; helm v3.20.2, pkg/kube/ready.go;
helm/helm#5219; kubernetes/kubernetes#117204; read 2026-11-30.
"""

OPERANDS_PER_NODE: Final = 12
"""Number of pods of the operator and of GPU Feature Discovery on a node, including validation pods that run once.
"""

DISCOVERY: Final = DaemonSet(name="Node Feature Discovery", cpu_millicores=5, memory_mib=64)
"""Node Feature Discovery, which the operator's chart installs. It also runs on nodes without GPUs.

Source: the chart's values.yaml, read 2026-11-28.
"""
AGENT: Final = DaemonSet(name="node agent", cpu_millicores=50, memory_mib=64)
"""The platform's node agent, which runs on every node."""
_OPERANDS: Final = DaemonSet(name="GPU Operator", pods=9)
"""Operands of the GPU Operator on a GPU node. They are the driver, toolkit, device plugin, MIG manager, validator,
DCGM, its exporter, and two feature discovery pods.
"""
_RESERVE: Final = DaemonSet(name="reserve for others", cpu_millicores=100, memory_mib=130, pods=2)

EKS: Final = (
    DaemonSet(name="aws-node", cpu_millicores=50),
    DaemonSet(name="kube-proxy", cpu_millicores=100),
    DaemonSet(name="ebs-csi-node", cpu_millicores=30, memory_mib=120),
    DaemonSet(name="eks-pod-identity-agent"),
    DaemonSet(name="eks-node-monitoring-agent", cpu_millicores=10, memory_mib=30, pods=2),
)
EFA_PLUGIN: Final = DaemonSet(name="EFA device plugin", cpu_millicores=10, memory_mib=20)
DRANET: Final = DaemonSet(name="EFA DRA driver", cpu_millicores=100, memory_mib=50)
_EFS: Final = DaemonSet(name="efs-csi-node")
_FSX: Final = DaemonSet(name="fsx-csi-node", cpu_millicores=30, memory_mib=104)
_S3: Final = DaemonSet(name="s3-csi-node", cpu_millicores=10, memory_mib=40)
EKS_VOLUMES: Final[Mapping[str, tuple[DaemonSet, str]]] = {
    "nfs": (_EFS, "aws-efs-csi-driver"),
    "efs": (_EFS, "aws-efs-csi-driver"),
    "lustre": (_FSX, "aws-fsx-csi-driver"),
    "fsx-lustre": (_FSX, "aws-fsx-csi-driver"),
    "bucket": (_S3, "aws-mountpoint-s3-csi-driver"),
}
"""Node DaemonSet and EKS add-on for each type of storage class, and for each type of existing storage."""
GKE: Final = DaemonSet(name="GKE's own", cpu_millicores=344, memory_mib=596, pods=11)
AKS: Final = DaemonSet(name="AKS' own", cpu_millicores=226, memory_mib=400, pods=6)
INFINIBAND: Final = DaemonSet(name="InfiniBand", cpu_millicores=10, memory_mib=32, pods=3)
"""The driver and the device plugin of the Network Operator, which request nothing, and the pod that raises the
limit of locked memory.
"""
_OWNERS: Final = DaemonSet(name="the owner's", cpu_millicores=344, memory_mib=596, pods=11)

_INSTALLER_MILLICORES: Final = 150
_INSTALLER_MIB: Final = 64
_MIB: Final = 2**20


def on_nodes(of_cloud: Iterable[DaemonSet], *, operands: bool) -> tuple[DaemonSet, ...]:
    """Return all DaemonSets on a node, including the node agent and a reserve for DaemonSets of the cluster's
    owner.

    `of_cloud` contains the cloud's DaemonSets. If `operands` is true, the GPU Operator's pods are included.
    """
    return (*of_cloud, *((_OPERANDS,) if operands else ()), AGENT, _RESERVE)


def of_pod(name: str, spec: Mapping[str, Any]) -> DaemonSet:
    """Return the requests that kube-scheduler counts for a pod.

    For each resource, this is the larger of two values: the sum over all containers and the largest request of an
    init container.
    """
    cpu, memory = _amount(spec, "cpu"), _amount(spec, "memory")
    return DaemonSet(name=name, cpu_millicores=int(-(-cpu * 1000 // 1)), memory_mib=int(-(-memory // _MIB)))


def _amount(spec: Mapping[str, Any], resource: str) -> Decimal:
    together = sum(_requests(spec.get("containers", ()), resource), Decimal(0))
    return max([together, *_requests(spec.get("initContainers", ()), resource)])


def _requests(containers: Iterable[Mapping[str, Any]], resource: str) -> Iterator[Decimal]:
    for container in containers:
        yield parse_quantity(container.get("resources", {}).get("requests", {}).get(resource, 0))


def most_of(machine: MachineType) -> tuple[DaemonSet, ...]:
    """Return every DaemonSet that can run on a node of a machine type, whatever the stack file contains."""
    rdma = machine.rdma_interfaces > 0
    match machine.vendor:
        case "aws":
            found = (*EKS, _EFS, _FSX, _S3, *((DRANET,) if rdma else ()))
        case "gcp":
            # One DaemonSet installs the driver.
            # With GPUDirect, two more DaemonSets install the network plugin and the device injector.
            count = 3 if rdma else 1
            installers = DaemonSet(
                name="installers",
                cpu_millicores=_INSTALLER_MILLICORES * count,
                memory_mib=_INSTALLER_MIB * count,
                pods=count,
            )
            found = (GKE, installers)
        case "azure":
            found = (AKS, *((INFINIBAND,) if rdma else ()))
        case _:
            found = (_OWNERS,)
    return on_nodes(found, operands=True)


def pause_container(catalog: Catalog) -> Mapping[str, Any]:
    """Return the container that stays in a DaemonSet's pod after the init containers have changed the node."""
    return {
        "name": "pause",
        "image": catalog.images["pause"].reference,
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "8Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65535,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }

"""DaemonSets on a node, and the CPU, memory and pod slots that they use.

The catalogue's node_daemonsets.yaml contains the DaemonSets of clouds.

The operator's operands request nothing by default (NVIDIA/gpu-operator v26.7.0, chart). The cluster's owner may
add other DaemonSets, which the stack file does not describe. The plan reserves room for two of them, such as a log
collector and an exporter. The two DaemonSets of 2i2c request 15m and 130 MiB together. All sources were read
2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import Catalog, MachineType, NodeDaemonSet, VendorName, load_catalog


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
    counted = ("always", "with-setting", *(("with-fabric",) if machine.rdma_interfaces > 0 else ()))
    found = (
        one
        for one in load_catalog().node_daemonsets.values()
        if one.vendor == machine.vendor and one.runs in counted
    )
    return on_nodes(map(_planned, found), operands=True)


def own_of(vendor: VendorName, catalog: Catalog) -> tuple[DaemonSet, ...]:
    """Return the DaemonSets that a cloud runs on all nodes."""
    found = catalog.node_daemonsets.values()
    return tuple(_planned(one) for one in found if one.vendor == vendor and one.runs == "always")


def named(name: str, catalog: Catalog) -> DaemonSet:
    """Return a DaemonSet of the catalogue."""
    return _planned(catalog.node_daemonsets[name])


def _planned(fact: NodeDaemonSet) -> DaemonSet:
    return DaemonSet(
        name=fact.name, cpu_millicores=fact.cpu_millicores, memory_mib=fact.memory_mib, pods=fact.pods
    )


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

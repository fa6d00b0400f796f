"""Decide mounts, annotations and sidecars with which pods use the GPU NICs, by the vendor's test pods.

EFA is not here: it is a resource that pods request. The admission policies of a team's namespace allow what is
decided here and nothing else (`teams/fabric.py`).

Sources: GoogleCloudPlatform/container-engine-accelerators, gpudirect-*; its best-practice.md for the daemon as
sidecar, without which no Job would end; catalog/facts/fabric_pods.yaml. Read 2026-11-24.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, FabricDaemon, FabricPods
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.section import WorkloadPlan
from gpu_platform.planning.workloads.section import MountPlan, PodFabricPlan, SidecarPlan

_DEFAULT_INTERFACE: Final = "networking.gke.io/default-interface"
_INTERFACES: Final = "networking.gke.io/interfaces"
_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"


def plan_pod_fabric(workload: WorkloadPlan, pool: PoolPlan, catalog: Catalog) -> PodFabricPlan | None:
    """Return what a pod needs for the GPU NICs of its node; None: nothing, or it has not all GPUs of the node."""
    node = pool.cloud_nodes.node_fabric
    whole = workload.resource == names.GPU_RESOURCE and pool.sharing.mode == "none"
    if node is None or not whole or workload.units != pool.gpus_per_node:
        return None
    fact = catalog.fabric_pods[node.name]
    return PodFabricPlan(
        annotations={**_networks(node.networks, fact), **_devices(fact.daemon)},
        mounts=tuple(_mount(path, host, fact) for path, host in fact.mounts.items()),
        env=fact.env,
        library_path=fact.library_path,
        profile=fact.profile,
        sidecar=None if fact.daemon is None else _sidecar(fact.daemon, fact, catalog),
    )


def _networks(networks: tuple[str, ...], fact: FabricPods) -> Mapping[str, str]:
    """Return the annotations by which a pod joins GPU networks; a pod that claims the NICs has none."""
    if not networks:
        return {}
    joined = [
        {"interfaceName": f"eth{fact.first_interface + index}", "network": network}
        for index, network in enumerate(networks)
    ]
    interfaces = [{"interfaceName": "eth0", "network": "default"}, *joined]
    return {_DEFAULT_INTERFACE: "eth0", _INTERFACES: json.dumps(interfaces)}


def _devices(daemon: FabricDaemon | None) -> Mapping[str, str]:
    """Return the annotation by which the daemon gets devices."""
    if daemon is None:
        return {}
    return {daemon.annotation: "".join(f"- path: /dev/{device}\n" for device in daemon.devices)}


def _sidecar(daemon: FabricDaemon, fact: FabricPods, catalog: Catalog) -> SidecarPlan:
    return SidecarPlan(
        name=daemon.name,
        image=catalog.images[daemon.release].reference,
        command=daemon.command,
        args=daemon.arguments,
        env={_LIBRARY_PATH: ":".join(fact.library_path)},
        mounts=tuple(_mount(path, host, fact) for path, host in daemon.mounts.items()),
        capabilities=daemon.capabilities,
        cpu=daemon.cpu,
        memory=daemon.memory,
    )


def _mount(path: str, host: str, fact: FabricPods) -> MountPlan:
    """Return a mount of a host path; a folder in which daemon and job meet is one of the pod instead."""
    shared = fact.daemon is not None and host in fact.writable and host in fact.daemon.mounts.values()
    return MountPlan(
        name="gpudirect" + host.replace("/", "-").replace("_", "-"),
        path=path,
        host_path=None if shared else host,
        read_only=host in fact.read_only,
    )

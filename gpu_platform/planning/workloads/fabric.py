"""Choose the mounts, variables, annotations and sidecars for pods that use GPU NICs.

GPUDirect on GKE needs more than Pod Security allows. The pods are like the vendor's test pods, and the admission
policies of a team's namespace allow only these settings (`teams/fabric.py`). The NICs' daemon runs as a sidecar,
because otherwise no Job would finish. NICs that pods request as a resource need only variables and files.
Sources: GoogleCloudPlatform/container-engine-accelerators, gpudirect-*, and its best-practice.md for the sidecar;
catalog/facts/fabric_pods.yaml. Read 2026-11-24.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, FabricDaemon, FabricPods
from gpu_platform.planning.clouds.section import CloudNodes
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.section import WorkloadPlan
from gpu_platform.planning.workloads.section import MountPlan, PodFabricPlan, SidecarPlan

_DEFAULT_INTERFACE: Final = "networking.gke.io/default-interface"
_INTERFACES: Final = "networking.gke.io/interfaces"
_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"


def plan_pod_fabric(workload: WorkloadPlan, pool: PoolPlan, catalog: Catalog) -> PodFabricPlan | None:
    """Return the settings that a pod needs to use the GPU NICs of its node.

    Return None if no settings are needed, or if the pod does not have all GPUs of the node.
    """
    if pool.cloud_nodes.network_environment and (workload.network or workload.nic_claim is not None):
        return _requested_nics(pool.cloud_nodes)
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


def _requested_nics(nodes: CloudNodes) -> PodFabricPlan:
    """Return the settings for NICs that a pod requests or claims."""
    files = () if nodes.network_file is None else (nodes.network_file,)
    return PodFabricPlan(
        mounts=tuple(
            MountPlan(name=file.config_map, path=file.directory, config_map=file.config_map, read_only=True)
            for file in files
        ),
        env=nodes.network_environment,
    )


def _networks(networks: tuple[str, ...], fact: FabricPods) -> Mapping[str, str]:
    """Return the annotations that connect a pod to the GPU networks. The result is empty if the pod claims the
    NICs.
    """
    if not networks:
        return {}
    joined = [
        {"interfaceName": f"eth{fact.first_interface + index}", "network": network}
        for index, network in enumerate(networks)
    ]
    interfaces = [{"interfaceName": "eth0", "network": "default"}, *joined]
    return {_DEFAULT_INTERFACE: "eth0", _INTERFACES: json.dumps(interfaces)}


def _devices(daemon: FabricDaemon | None) -> Mapping[str, str]:
    """Return the annotation that makes devices of the node available to the daemon's container."""
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
    """Return a mount of a host path. If the daemon and the job share a directory, a volume of the pod is mounted
    instead.
    """
    shared = fact.daemon is not None and host in fact.writable and host in fact.daemon.mounts.values()
    return MountPlan(
        name="gpudirect" + host.replace("/", "-").replace("_", "-"),
        path=path,
        host_path=None if shared else host,
        read_only=host in fact.read_only,
    )

"""Plan InfiniBand on AKS: NVIDIA's Network Operator, its NicClusterPolicy, and the limit of locked memory.

The Network Operator installs the DOCA driver and the SR-IOV network device plugin, as in Azure's guide. The plugin
gives a NIC to one pod, so pods request as many NICs as belong to their GPUs. NCCL needs neither a network
interface nor an address in the pod, and no privileges.

The NICs read the memory of GPUs through DMA-BUF, which NVIDIA recommends. With `driver.rdma.enabled`, the GPU
Operator would load nvidia-peermem instead. It would then wait for the DOCA driver on every GPU node with a NIC of
NVIDIA, and Azure's Ethernet NICs may be such NICs. On nodes without InfiniBand, it would wait forever.

The GPU Operator's Node Feature Discovery labels these Ethernet NICs as well. A label of the program selects the
nodes, so that the DOCA driver does not restart the network of other nodes.

Sources: github.com/Azure/aks-rdma-infiniband, commit c739db5 of 2026-07-14; Mellanox/network-operator v26.4.1
(manifests, pkg/state); NVIDIA/gpu-operator v26.7.0 (cmd/nvidia-validator, deployments) and its docs, "GPUDirect
RDMA and GPUDirect Storage"; read 2026-11-30.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, InfinibandSeries, MachineType
from gpu_platform.planning.clouds.aks.plan import InfinibandPlan
from gpu_platform.planning.clouds.aks.topology import neighbours, topology_file, topology_path
from gpu_platform.planning.clouds.daemonsets import pause_container
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.section import AccountNeed, CloudNodes, DaemonSetPlan, FabricNics, HelmChartPlan
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.system_priorities import NODE_CRITICAL
from gpu_platform.stack.aks import AksCluster
from gpu_platform.stack.pool import Pool

CHART: Final = "network-operator"
FEATURE: Final = "AKSInfinibandSupport"
"""Feature of a subscription with which AKS creates all nodes of a pool in one placement group, on one fabric."""
_DRIVER_IMAGE: Final = "doca-driver"
_PLUGIN_IMAGE: Final = "sriov-network-device-plugin"
_HOST_TOOLS_IMAGE: Final = "node-agent-python"  # a Debian image that is used only for nsenter


def register(subscription: str) -> str:
    """Return the instruction that registers the feature."""
    return (
        f"run az feature register --subscription {subscription} --namespace Microsoft.ContainerService "
        f"--name {FEATURE}"
    )


def infiniband_of(pool: Pool, machine: MachineType, catalog: Catalog) -> InfinibandSeries | None:
    """Return the series of a pool whose pods use InfiniBand, or None. By default, training pools use it."""
    wanted = pool.network.rdma if pool.network.rdma is not None else pool.workload == "training"
    return catalog.infiniband(machine) if wanted else None


def check_infiniband(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record a problem for pools that cannot use InfiniBand, or whose nodes would not be on one fabric."""
    series = infiniband_of(pool, machine, catalog)
    if series is None:
        if pool.network.rdma:
            _refuse(machine, problems.at("network").at("rdma"))
        return
    if len(pool.zones or ()) > 1:
        problems.at("zones").add(
            f"{', '.join(pool.zones or ())} with InfiniBand",
            "one zone, because an InfiniBand fabric is in one data center",
            f'write zones: ["{(pool.zones or ("1",))[0]}"], or network: {{rdma: false}}',
        )
    if pool.count.maximum > series.most_nodes:
        problems.at("count").add(
            f"up to {counted(pool.count.maximum, 'node')} with InfiniBand",
            f"at most {series.most_nodes}, because the nodes of a fabric are one placement group of a scale set",
            f"write at most {series.most_nodes} nodes, or network: {{rdma: false}}; two pools are two fabrics",
        )
    if pool.count.is_range and pool.count.min == 0:
        problems.at("count").at("min").add(
            f"0 nodes that offer {names.INFINIBAND_RESOURCE}",
            "1 or more; when it scales up from zero nodes, AKS's autoscaler does not expect InfiniBand NICs on a "
            "new node, so it adds no node for pods that request them",
            "write `min: 1`, or network: {rdma: false}",
        )


def _refuse(machine: MachineType, problems: Problems) -> None:
    if not machine.rdma_interfaces:
        problems.add(
            f"true on {machine.name}",
            "false, because the machine type has no InfiniBand interfaces",
            "remove rdma; NCCL then uses TCP between nodes",
        )
        return
    problems.add(
        f"true on {machine.name}",
        "false, because AKS's node image for this size has its own DOCA driver, and no topology file for NCCL is "
        "published for the size",
        "write rdma: false; NCCL then uses NVLink within a rack, and TCP between racks",
    )


def with_infiniband(nodes: CloudNodes, series: InfinibandSeries, subscription: str) -> CloudNodes:
    """Return the nodes of a pool with the NICs that its pods request, and with the settings that NCCL needs."""
    near = neighbours(series)
    nics = _nic_count(series)
    return replace(
        nodes,
        nic_resources={names.INFINIBAND_RESOURCE: nics},
        network_requests={names.INFINIBAND_RESOURCE: str(nics)},
        network_environment={**series.nccl, "NCCL_TOPO_FILE": topology_path(series)},
        network_file=topology_file(series),
        fabric_nics=FabricNics(kind="infiniband", count=nics, neighbours=near),
        account_needs=(_needed(subscription),),
    )


def _needed(subscription: str) -> AccountNeed:
    return AccountNeed(
        name=f"feature {FEATURE}",
        why="InfiniBand: without the feature, AKS may put the nodes of a pool on different fabrics. It must be "
        "registered before the pool is created",
        fix=f"{register(subscription)}, wait until az feature show prints Registered, then run "
        f"az provider register --subscription {subscription} --namespace Microsoft.ContainerService",
    )


def _nic_count(series: InfinibandSeries) -> int:
    return sum(len(switch.nics) for numa in series.numa_nodes for switch in numa.switches)


def plan_infiniband(pools: Sequence[PoolPlan], catalog: Catalog) -> InfinibandPlan:
    """Return the plan for a cluster whose pools use InfiniBand."""
    chart = catalog.charts[CHART]
    taints = {taint for pool in pools if pool.cloud_nodes.nic_resources for taint in pool.tolerated_by_daemons}
    return InfinibandPlan(
        release=HelmChartPlan(
            name=chart.name,
            chart=chart.name,
            repository=chart.repository,
            version=chart.version,
            namespace=chart.namespace,
            # The GPU Operator already runs Node Feature Discovery. The chart's rule would repeat its label.
            values={"nfd": {"enabled": False, "deployNodeFeatureRules": False}},
        ),
        nic_cluster_policy=_nic_cluster_policy(sorted(taints, key=lambda one: (one.key, one.effect)), catalog),
        locked_memory=_locked_memory(catalog),
    )


def plan_network_operator(cluster: AksCluster) -> PartPlan:
    """Return the Network Operator as a controller that the program or the cluster's owner installs."""
    return PartPlan(
        name="network_operator",
        title="Network Operator",
        install=cluster.parts.network_operator == "install",
        kind="Deployment",
        label="network-operator",
        image="cloud-native/network-operator",
        alone="two operators would replace each other's drivers and device plugins",
    )


def explain_infiniband(cluster: AksCluster, part: PartPlan) -> Iterator[Decision]:
    """Yield decisions about InfiniBand that apply to the whole cluster."""
    subject = f"cluster {cluster.name}"
    if not part.install:
        yield Decision(
            subject=subject,
            what=part.title,
            chosen="present",
            why="the owner of the cluster installs it, with a NicClusterPolicy that advertises each InfiniBand "
            f"NIC as {names.INFINIBAND_RESOURCE} on nodes with the label {names.INFINIBAND_LABEL} and tolerates "
            "their taints; the owner also raises the limit of locked memory of the nodes' container runtime",
        )
        return
    yield Decision(
        subject=subject,
        what=part.title,
        chosen="installed, with the DOCA driver and a device plugin for InfiniBand NICs",
        why="the operator compiles the driver on each node. This takes minutes and needs a route to "
        "archive.ubuntu.com. A newer driver is loaded only on new nodes, because loading it ends the transfers of "
        "running pods",
    )


def explain_pool(
    pool: Pool, machine: MachineType, catalog: Catalog, *, by_aks: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield the name, value and reason of each choice about InfiniBand for a pool, as text.

    `by_aks` means that AKS installs the driver of the GPUs.
    """
    series = infiniband_of(pool, machine, catalog)
    if series is None:
        if machine.rdma_interfaces:
            why = _without(pool, machine, catalog)
            yield "InfiniBand", "not used", f"{why}; NCCL uses TCP between nodes"
        return
    yield (
        "InfiniBand",
        f"{counted(_nic_count(series), 'NIC')} of {series.rate_gbps} Gbit/s as {names.INFINIBAND_RESOURCE}",
        f"a pod with all GPUs requests all NICs; all nodes are on one fabric if the feature {FEATURE} was "
        "registered before the pool was created. Network policies do not apply to InfiniBand, so pods of all "
        "teams on the pool's nodes reach each other there",
    )
    if by_aks:
        yield (
            "GPUDirect RDMA",
            "depends on the driver that AKS installs",
            "NICs read the memory of GPUs only with the open kernel modules; the burn-in measures the bandwidth",
        )


def _without(pool: Pool, machine: MachineType, catalog: Catalog) -> str:
    if catalog.infiniband(machine) is None:
        return "the program does not set it up on this machine type"
    return "the stack file sets it" if pool.network.rdma is False else "only training pools use it by default"


def _nic_cluster_policy(taints: Sequence[Taint], catalog: Catalog) -> Mapping[str, Any]:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": names.INFINIBAND_LABEL, "operator": "In", "values": ["true"]},
                        ]
                    }
                ]
            }
        },
        "tolerations": [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints],
        "ofedDriver": {
            **_image(_DRIVER_IMAGE, catalog),
            # An automatic upgrade would drain the nodes.
            "upgradePolicy": {"autoUpgrade": False},
        },
        "sriovDevicePlugin": {
            **_image(_PLUGIN_IMAGE, catalog),
            "config": json.dumps({"resourceList": [_resource()]}),
        },
    }


def _resource() -> Mapping[str, Any]:
    """Return the resource of the device plugin. It selects InfiniBand NICs, but not Azure's Ethernet NIC."""
    prefix, name = names.INFINIBAND_RESOURCE.split("/")
    return {
        "resourcePrefix": prefix,
        "resourceName": name,
        "selectors": {"vendors": ["15b3"], "linkTypes": ["infiniband"], "isRdma": True},
    }


def _image(name: str, catalog: Catalog) -> Mapping[str, str]:
    """Return an image as the Network Operator expects it: repository, name and version."""
    path, _, version = catalog.images[name].reference.rpartition(":")
    repository, _, image = path.rpartition("/")
    return {"repository": repository, "image": image, "version": version}


def _locked_memory(catalog: Catalog) -> DaemonSetPlan:
    """Return the DaemonSet that lifts the limit of locked memory of the container runtime on each node.

    Programs register (lock) the memory that a NIC reads. AKS has no setting for the limit, and pods that do not
    run as root cannot have CAP_IPC_LOCK. New containers inherit the limit of containerd and its shims. The file is
    for the next start of containerd, which the script does not restart. The script also raises the limit of
    running pods, so that the node agent does not report the old limit. On nodes with memory hardening, containerd
    is in kubereserved.slice instead of system.slice.

    Sources: Azure/AKS#4893; Azure/AgentBaker 06836ee, cse_config.sh (ensureKubelet); AKS docs, "Customize node
    configuration" (a DaemonSet for other settings); systemd.exec, LimitMEMLOCK; prlimit(1); NVIDIA Dynamo docs,
    "RDMA / InfiniBand on AKS"; read 2026-11-30.
    """
    script = (
        "set -eu",
        "mkdir -p /etc/systemd/system/containerd.service.d",
        "printf '[Service]\\nLimitMEMLOCK=infinity\\n' > /etc/systemd/system/containerd.service.d/50-memlock.conf",
        "systemctl daemon-reload",
        "groups=/sys/fs/cgroup",
        "runtime=$groups$(systemctl show containerd --property ControlGroup --value)",
        "found=$(find $runtime $groups/kubepods.slice -name cgroup.procs)",
        "for process in $(cat $found); do",
        "  prlimit --memlock=unlimited:unlimited --pid $process || echo process $process has ended",
        "done",
        "",
    )
    limits = {
        "name": "raise-limit",
        "image": catalog.images[_HOST_TOOLS_IMAGE].reference,
        # The script runs in the namespaces of the host.
        "command": ["nsenter", "--all", "--target", "1", "--", "bash", "-c"],
        "args": ["\n".join(script)],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": {"privileged": True},
    }
    return DaemonSetPlan(
        name="infiniband-locked-memory",
        namespace="kube-system",
        pod_spec={
            "priorityClassName": NODE_CRITICAL,
            "automountServiceAccountToken": False,
            "hostPID": True,
            "nodeSelector": {names.INFINIBAND_LABEL: "true"},
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [limits],
            "containers": [pause_container(catalog)],
        },
    )

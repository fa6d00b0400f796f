"""Computes the facts that are expected of every node in a pool: its NVML readings, and its Node object in
Kubernetes.
"""

from __future__ import annotations

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.clouds.section import CloudNodes
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.expectations.hardware import DeclaredNode, expectations_for_machine
from gpu_platform.planning.expectations.section import (
    NIC_DEVICES,
    RESOURCE_SLICES,
    Expectations,
    NodeExpectation,
    PoolExpectations,
)
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.planning.sharing.sharing import layout_of_gpu


def plan(context: CompleteContext, requirements: NodeRequirements, nodes: CloudNodes) -> PoolExpectations:
    """Return the expected facts of every node of a pool. `nodes` are the nodes that the pool's cloud creates."""
    return PoolExpectations(
        hardware=_hardware(requirements, context, nodes),
        node=_node(requirements, context.cloud, context.catalog, nodes),
    )


def _hardware(requirements: NodeRequirements, context: CompleteContext, nodes: CloudNodes) -> Expectations:
    """Return the values that the node agent expects on a pool's nodes.

    They are empty for a pool without GPUs, because the agent does not run there.
    """
    machine, sharing = requirements.machine, requirements.sharing
    if requirements.gpu is None:
        return Expectations(requirements.pool.name, machine.name, {})
    layouts = None
    # With partitions, the DRA driver changes the MIG mode and instances when claims are created or deleted.
    if requirements.gpu.mig is not None and not sharing.partitions:
        layouts = [layout_of_gpu(sharing, index) for index in range(machine.gpu_count)]
    part = "layouts" if any(entry.devices is not None for entry in sharing.mig_layouts) else "layout"
    declared = DeclaredNode(
        pool=requirements.pool.name,
        driver_version=requirements.driver_version,
        driver_source=_driver_source(requirements, context),
        # The operator updates drivers node by node, and clouds update drivers with new images.
        # The drivers of other nodes are updated by the owner of the nodes.
        driver_rolled=requirements.software.driver == "operator" or requirements.pool.image.driver is not None,
        driver_at_boot=requirements.software.driver == "installer",
        driver_remedy=_driver_remedy(requirements),
        mig_layouts=layouts,
        mps=sharing.mode == "mps",
        # Nodes of an alternative machine type may have other NICs.
        nics=None if requirements.pool.alternatives else nodes.fabric_nics,
        nics_source=f"stack: {requirements.path}.network on machine type {machine.name} ({machine.source})",
        mig_source=f"stack: {sharing.source}.{part}"
        if sharing.mig_layouts
        else f"stack: {sharing.source} (no MIG)",
        mig_config=requirements.labels.get(names.MIG_CONFIG_LABEL, ""),
        # The platform does not change labels of nodes that a selector selects, because their owner sets them.
        mig_rolled=requirements.pool.nodes is None or not requirements.pool.nodes.selector,
    )
    return expectations_for_machine(machine, context.catalog, declared)


def _driver_source(requirements: NodeRequirements, context: CompleteContext) -> str:
    if requirements.pool.image.driver is not None:
        return f"stack: {requirements.path}.image.driver"
    if context.operator.driver.version is not None:
        return "stack: operator.driver.version"
    return f"default driver of operator {context.operator.release}"


def _driver_remedy(requirements: NodeRequirements) -> str:
    """Return how a node gets the driver that is expected on it."""
    match requirements.software.driver:
        case "operator":
            return (
                "wait for the operator's driver rollout on this node; if none begins, the driver is from the "
                "host or from an operator that the owner installed"
            )
        case "installer":
            return "the node gets the driver when it boots: drain it, then reboot or replace it"
        case _ if requirements.pool.image.driver is not None:
            return (
                "replace the node when its pods have finished; if it already has the image in the stack file, "
                f"correct {requirements.path}.image.driver"
            )
        case _ if requirements.pool.nodes is not None:
            return "install the driver on the node, or correct operator.driver.version"
        case _:
            return (
                "correct operator.driver.version, or replace the node if its image is older than the current one"
            )


def _node(requirements: NodeRequirements, cloud: Cloud, catalog: Catalog, nodes: CloudNodes) -> NodeExpectation:
    """Return the `v1/Node` objects that are expected in a pool after the GPUs and NICs have been advertised."""
    machine, sharing, software = requirements.machine, requirements.sharing, requirements.software
    nic_resources, nics = nodes.nic_resources, nodes.nic_devices
    published = nics if nics is not None and nics.driver is not None else None
    devices, domain = requirements.devices, catalog.nvlink_domain(machine)
    # GPU Feature Discovery labels nodes with their NVLink domain.
    # The operator runs GPU Feature Discovery only together with the device plugin.
    of_domain = domain is not None and software.device_plugin == "operator"
    of_machine = f"machine type {machine.name} ({machine.source})"
    of_sharing = f"stack: {sharing.source}"
    expected = dict(requirements.labels)
    sources = dict.fromkeys(requirements.labels, f"stack: {requirements.path}")
    if software.device_plugin == "cloud":
        of_cloud = cloud.pools.gpu_labels(machine, sharing)
        expected |= of_cloud
        sources |= dict.fromkeys(of_cloud, f"{of_sharing} on {of_machine}")
    # GPU Feature Discovery runs only with the operator.
    # With MIG strategy `single`, GPU Feature Discovery's labels name the MIG profile and count the instances.
    # If MIG instances are shared, only the label for the instances changes.
    # Source: k8s-device-plugin v0.20.0, internal/lm/mig-strategy.go, newGPULabelers; read 2026-11-29.
    if requirements.gpu is not None and software.device_plugin == "operator" and sharing.mig_strategy != "single":
        unrenamed = sharing.shares(names.GPU_RESOURCE) and not sharing.renamed
        expected[names.GPU_PRODUCT_LABEL] = requirements.gpu.product_label + ("-SHARED" if unrenamed else "")
        expected[names.GPU_COUNT_LABEL] = str(machine.gpu_count)
        sources |= {names.GPU_PRODUCT_LABEL: of_machine, names.GPU_COUNT_LABEL: of_machine}
    if sharing.mig_config is not None:
        expected[names.MIG_STATE_LABEL] = "success"
        sources[names.MIG_STATE_LABEL] = of_sharing
    return NodeExpectation(
        pool=requirements.pool.name,
        # With DRA, GPUs are not extended resources; a device plugin would advertise the same GPUs again.
        allocatable=({} if devices else {offer.name: offer.per_node for offer in requirements.resources})
        | {**nic_resources},
        gpu_devices=machine.gpu_count if devices else None,
        one_clique=of_domain,
        nic_driver=published.driver if published is not None else None,
        nic_devices=published.per_node if published is not None else 0,
        nvlink_domain=domain.most_nodes if domain is not None else None,
        mig_profiles=tuple(device.profile for device in devices if device.profile is not None),
        labels=expected,
        taints=tuple(
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in requirements.taints
        ),
        sources=sources
        | {offer.name: f"{of_sharing} on {counted(machine.gpu_count, 'GPU')}" for offer in requirements.resources}
        | dict.fromkeys(nic_resources, f"stack: {requirements.path}.network on {of_machine}")
        | ({names.GPU_CLIQUE_LABEL: of_machine} if of_domain else {})
        | ({NIC_DEVICES: f"stack: {requirements.path}.network on {of_machine}"} if published is not None else {})
        | ({RESOURCE_SLICES: f"{of_sharing} on {of_machine}"} if devices else {}),
    )

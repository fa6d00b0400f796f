"""What every node of a pool must turn out to be: for NVML on the node, and for Kubernetes from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from gpu_platform import names
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.dra.section import DeviceOffer
from gpu_platform.planning.pools.section import PoolPlan, Taint
from gpu_platform.planning.pools.software import NodeSoftware
from gpu_platform.planning.sharing.section import ResourceOffer, SharingPlan
from gpu_platform.planning.sharing.sharing import layout_of_gpu
from gpu_platform.spec.cluster import Operator
from validators.expectations import RESOURCE_SLICES, Expectations, NodeExpectation, expectations_for_machine


def hardware_expectations(
    pool: str,
    path: str,
    machine: MachineType,
    sharing: SharingPlan,
    operator: Operator,
    image_driver: str | None,
    driver_version: str | None,
    catalog: Catalog,
) -> Expectations:
    """Return what the node agent holds a pool's nodes against. `image_driver`: what the pool says of its image."""
    if image_driver is not None:
        driver_source = f"stack: {path}.image.driver"
    elif operator.driver.version is not None:
        driver_source = "stack: operator.driver.version"
    else:
        driver_source = f"default driver of operator {operator.release}"
    layouts = None
    # With partitions the DRA driver changes MIG mode and instances as claims come and go.
    if catalog.gpu_of(machine).mig is not None and not sharing.partitions:
        layouts = [layout_of_gpu(sharing, index) for index in range(machine.gpu_count)]
    part = "layouts" if any(entry.devices is not None for entry in sharing.mig_layouts) else "layout"
    return expectations_for_machine(
        machine,
        catalog,
        pool=pool,
        driver_version=driver_version,
        driver_source=driver_source,
        mig_layouts=layouts,
        mig_source=f"stack: {sharing.source}.{part}"
        if sharing.mig_layouts
        else f"stack: {sharing.source} (no MIG)",
    )


def node_expectation(
    pool: str,
    path: str,
    machine: MachineType,
    product_label: str,
    sharing: SharingPlan,
    software: NodeSoftware,
    resources: tuple[ResourceOffer, ...],
    labels: Mapping[str, str],
    taints: tuple[Taint, ...],
    devices: tuple[DeviceOffer, ...],
) -> NodeExpectation:
    """Return what a pool's `v1/Node` objects should say once whoever offers its GPUs has done the work."""
    of_machine = f"machine type {machine.name} ({machine.source})"
    of_sharing = f"stack: {sharing.source}"
    expected = dict(labels)
    sources = dict.fromkeys(labels, f"stack: {path}")
    if software.device_plugin == "gke":
        of_gke = _labels_of_gke(machine, sharing)
        expected |= of_gke
        sources |= dict.fromkeys(of_gke, f"{of_sharing} on {of_machine}")
    # Feature discovery is an operand. Single renames the product and counts instances, not GPUs.
    if software.device_plugin == "operator" and sharing.mig_strategy != "single":
        unrenamed = sharing.replicas > 1 and not sharing.renamed
        expected[names.GPU_PRODUCT_LABEL] = product_label + ("-SHARED" if unrenamed else "")
        expected[names.GPU_COUNT_LABEL] = str(machine.gpu_count)
        sources |= {names.GPU_PRODUCT_LABEL: of_machine, names.GPU_COUNT_LABEL: of_machine}
    if sharing.mig_config is not None:
        expected[names.MIG_STATE_LABEL] = "success"
        sources[names.MIG_STATE_LABEL] = of_sharing
    return NodeExpectation(
        pool=pool,
        # With DRA a node has no extended resources: those of a device plugin would be the same GPUs again.
        allocatable={} if devices else {offer.name: offer.per_node for offer in resources},
        gpu_devices=machine.gpu_count if devices else None,
        mig_profiles=tuple(device.profile for device in devices if device.profile is not None),
        labels=expected,
        taints=tuple({"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints),
        sources=sources
        | {offer.name: f"{of_sharing} on {machine.gpu_count} GPUs" for offer in resources}
        | ({RESOURCE_SLICES: f"{of_sharing} on {of_machine}"} if devices else {}),
    )


def _labels_of_gke(machine: MachineType, sharing: SharingPlan) -> Mapping[str, str]:
    """Return what GKE says of the GPUs on nodes whose device plugin is its own."""
    labels = {names.GKE_ACCELERATOR_LABEL: machine.accelerator_label} if machine.accelerator_label else {}
    if sharing.replicas > 1:
        labels[names.GKE_SHARING_STRATEGY_LABEL] = "mps" if sharing.mode == "mps" else "time-sharing"
        labels[names.GKE_SHARED_CLIENTS_LABEL] = str(sharing.replicas)
    if sharing.mig_layouts:
        labels[names.GKE_PARTITION_SIZE_LABEL] = next(iter(sharing.mig_layouts[0].layout))
    return labels


def validation_pod_security(pools: Sequence[PoolPlan]) -> Literal["baseline", "privileged"]:
    """Return the pod security level that the node agent needs: privileges only where no runtime brings NVML."""
    return "privileged" if any(pool.software.gpu_access.privileged for pool in pools) else "baseline"

"""What every node of a pool must turn out to be: for NVML on the node, and for Kubernetes from outside."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_platform import names
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.plan import ResourceOffer, SharingPlan, Taint
from gpu_platform.planning.sharing import layout_of_gpu
from gpu_platform.spec.cluster import Operator
from validators.expectations import Expectations, NodeExpectation, expectations_for_machine


def hardware_expectations(
    pool: str,
    path: str,
    machine: MachineType,
    sharing: SharingPlan,
    operator: Operator,
    driver_version: str | None,
    catalog: Catalog,
) -> Expectations:
    """Return what the node agent holds a pool's nodes against."""
    said = operator.driver.version is not None
    driver_source = "stack: operator.driver.version" if said else f"default driver of operator {operator.release}"
    layouts = None
    if catalog.gpu_of(machine).mig is not None:
        layouts = [layout_of_gpu(sharing, index) for index in range(machine.gpu_count)]
    part = "layouts" if any(entry.devices is not None for entry in sharing.mig_layouts) else "layout"
    return expectations_for_machine(
        machine,
        catalog,
        pool=pool,
        driver_version=driver_version,
        driver_source=driver_source,
        mig_layouts=layouts,
        mig_source=f"stack: {path}.sharing.{part}" if sharing.mig_layouts else f"stack: {path}.sharing (no MIG)",
    )


def node_expectation(
    pool: str,
    path: str,
    machine: MachineType,
    product_label: str,
    sharing: SharingPlan,
    resources: tuple[ResourceOffer, ...],
    labels: Mapping[str, str],
    taints: tuple[Taint, ...],
) -> NodeExpectation:
    """Return what a pool's `v1/Node` objects should say once the operator has done its work."""
    of_machine = f"machine type {machine.name} ({machine.source})"
    of_sharing = f"stack: {path}.sharing"
    expected = dict(labels)
    sources = dict.fromkeys(labels, f"stack: {path}")
    if sharing.mig_strategy != "single":  # single renames the product and counts instances, not GPUs
        unrenamed = sharing.replicas > 1 and not sharing.renamed
        expected[names.GPU_PRODUCT_LABEL] = product_label + ("-SHARED" if unrenamed else "")
        expected[names.GPU_COUNT_LABEL] = str(machine.gpu_count)
        sources |= {names.GPU_PRODUCT_LABEL: of_machine, names.GPU_COUNT_LABEL: of_machine}
    if sharing.mig_config is not None:
        expected[names.MIG_STATE_LABEL] = "success"
        sources[names.MIG_STATE_LABEL] = of_sharing
    return NodeExpectation(
        pool=pool,
        allocatable={offer.name: offer.per_node for offer in resources},
        labels=expected,
        taints=tuple({"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints),
        sources=sources | {offer.name: f"{of_sharing} on {machine.gpu_count} GPUs" for offer in resources},
    )

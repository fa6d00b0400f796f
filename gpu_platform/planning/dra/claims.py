"""Plans device classes and claims. Decides which devices the DRA driver publishes and which of them meet a
request, and writes CEL selectors.

Source: kubernetes-sigs/dra-driver-nvidia-gpu, resourceslice-attributes, cmd/gpu-kubelet-plugin; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import Catalog, Gpu, MachineType
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.dra.cel import check_cel, selector_notes
from gpu_platform.planning.dra.section import ClaimPlan, DeviceClassPlan, DeviceOffer
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing.section import ResourceOffer
from gpu_platform.stack.claims import Claim, DeviceClass, DeviceRequirements

_ATTRIBUTES = f"device.attributes['{names.DRA_DRIVER}']"
_CAPACITY = f"device.capacity['{names.DRA_DRIVER}']"
_MIB = 1024 * 1024


# -- published devices -----------------------------------------------------------------------------------


def offered_devices(machine: MachineType, gpu: Gpu, *, partitions: bool) -> tuple[DeviceOffer, ...]:
    """Return the kinds of devices that one node publishes."""
    whole = DeviceOffer(
        type="gpu", product=gpu.product, profile=None, memory_mib=gpu.memory_mib, per_node=machine.gpu_count
    )
    profiles = gpu.mig.profiles if partitions and gpu.mig is not None else ()
    return (
        whole,
        *(
            DeviceOffer(
                type="mig",
                product=gpu.product,
                profile=profile.name,
                memory_mib=profile.memory_mib,
                per_node=profile.max_instances * machine.gpu_count,
            )
            for profile in profiles
        ),
    )


def class_resources(devices: Sequence[DeviceOffer]) -> tuple[ResourceOffer, ...]:
    """Return the resources of one node, grouped by the driver's device classes. MIG instances use the same GPUs as
    whole-GPU devices.
    """
    gpus = sum(device.per_node for device in devices if device.type == "gpu")
    instances = max((device.per_node for device in devices if device.type == "mig"), default=0)
    whole = ResourceOffer(name=names.GPU_DEVICE_CLASS, per_node=gpus, gpus=gpus)
    if not instances:
        return (whole,)
    return (whole, ResourceOffer(name=names.MIG_DEVICE_CLASS, per_node=instances, gpus=gpus))


# -- requests --------------------------------------------------------------------------------------------


def type_of(demand: DeviceRequirements) -> Literal["gpu", "mig"]:
    """Return `gpu` for a request for whole GPUs, or `mig` for a request for MIG instances."""
    if isinstance(demand, DeviceClass) and demand.type is not None:
        return demand.type
    return "mig" if demand.profile is not None else "gpu"


def class_of(claim: Claim) -> str:
    """Return the device class of a claim."""
    if claim.device_class is not None:
        return claim.device_class
    return names.MIG_DEVICE_CLASS if type_of(claim) == "mig" else names.GPU_DEVICE_CLASS


def demands_of(
    claim: Claim, classes: Mapping[str, DeviceClass]
) -> tuple[Literal["gpu", "mig"], list[DeviceRequirements]]:
    """Return the device type of a claim, and the requirements of both the claim and its class.

    The class of the claim must exist.
    """
    name = class_of(claim)
    declared = classes.get(name)
    if declared is not None:
        return type_of(declared), [declared, claim]
    return "mig" if name == names.MIG_DEVICE_CLASS else "gpu", [claim]


def meets(device: DeviceOffer, kind: str, demands: Iterable[DeviceRequirements], catalog: Catalog) -> bool:
    """Return whether a kind of device meets the typed fields of all requirements.

    Declared CEL is not evaluated.
    """
    return device.type == kind and all(
        (demand.memory is None or device.memory_mib * _MIB >= parse_quantity(demand.memory))
        and (demand.product is None or device.product == _product(demand.product, catalog))
        and (demand.profile is None or device.profile == demand.profile)
        for demand in demands
    )


def _product(spelling: str, catalog: Catalog) -> str:
    gpu = catalog.find_gpu(spelling)
    return spelling if gpu is None else gpu.product


def selectors(demand: DeviceRequirements, catalog: Catalog) -> Iterator[str]:
    """Yield requirements as CEL expressions. A device must match all of them."""
    if demand.product is not None:
        yield f"{_ATTRIBUTES}.productName == '{_product(demand.product, catalog)}'"
    if demand.profile is not None:
        yield f"{_ATTRIBUTES}.profile == '{demand.profile}'"
    if demand.memory is not None:
        # A GPU whose memory is unknown has no `memory` capacity, and an expression that reads it would fail.
        known = f"'memory' in {_CAPACITY}"
        yield f"{known} && {_CAPACITY}.memory.compareTo(quantity('{demand.memory}')) >= 0"
    if demand.selector is not None:
        yield demand.selector


def plan_device_class(name: str, declared: DeviceClass, catalog: Catalog) -> DeviceClassPlan:
    """Return the DeviceClass for a device class in the stack file."""
    of_driver = f"device.driver == '{names.DRA_DRIVER}' && {_ATTRIBUTES}.type == '{type_of(declared)}'"
    return DeviceClassPlan(name=name, selectors=(of_driver, *selectors(declared, catalog)))


def plan(context: CompleteContext) -> Decided[tuple[DeviceClassPlan, ...]]:
    """Return the DeviceClasses of an environment, and warnings about their selectors."""
    declared = context.environment.device_classes
    notes = [note for name, one in declared.items() for note in selector_decisions(f"device class {name}", one)]
    return Decided(
        tuple(plan_device_class(name, one, context.catalog) for name, one in declared.items()), tuple(notes)
    )


def plan_claim(claim: Claim, catalog: Catalog) -> ClaimPlan:
    """Return the ResourceClaimTemplate for a claim."""
    return ClaimPlan(
        name=claim.name,
        device_class=class_of(claim),
        count=claim.count,
        selectors=tuple(selectors(claim, catalog)),
    )


def selector_decisions(subject: str, demand: DeviceRequirements) -> Iterator[Decision]:
    """Yield a warning, which `check` prints, for each part of a CEL selector that is probably unintended."""
    for note in selector_notes(demand.selector) if demand.selector is not None else ():
        yield Decision(subject=subject, what="warning: selector", chosen=note.what, why=note.why)


# -- checks ----------------------------------------------------------------------------------------------


def check_demand(demand: DeviceRequirements, catalog: Catalog, here: Problems) -> None:
    """Record a problem for an unknown product or invalid CEL."""
    if demand.product is not None and catalog.find_gpu(demand.product) is None:
        known = [gpu.model for gpu in catalog.gpus.values()]
        fix = did_you_mean(demand.product, known) or "use the common name, or spell it as NVML does"
        here.at("product").add(f"{demand.product!r}", f"one of the {len(known)} GPU models in the catalogue", fix)
    mistake = check_cel(demand.selector) if demand.selector is not None else None
    if mistake is not None:
        here.at("selector").add(mistake.found, mistake.allowed, mistake.fix)


def check_demands_met(
    kind: Literal["gpu", "mig"],
    demands: Sequence[DeviceRequirements],
    devices: Sequence[DeviceOffer],
    count: int,
    catalog: Catalog,
    here: Problems,
) -> None:
    """Record a problem if no kind of device meets the requirements, or if a node does not have `count` such
    devices.

    `here` records problems at the last requirement.
    """
    if any(demand.product is not None and catalog.find_gpu(demand.product) is None for demand in demands):
        return  # a problem for the unknown product has already been recorded
    of_kind = [device for device in devices if device.type == kind]
    if not of_kind:
        here.add(
            "MIG instances" if kind == "mig" else "whole GPUs",
            "devices that a pool publishes with DRA: " + ("whole GPUs" if devices else "nothing"),
            "write sharing: {mode: dra, partitions: true} in a pool"
            if kind == "mig"
            else "add a pool with mode: dra",
        )
        return
    meeting = [device for device in of_kind if meets(device, kind, demands, catalog)]
    if not meeting:
        field = next((name for name in ("memory", "profile", "product") if getattr(demands[-1], name)), None)
        place = here if field is None else here.at(field)
        place.add(
            " and ".join(_demand_text(demands)),
            "a device of a pool: " + ", ".join(dict.fromkeys(_device_text(device) for device in of_kind)),
            "lower the requirements, or add a pool with such devices",
        )
        return
    most = max(device.per_node for device in meeting)
    if count > most:
        here.at("count").add(
            str(count),
            f"at most {most}, because all devices of a pod are on one node",
            "split the work across several pods",
        )


def _demand_text(demands: Sequence[DeviceRequirements]) -> Iterator[str]:
    for demand in demands:
        yield from (
            f"{name} {value}" for name in ("memory", "profile", "product") if (value := getattr(demand, name))
        )


def _device_text(device: DeviceOffer) -> str:
    what = f"{device.profile} of {device.product}" if device.profile else device.product
    return f"{what} ({device.memory_mib}Mi)"

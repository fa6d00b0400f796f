"""Explains in sentences why a pool was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extensions.capacity.suggest.choose import ChosenPool
from extensions.capacity.suggest.options import Option, PodRequest
from gpu_platform.base.quantity import counted

_MODE_NAMES = {"none": "whole", "mig": "mig", "mps": "mps", "time-slicing": "shared"}


def mode_name(option: Option) -> str:
    """Return a short name for the sharing mode of a pool. The pool's name contains this short name."""
    return _MODE_NAMES[option.mode]


def reasons(chosen: ChosenPool, requests: Sequence[PodRequest]) -> tuple[str, ...]:
    """Return the reasons for a pool: its pods, its mode, and why the pods fit."""
    held: dict[int, dict[str, int]] = {}
    for (number, slot), count in chosen.pods.items():
        held.setdefault(number, {})[slot] = count
    lines = [_pods(requests[number], slots) for number, slots in held.items()]
    if chosen.option.reservation is not None:
        lines.insert(0, f"on reservation {chosen.option.reservation.name}: paid for whether it is used or not")
    return (*lines, *_mode(chosen.option, [requests[number] for number in held]), _fit(chosen))


def _pods(request: PodRequest, slots: dict[str, int]) -> str:
    count = sum(slots.values())
    where = ", ".join(slots) if not {"gpu", "share"} & set(slots) else ""
    need = f"{request.memory_mib} MiB" + (f" and {request.compute:g} of a GPU" if request.compute < 1 else "")
    if request.gpus > 1:
        need = (
            f"{request.gpus} GPUs" + (" with NVLink" if request.nvlink else "") + f" of {request.memory_mib} MiB"
        )
    if request.rdma:
        need += ", with RDMA between nodes"
    each = " each" if count > 1 else ""
    return f"holds {count} of {counted(request.count, 'pod')} of {request.name}: {need}{each}" + (
        f", in {where}" if where else ""
    )


def _mode(option: Option, requests: Sequence[PodRequest]) -> Iterator[str]:
    gpu = option.gpu
    match option.mode:
        case "none":
            if any(request.gpus > 1 for request in requests):
                yield "whole GPUs: a pod with several GPUs does not share them"
            else:
                yield (
                    "whole GPUs: the rules allow no cheaper sharing mode that holds these pods, and "
                    f"{gpu.product} has enough memory"
                )
        case "mig":
            assert gpu.mig is not None  # noqa: S101 - only such GPUs are cut
            domains = sorted({request.domain for request in requests})
            several = f": {', '.join(domains)} may share a GPU only this way" if len(domains) > 1 else ""
            yield f"MIG: each instance has separate memory, compute and fault isolation{several}"
            if len(option.layouts) > 1:
                yield "the GPUs of a node have different layouts, because one layout for all would cost more"
            for name in option.profiles:
                profile = gpu.mig.profile(name)
                if profile is not None:
                    part = f"{profile.compute_slices}/{gpu.mig.compute_slices}"
                    yield f"{name}: {profile.memory_mib} MiB and {part} of the compute"
        case "mps":
            yield (
                f"MPS: pods of trust domain {option.domain} run side by side without time slices; {_share(option)}"
            )
        case "time-slicing":
            yield f"time-slicing: development pods of trust domain {option.domain} take turns; {_share(option)}"


def _share(option: Option) -> str:
    whole = option.gpu.memory_mib
    each = f"{whole // option.replicas} of {whole} MiB"
    return f"each of {option.replicas} replicas has {each} and an equal part of the GPU"


def _fit(chosen: ChosenPool) -> str:
    slots = ", ".join(f"{count * chosen.nodes} {_slot_name(name)}" for name, count in chosen.option.slots.items())
    resources = chosen.option.allocatable
    return (
        f"{slots} on {chosen.nodes} x {resources.cpu_millicores / 1000:g} CPU "
        f"and {resources.memory_mib} MiB for pods; "
        "every pod is proven to fit"
    )


def _slot_name(slot: str) -> str:
    return {"gpu": "GPUs", "share": "shares"}.get(slot, slot)

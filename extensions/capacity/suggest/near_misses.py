"""Searches for small reductions of a request that make the pools much cheaper, such as 95 CPUs instead of 96."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from extensions.capacity.suggest.check import Priced
from extensions.capacity.suggest.choose import all_pods_on_node, cheapest_mix
from extensions.capacity.suggest.options import PodRequest, Reservation, free_of_machine, options_for
from gpu_platform.catalog import Catalog

Field = Literal["cpu", "memory", "gpu_memory"]

MOST_CUT: Final = 0.1
"""Largest fraction by which a request may be reduced. Larger reductions are not reported as near misses."""
LEAST_SAVING: Final = 0.05
"""Smallest fraction of the total price that a reduction must save to be reported."""
_TRIED = 4
_CORE, _GIB = 1000, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    """A small reduction of a workload's request that saves money.

    If `field` of the workload had `value` instead of `declared`, all pools would cost `usd_per_hour`. Values are
    in millicores for `cpu`, otherwise in MiB.
    """

    workload: str
    field: Field
    declared: int
    value: int
    usd_per_hour: float


def near_misses(
    requests: Sequence[PodRequest],
    machines: Sequence[Priced],
    catalog: Catalog,
    usd_per_hour: float,
    *,
    seconds: float,
    reservations: Sequence[Reservation] = (),
) -> tuple[NearMiss, ...]:
    """Return the best near miss for each workload and field, with the largest saving first.

    `machines` contains the machines of the chosen vendor, and `usd_per_hour` is the cost of the mix found. Each
    reduction is first tried with its workload alone. The reductions that save most are then tried with all
    workloads, each for `seconds`.
    """
    tried: list[tuple[float, int, Field, int, PodRequest]] = []
    for number, request in enumerate(requests):
        alone = _alone(request, machines, catalog)
        for field, value in sorted(set(_cuts(request, machines, catalog))):
            cut = _with(request, field, value)
            saved = alone - _alone(cut, machines, catalog)
            if saved >= LEAST_SAVING * usd_per_hour:
                tried.append((-saved, number, field, -value, cut))
    found: dict[tuple[int, Field], NearMiss] = {}
    for _, number, field, value, cut in sorted(tried, key=lambda one: one[:4])[:_TRIED]:
        changed = [cut if index == number else request for index, request in enumerate(requests)]
        mix = cheapest_mix(changed, options_for(changed, machines, catalog, reservations), seconds=seconds)
        best = found.get((number, field))
        least = best.usd_per_hour if best is not None else usd_per_hour * (1 - LEAST_SAVING)
        if mix is not None and mix.usd_per_hour < least:
            found[number, field] = NearMiss(
                workload=cut.name,
                field=field,
                declared=_value(requests[number], field),
                value=-value,
                usd_per_hour=mix.usd_per_hour,
            )
    return tuple(sorted(found.values(), key=lambda one: one.usd_per_hour))


def _alone(request: PodRequest, machines: Sequence[Priced], catalog: Catalog) -> float:
    """Return the cost of one workload on nodes of a single kind, in USD/h."""
    holding = [
        (option, pods)
        for option in options_for([request], machines, catalog)
        if (pods := all_pods_on_node(option, request))
    ]
    return min(-(-request.count // pods) * option.usd_per_hour for option, pods in holding)


def _cuts(request: PodRequest, machines: Sequence[Priced], catalog: Catalog) -> Iterator[tuple[Field, int]]:
    """Yield each field with the values that would let a node, GPU or MIG instance hold one more pod."""
    nodes = {free_of_machine(machine, request.kind) for machine, _ in machines}
    gpus = {gpu.model: gpu for gpu in (catalog.gpu_of(machine) for machine, _ in machines)}
    pod = request.pod
    for node in nodes:
        yield from _within("cpu", pod.cpu_millicores, node.cpu_millicores, _CORE)
        yield from _within("memory", pod.memory_mib, node.memory_mib, _GIB)
    for gpu in gpus.values():
        sizes = [profile.memory_mib for profile in gpu.mig.profiles] if gpu.mig is not None else []
        for size in (gpu.memory_mib, *sizes):
            yield from _within("gpu_memory", request.memory_mib, size, _GIB)


def _within(field: Field, declared: int, there: int, round_to: int) -> Iterator[tuple[Field, int]]:
    """Yield the largest value below `declared` that lets one more pod fit, if the reduction is small.

    The value is rounded down if the reduction remains small.
    """
    if not declared:
        return
    value = there // (there // declared + 1)
    for one in (value // round_to * round_to, value):
        if declared * (1 - MOST_CUT) <= one < declared:
            yield field, one
            return


def _value(request: PodRequest, field: Field) -> int:
    return {
        "cpu": request.pod.cpu_millicores,
        "memory": request.pod.memory_mib,
        "gpu_memory": request.memory_mib,
    }[field]


def _with(request: PodRequest, field: Field, value: int) -> PodRequest:
    match field:
        case "cpu":
            return replace(request, pod=request.pod._replace(cpu_millicores=value))
        case "memory":
            return replace(request, pod=request.pod._replace(memory_mib=value))
        case "gpu_memory":
            return replace(request, memory_mib=value)

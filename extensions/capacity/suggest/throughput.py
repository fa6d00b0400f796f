"""Training throughput of a pool per USD, and the machine type with the highest throughput per USD.

The cheapest pool that holds a training job is often slow, so the job is billed for more hours. Throughput is the
data sheet's dense bfloat16 figure (`tensor_tflops` in the catalogue). Training programs reach only part of this
throughput.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extensions.capacity.suggest.choose import ChosenPool, cheapest_mix
from extensions.capacity.suggest.options import Option, PodRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class MostWork:
    """The machine type with the highest throughput per USD, and what such machines cost for the same pods."""

    machine_type: str
    nodes: int
    usd_per_hour: float
    tflops_per_usd_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Dense bfloat16 throughput of a pool, in TFLOP/s and in TFLOP/s per USD/h.

    `most` is None if no machine type has a higher throughput per USD.
    """

    tflops: float
    tflops_per_usd_hour: float
    most: MostWork | None


def throughput(chosen: ChosenPool, requests: Sequence[PodRequest], options: Sequence[Option]) -> Throughput | None:
    """Return the throughput of a training pool of whole GPUs.

    The result is None for other pools, for pools on a reservation, and if the throughput of the GPU is unknown.
    """
    of_node = _tflops(chosen.option)
    if of_node is None or chosen.option.kind != "training" or chosen.option.reservation is not None:
        return None
    per_usd = of_node / chosen.option.usd_per_hour
    return Throughput(
        tflops=of_node * chosen.nodes, tflops_per_usd_hour=per_usd, most=_most(chosen, requests, options, per_usd)
    )


def _most(
    chosen: ChosenPool, requests: Sequence[PodRequest], options: Sequence[Option], per_usd: float
) -> MostWork | None:
    same = chosen.requests(requests)
    better = [
        (tflops / option.usd_per_hour, option)
        for option in options
        if option.kind == chosen.option.kind
        and option.reservation is None
        and (tflops := _tflops(option)) is not None
        and tflops / option.usd_per_hour > per_usd
        and all(request.fits_machine(option.machine, option.gpu) for request in same)
    ]
    for found, option in sorted(better, key=lambda one: (-one[0], one[1].machine.name)):
        mix = cheapest_mix(same, [option], seconds=1.0)
        if mix is not None:
            [pool] = mix.pools
            return MostWork(
                machine_type=option.machine.name,
                nodes=pool.nodes,
                usd_per_hour=pool.usd_per_hour,
                tflops_per_usd_hour=found,
            )
    return None


def _tflops(option: Option) -> float | None:
    """Return the throughput of a node with whole GPUs, or None."""
    each = option.gpu.tensor_tflops
    return each * option.machine.gpu_count if each is not None and option.mode == "none" else None

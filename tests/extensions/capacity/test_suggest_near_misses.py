"""A slightly smaller request is reported as a near miss only if it makes the pools much cheaper."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from extensions.capacity.suggest import Suggestion, suggest
from extensions.capacity.suggest.demands import Demands
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.load import parse_document

_ADAPTER = TypeAdapter(Demands)


def _suggest(*workloads: dict[str, Any], **rest: Any) -> Suggestion:
    document = {"workloads": list(workloads), **rest}
    return suggest(parse_document(document, "workloads.yaml", _ADAPTER), "workloads.yaml", load_catalog())


def _want(name: str = "pretrain", **rest: Any) -> dict[str, Any]:
    base = {"name": name, "kind": "training", "count": 8, "trust_domain": "a", "gpu_memory": "70GB", "gpus": 8}
    return {**base, "memory": "256Gi", **rest}


def test_a_cpu_less_that_fits_a_machine_at_half_the_price_is_named() -> None:
    # A p4de.24xlarge has 96 vCPUs, but pods can use only 95.69 of them.
    # A p5.48xlarge costs twice as much.
    families = ["p4de", "p5"]
    found = _suggest(_want(cpu="96"), machine_families=families)
    (miss,) = found.near_misses
    assert (miss.workload, miss.field, miss.declared, miss.value) == ("pretrain", "cpu", 96_000, 95_000)
    cut = _suggest(_want(cpu="95"), machine_families=families)
    assert miss.usd_per_hour == pytest.approx(cut.usd_per_hour) == pytest.approx(8 * 27.44705)
    assert found.usd_per_hour == pytest.approx(8 * 55.04)


def test_what_no_small_cut_makes_cheaper_has_no_near_miss() -> None:
    assert _suggest(_want(cpu="95"), machine_families=["p4de", "p5"]).near_misses == ()


def test_a_cut_of_more_than_a_tenth_is_no_near_miss() -> None:
    assert _suggest(_want(cpu="110"), machine_families=["p4de", "p5"]).near_misses == ()


def test_gpu_memory_just_above_a_cheaper_gpu_is_a_near_miss() -> None:
    want = _want("chat", kind="inference", gpus=1, count=4, gpu_memory="16Gi", cpu="1", memory="4Gi")
    other = {**want, "name": "rank", "count": 1, "gpu_memory": "8Gi"}
    found = _suggest(want, other, machine_families=["g4dn", "g6"], provider="aws")
    (miss,) = found.near_misses
    # A T4 has 15 GiB and costs 0.526 USD/h. An L4 costs 0.8048 USD/h.
    assert (miss.workload, miss.field, miss.value) == ("chat", "gpu_memory", 15 * 1024)
    assert miss.usd_per_hour == pytest.approx(5 * 0.526)


def test_a_cut_is_measured_by_what_daemonsets_leave_of_a_node() -> None:
    # A g6.xlarge has 3.92 CPUs, minus the requests of the DaemonSets.
    # A pod with 3.54 CPUs fits on a g6.xlarge, but a pod with 3.7 CPUs does not.
    chat = _want("chat", kind="inference", count=1, gpu_memory="20GB", gpus=1, cpu="3700m", memory="4Gi")
    found = _suggest(chat, machine_families=["g6"])
    assert [(one.field, one.value) for one in found.near_misses] == [("cpu", 3540)]

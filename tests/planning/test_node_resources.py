"""What pods can use of a node, against the examples that the providers publish."""

from __future__ import annotations

import datetime

import pytest

from gpu_platform.catalog import MachineType, Source
from gpu_platform.planning.nodes.allocatable import allocatable, capacity


def _machine(provider: str, vcpu: int, memory_mib: int) -> MachineType:
    return MachineType.model_validate(
        {
            "name": "m",
            "vendor": provider,
            "gpu": "g",
            "gpu_count": 1,
            "vcpu": vcpu,
            "memory_mib": memory_mib,
            "source": Source(title="test", date=datetime.date(2026, 1, 1)),
        }
    )


@pytest.mark.parametrize(
    ("vcpu", "reserved_millicores"),
    [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (96, 310)],
)
def test_cpu_is_kept_back_by_bands_of_cores(vcpu: int, reserved_millicores: int) -> None:
    for provider in ("aws", "gcp", "on-prem"):
        left = allocatable(_machine(provider, vcpu, 65536))
        assert left.cpu_millicores == vcpu * 1000 - reserved_millicores


@pytest.mark.parametrize(
    ("gib", "reserved_gib"),
    [(4, 1.0), (8, 1.8), (16, 2.6), (128, 9.32), (1024, 27.24)],
)
def test_gke_keeps_memory_back_by_bands_and_an_eviction_threshold(gib: int, reserved_gib: float) -> None:
    left = allocatable(_machine("gcp", 8, gib * 1024))
    assert left.memory_mib == pytest.approx(gib * 1024 - reserved_gib * 1024 - 100, abs=1)


def test_eks_keeps_memory_back_by_the_number_of_pods() -> None:
    machine = _machine("aws", 96, 1_179_648)
    assert capacity(machine).memory_mib - allocatable(machine).memory_mib == 255 + 11 * 110 + 100

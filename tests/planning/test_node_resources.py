"""Node resources that pods can use, compared with the examples that the providers publish."""

from __future__ import annotations

import datetime

import pytest

from gpu_platform.catalog import MachineType, Source, load_catalog
from gpu_platform.planning.clouds.aks.plan import MAX_PODS
from gpu_platform.planning.nodes.allocatable import allocatable, capacity
from sandbox.simulator.allocatable import node_allocatable


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
    ("vcpu", "reserved_millicores"),
    [(1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740)],
)
def test_aks_reserves_the_cpu_in_the_table_of_its_documentation(vcpu: int, reserved_millicores: int) -> None:
    left = allocatable(_machine("azure", vcpu, 65536))
    assert left.cpu_millicores == vcpu * 1000 - reserved_millicores


@pytest.mark.parametrize(
    ("gib", "reserved_mib"),
    [(4, 1024), (8, 2048), (16, 20 * MAX_PODS + 50), (1900, 20 * MAX_PODS + 50)],
)
def test_aks_reserves_memory_for_its_pods_but_at_most_a_quarter(gib: int, reserved_mib: int) -> None:
    left = allocatable(_machine("azure", 8, gib * 1024))
    assert left.memory_mib == gib * 1024 - reserved_mib - 100


def test_simulated_nodes_of_azure_have_the_planned_resources() -> None:
    for machine in load_catalog().machine_types.values():
        if machine.vendor == "azure":
            simulated = node_allocatable(machine)
            planned = allocatable(machine)
            assert (simulated.cpu_millicores, simulated.memory_mib) == (planned.cpu_millicores, planned.memory_mib)


@pytest.mark.parametrize(
    ("gib", "reserved_gib"),
    [(4, 1.0), (8, 1.8), (16, 2.6), (128, 9.32), (1024, 27.24)],
)
def test_gke_keeps_memory_back_by_bands_and_an_eviction_threshold(gib: int, reserved_gib: float) -> None:
    left = allocatable(_machine("gcp", 8, gib * 1024))
    assert left.memory_mib == pytest.approx(gib * 1024 - reserved_gib * 1024 - 100, abs=1)


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("p4d.24xlarge", 737),
        ("g5.12xlarge", 737),
        ("g6.4xlarge", 234),
        ("g4dn.xlarge", 29),
        ("p5.48xlarge", 100),
    ],
)
def test_eks_reserves_memory_for_the_pods_that_nodeadm_allows(name: str, pods: int) -> None:
    machine = load_catalog().machine_types[name]
    assert capacity(machine).memory_mib - allocatable(machine).memory_mib == 255 + 11 * pods + 100


def test_eks_reserves_memory_for_default_pods_if_interfaces_are_unknown() -> None:
    machine = _machine("aws", 96, 1_179_648)
    assert capacity(machine).memory_mib - allocatable(machine).memory_mib == 255 + 11 * 110 + 100


@pytest.mark.parametrize(("name", "memory_mib"), [("g6.4xlarge", 57_691), ("g5.12xlarge", 173_400)])
def test_memory_of_karpenters_nodes_is_that_of_its_instance_type_reference(name: str, memory_mib: int) -> None:
    assert allocatable(load_catalog().machine_types[name], karpenter=True).memory_mib == memory_mib


def test_karpenter_expects_64_mib_less_of_graviton_machines() -> None:
    machine = load_catalog().machine_types["g5g.xlarge"]
    # In MiB, the expected memory is 8192 - 64 - 610 - (255 + 11 x 58) - 100.
    assert allocatable(machine, karpenter=True).memory_mib == 6_525

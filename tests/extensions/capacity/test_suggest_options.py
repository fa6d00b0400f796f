"""The MIG instances that have room for a pod of a workload."""

from __future__ import annotations

from typing import Any

import pytest

from extensions.capacity.suggest.options import PodRequest, options_for
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.nodes.allocatable import NodeResources
from tests.support.cloud_plans import filled

A100 = load_catalog().gpus["a100-80gb"]


@pytest.mark.parametrize(
    ("compute", "memory_mib", "fits"),
    [(3 / 7, 1000, True), (3 / 7 + 0.01, 1000, False), (0.1, 39936, True), (0.1, 40961, False)],
)
def test_a_pod_fits_an_instance_that_has_just_its_compute_and_memory(
    compute: float, memory_mib: int, fits: bool
) -> None:
    pod = NodeResources(cpu_millicores=100, memory_mib=100)
    request = filled(PodRequest, gpus=1, nvlink=False, compute=compute, memory_mib=memory_mib, pod=pod)
    assert request.fits_profile(A100, "3g.40gb") is fits


def test_two_gpus_of_a_node_may_have_a_layout_each() -> None:
    catalog = load_catalog()
    machine = catalog.machine_types["g7e.12xlarge"]
    shared: dict[str, Any] = {"gpus": 1, "nvlink": False, "rdma": False, "model": None, "domain": None}
    shared["pod"] = NodeResources(cpu_millicores=100, memory_mib=100)
    small = filled(PodRequest, compute=0.1, memory_mib=10_000, **shared)
    large = filled(PodRequest, compute=0.4, memory_mib=40_000, **shared)
    menus = [option.menu for option in options_for([small, large], [(machine, 5.0)], catalog) if option.menu]
    assert len(menus) == 1
    assert len(menus[0]) > 1

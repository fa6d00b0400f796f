"""Which MIG instance holds a pod of a workload."""

from __future__ import annotations

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.suggest.options import PodRequest
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

"""The labels that describe the GPUs of a simulated node."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from simulated_hardware import A100, OFF, T4, node

from gpu_platform.catalog import load_catalog
from sandbox.simulator.device_plugin import PluginError, parse_config
from sandbox.simulator.feature_discovery import (
    architecture_family,
    feature_labels,
    is_operand_label,
    stale_labels,
)
from sandbox.simulator.hardware import Hardware

SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
RENAMED = "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
MPS = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
SHARED_MIG = "sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}"
SEVEN = {"1g.10gb": 7}
PRODUCT = "NVIDIA-A100-SXM4-80GB"


def _labels(hardware: Hardware, config: str = "", strategy: str = "none") -> dict[str, str]:
    return feature_labels(hardware, parse_config(config), strategy)


def _of(labels: dict[str, str], resource: str) -> tuple[str, ...]:
    """Return the product, count, replicas and sharing strategy of a resource."""
    return tuple(
        labels[f"nvidia.com/{resource}.{name}"] for name in ("product", "count", "replicas", "sharing-strategy")
    )


def test_a_node_of_whole_gpus_has_every_label_that_feature_discovery_sets() -> None:
    assert _labels(node(A100)) == {
        "nvidia.com/gpu.machine": "p4de.24xlarge",
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.family": "ampere",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/cuda.driver.major": "580",
        "nvidia.com/cuda.driver.minor": "95",
        "nvidia.com/cuda.driver.rev": "05",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.driver-version.minor": "95",
        "nvidia.com/cuda.driver-version.revision": "05",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/cuda.runtime.major": "13",
        "nvidia.com/cuda.runtime.minor": "0",
        "nvidia.com/cuda.runtime-version.major": "13",
        "nvidia.com/cuda.runtime-version.minor": "0",
        "nvidia.com/cuda.runtime-version.full": "13.0",
    }


@pytest.mark.parametrize(
    ("hardware", "config", "strategy", "expected"),
    [
        (node(T4), SHARED, "none", ("Tesla-T4-SHARED", "4", "4", "time-slicing")),
        (node(T4), RENAMED, "none", ("Tesla-T4", "4", "4", "time-slicing")),
        (node(T4), MPS, "none", ("Tesla-T4-SHARED", "4", "4", "mps")),
        (node(T4), SHARED_MIG, "none", ("Tesla-T4", "4", "1", "none")),
        (node(A100, SEVEN), "", "none", (PRODUCT, "8", "0", "none")),
        (node(A100, SEVEN), SHARED, "mixed", (PRODUCT, "8", "0", "none")),
        (node(A100, SEVEN, *[OFF] * 7), SHARED, "mixed", (PRODUCT + "-SHARED", "8", "4", "time-slicing")),
        (node(A100, SEVEN), "", "single", (PRODUCT + "-MIG-1g.10gb", "56", "1", "none")),
        (node(A100, SEVEN), SHARED, "single", (PRODUCT + "-MIG-1g.10gb-SHARED", "56", "4", "time-slicing")),
        (node(A100, SEVEN), RENAMED, "single", (PRODUCT + "-MIG-1g.10gb", "56", "4", "time-slicing")),
        (node(A100, {"1g.10gb+me": 1}), "", "single", (PRODUCT + "-MIG-1g.10gb.me", "8", "1", "none")),
        (node(A100, {"1g.10gb": 1, "3g.40gb": 1}), "", "single", (PRODUCT + "-MIG-INVALID", "0", "0", "")),
        (node(A100, SEVEN, *[OFF] * 7), "", "single", (PRODUCT + "-MIG-INVALID", "0", "0", "")),
        (node(A100, {}), "", "single", (PRODUCT + "-MIG-INVALID", "0", "0", "")),
        (node(A100, {}, *[SEVEN] * 7), "", "single", (PRODUCT + "-MIG-INVALID", "0", "0", "")),
        (node(A100), SHARED, "single", (PRODUCT + "-SHARED", "8", "4", "time-slicing")),
    ],
)  # fmt: skip
def test_gpu_labels_follow_hardware_config_and_mig_strategy(
    hardware: Hardware, config: str, strategy: str, expected: tuple[str, ...]
) -> None:
    assert _of(_labels(hardware, config, strategy), "gpu") == expected


def test_mixed_adds_the_labels_of_each_profile() -> None:
    labels = _labels(node(A100, {"1g.10gb": 2, "3g.40gb": 1}), SHARED_MIG, "mixed")
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert _of(labels, "mig-1g.10gb") == ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", "16", "2", "time-slicing")
    assert _of(labels, "mig-3g.40gb") == ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "8", "1", "none")
    assert labels["nvidia.com/mig-3g.40gb.slices.gi"] == "3"
    assert int(labels["nvidia.com/mig-3g.40gb.memory"]) > 38_000


def test_under_single_the_memory_is_that_of_one_instance() -> None:
    assert int(_labels(node(A100, SEVEN), "", "single")["nvidia.com/gpu.memory"]) < 10_240
    assert _labels(node(A100, {}), "", "single")["nvidia.com/gpu.memory"] == "0"


def test_no_strategy_label_without_a_strategy() -> None:
    assert "nvidia.com/mig.strategy" not in _labels(node(A100))
    assert _labels(node(T4), "", "mixed")["nvidia.com/mig.strategy"] == "mixed"


@pytest.mark.parametrize(
    ("hardware", "config", "strategy"),
    [
        (node(A100, driver_answers=False), "", "none"),
        (node(A100, SEVEN), MPS, "none"),
        (node(A100), "", "both"),
    ],
)
def test_where_feature_discovery_stops_with_an_error(hardware: Hardware, config: str, strategy: str) -> None:
    with pytest.raises(PluginError):
        _labels(hardware, config, strategy)


def test_a_lost_gpu_stops_feature_discovery() -> None:
    whole = node(A100)
    with pytest.raises(PluginError, match="GPU is lost"):
        _labels(replace(whole, gpus=(replace(whole.gpus[0], lost=True), *whole.gpus[1:])))


def test_another_product_among_the_gpus_is_not_counted() -> None:
    whole = node(A100)
    mixed = replace(whole, gpus=(*whole.gpus[:7], replace(whole.gpus[7], product="NVIDIA H100 80GB HBM3")))
    assert _of(_labels(mixed), "gpu")[:2] == ("NVIDIA-A100-SXM4-80GB", "7")


def test_a_node_without_gpus_has_no_labels() -> None:
    assert _labels(node(A100, gpus=())) == {}


def test_a_google_machine_says_google_compute_engine() -> None:
    assert _labels(node("a2-highgpu-1g"))["nvidia.com/gpu.machine"] == "Google-Compute-Engine"


@pytest.mark.parametrize(
    ("capability", "family"),
    [((7, 0), "volta"), ((7, 5), "turing"), ((8, 0), "ampere"), ((8, 6), "ampere"), ((8, 9), "ada-lovelace"),
     ((9, 0), "hopper"), ((10, 0), "blackwell"), ((12, 0), "blackwell"), ((99, 0), "undefined")],
)  # fmt: skip
def test_the_family_follows_the_compute_capability(capability: tuple[int, int], family: str) -> None:
    assert architecture_family(*capability) == family


def test_every_label_of_every_machine_type_is_a_legal_label_value() -> None:
    legal = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
    for machine_type in (name for name, machine in load_catalog().machine_types.items() if machine.gpu):
        for key, value in _labels(node(machine_type), SHARED, "mixed").items():
            assert legal.fullmatch(value), (machine_type, key, value)


def test_labels_of_people_are_never_stale() -> None:
    present = {
        "nvidia.com/mig.config": "all-disabled",
        "nvidia.com/device-plugin.config": "serve",
        "nvidia.com/gpu.deploy.device-plugin": "false",
        "nvidia.com/gpu.workload.config": "container",
        "kubernetes.io/hostname": "serve-0",
        "nvidia.com/mig-1g.10gb.count": "56",
        "nvidia.com/gpu.product": "Tesla-T4",
    }
    assert stale_labels(present, {"nvidia.com/gpu.product": "x"}) == {"nvidia.com/mig-1g.10gb.count"}


def test_every_label_that_is_set_is_known_as_one_to_remove() -> None:
    for strategy in ("none", "single", "mixed"):
        assert all(is_operand_label(key) for key in _labels(node(A100, SEVEN), "", strategy))


def test_only_nodes_of_a_rack_have_the_label_of_their_nvlink_domain() -> None:
    assert _labels(node("p6e-gb200.36xlarge", fabric="a1b2"))["nvidia.com/gpu.clique"] == "a1b2.0"
    assert "nvidia.com/gpu.clique" not in _labels(node())

"""The devices that the simulated DRA driver publishes for a node's GPUs, and the counters of the devices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from simulated_hardware import A100, T4, node

from gpu_platform.catalog import Mig, load_catalog
from gpu_platform.planning.mig import place
from sandbox.simulator.dra_driver import semantic_version, slice_specs
from sandbox.simulator.gpu_cluster import device_class, read_gpu_cluster

H200 = "p5en.48xlarge"


def published(machine: str, *, dynamic_mig: bool, **changes: Any) -> list[dict[str, Any]]:
    specs = slice_specs("n", node(machine, **changes), dynamic_mig=dynamic_mig)
    return [device for spec in specs for device in spec.get("devices", ())]


def kinds(devices: list[dict[str, Any]]) -> Counter[str]:
    return Counter(device["attributes"]["type"]["string"] for device in devices)


def test_whole_gpus_are_in_one_slice_of_a_pool_that_is_named_after_the_node() -> None:
    [spec] = slice_specs("n", node(T4), dynamic_mig=False)
    assert (spec["driver"], spec["nodeName"]) == ("gpu.nvidia.com", "n")
    assert spec["pool"] == {"name": "n", "resourceSliceCount": 1}
    assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    device = spec["devices"][0]
    assert device["capacity"] == {"memory": {"value": "15360Mi"}}
    assert device["attributes"]["productName"] == {"string": "Tesla T4"}
    assert device["attributes"]["architecture"] == {"string": "Turing"}
    assert device["attributes"]["cudaComputeCapability"] == {"version": "7.5.0"}
    assert device["attributes"]["driverVersion"] == {"version": "580.95.5"}
    assert "consumesCounters" not in device


def test_with_partitions_counters_and_gpus_have_separate_slices() -> None:
    specs = slice_specs("n", node(H200), dynamic_mig=True)
    assert len(specs) == 9
    assert all(spec["pool"]["resourceSliceCount"] == 9 for spec in specs)
    assert "devices" not in specs[0]
    assert len(specs[0]["sharedCounters"]) == 8
    assert all("sharedCounters" not in spec for spec in specs[1:])
    # The API server accepts at most 64 devices that consume counters, 8 counter sets, and 32 counters per set.
    assert all(len(spec["devices"]) <= 64 for spec in specs[1:])
    assert all(len(one["counters"]) <= 32 for one in specs[0]["sharedCounters"])


@pytest.mark.parametrize(
    ("machine", "why"), [(A100, "an Ampere GPU changes MIG mode only with a reset"), (T4, "a T4 has no MIG")]
)
def test_a_gpu_that_cannot_be_cut_on_demand_is_offered_whole(machine: str, why: str) -> None:
    assert set(kinds(published(machine, dynamic_mig=True))) == {"gpu"}, why


def test_a_gpu_that_others_have_cut_is_offered_in_its_instances_alone() -> None:
    specs = slice_specs("n", node(A100, {"3g.40gb": 2}), dynamic_mig=False)
    devices = specs[0]["devices"]
    assert kinds(devices) == {"mig": 16}
    assert devices[0]["attributes"]["profile"] == {"string": "3g.40gb"}
    assert devices[0]["capacity"]["memory"] == {"value": "40192Mi"}


def test_a_node_whose_driver_does_not_answer_publishes_nothing() -> None:
    assert slice_specs("n", node(T4, driver_answers=False), dynamic_mig=False) == []


def test_device_names_are_unique_and_names_that_kubernetes_takes() -> None:
    names = [device["name"] for device in published(H200, dynamic_mig=True)]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 and name == name.lower() and not set("._+") & set(name) for name in names)


def _consumed(device: dict[str, Any]) -> dict[str, int]:
    [one] = device["consumesCounters"]
    return {name: int(counter["value"]) for name, counter in one["counters"].items()}


def _fit(devices: list[dict[str, Any]], counters: dict[str, int]) -> bool:
    total: Counter[str] = Counter()
    for device in devices:
        total.update(_consumed(device))
    return all(total[name] <= counters[name] for name in total)


@pytest.mark.parametrize("model", ["h200-141gb", "h100-80gb", "b200", "rtx-pro-6000"])
def test_the_counters_allow_what_real_placements_allow_and_nothing_else(model: str) -> None:
    catalog = load_catalog()
    gpu = catalog.gpus[model]
    machine = next(one.name for one in catalog.machine_types.values() if one.gpu == model)
    assert gpu.mig is not None
    specs = slice_specs("n", node(machine), dynamic_mig=True)
    counters = {name: int(one["value"]) for name, one in specs[0]["sharedCounters"][0]["counters"].items()}
    by_profile: dict[str, list[dict[str, Any]]] = {}
    for device in specs[1]["devices"][1:]:
        by_profile.setdefault(device["attributes"]["profile"]["string"], []).append(device)
    for first in gpu.mig.profiles:
        for second in gpu.mig.profiles:
            layout = dict(Counter([first.name, second.name]))
            legal = place(_without_limits(gpu.mig), layout) is not None
            pairs = [
                (one, other)
                for one in by_profile[first.name]
                for other in by_profile[second.name]
                if one is not other
            ]
            assert any(_fit([one, other], counters) for one, other in pairs) is legal, layout


def _without_limits(mig: Mig) -> Mig:
    """Return the MIG geometry without the maximum number of instances per profile.

    The placements and the engines already limit the number of instances.
    """
    profiles = tuple(one.model_copy(update={"max_instances": 9}) for one in mig.profiles)
    return mig.model_copy(update={"profiles": profiles})


def test_the_whole_gpu_consumes_all_so_that_no_instance_fits_beside_it() -> None:
    specs = slice_specs("n", node(H200), dynamic_mig=True)
    counters = {name: int(one["value"]) for name, one in specs[0]["sharedCounters"][0]["counters"].items()}
    whole, *instances = specs[1]["devices"]
    assert _consumed(whole) == counters
    assert not any(_fit([whole, instance], counters) for instance in instances)


@pytest.mark.parametrize(
    ("version", "semantic"), [("580.95.05", "580.95.5"), ("8.0", "8.0.0"), ("595.91.07.1", "595.91.7")]
)
def test_versions_are_published_as_semantic_ones(version: str, semantic: str) -> None:
    assert semantic_version(version) == semantic


def test_partitions_follow_the_feature_gate_of_the_gpu_cluster() -> None:
    assert read_gpu_cluster({"draDriver": {"featureGates": {"DynamicMIG": True}}}).dynamic_mig
    for spec in (
        {},
        {"draDriver": {}},
        {"draDriver": {"featureGates": {"DynamicMIG": False}}},
        {"draDriver": None},
    ):
        assert not read_gpu_cluster(spec).dynamic_mig


def test_the_drivers_classes_go_with_the_gpu_cluster() -> None:
    owner = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "c", "uid": "u"}}
    made = device_class("mig.nvidia.com", owner)
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert "type == 'mig'" in made["spec"]["selectors"][0]["cel"]["expression"]

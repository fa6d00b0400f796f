"""The devices that the DRA driver publishes, compared with the devices that a pool's nodes should offer."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_platform.planning.expectations.section import NodeExpectation
from validators.devices import check_devices, check_nics

EXPECTED = NodeExpectation(
    pool="big",
    allocatable={},
    labels={},
    gpu_devices=2,
    mig_profiles=("1g.18gb", "3g.71gb"),
    sources={"ResourceSlices": "stack: pools[0].sharing"},
)


def device(name: str, kind: str, profile: str | None = None) -> dict[str, Any]:
    attributes = {"type": {"string": kind}, **({"profile": {"string": profile}} if profile else {})}
    return {"name": name, "attributes": attributes}


def published(
    *devices: dict[str, Any], generation: int = 1, count: int = 1, node: str = "big-0"
) -> dict[str, Any]:
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    return {"spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": list(devices)}}


GOOD = published(
    device("gpu-0", "gpu"), device("gpu-1", "gpu"), device("a", "mig", "1g.18gb"), device("b", "mig", "3g.71gb")
)


def verdicts(slices: list[dict[str, Any]] | None, expectation: NodeExpectation = EXPECTED) -> dict[str, str]:
    return {check.id: check.verdict for check in check_devices("big-0", slices, expectation)}


def test_a_node_that_publishes_its_gpus_and_every_profile_passes() -> None:
    assert verdicts([GOOD]) == {"dra-devices": "pass", "dra-partitions": "pass"}


@pytest.mark.parametrize(
    ("slices", "verdict"),
    [
        ([], "fail"),
        ([published(*GOOD["spec"]["devices"], node="other-0")], "fail"),
        ([published(*GOOD["spec"]["devices"][1:])], "fail"),
        ([published(*GOOD["spec"]["devices"], device("gpu-2", "gpu"))], "fail"),
        ([published(*GOOD["spec"]["devices"], count=2)], "unknown"),
        (None, "unknown"),
    ],
    ids=["nothing", "another node's", "one gpu less", "one gpu more", "half published", "not read"],
)
def test_anything_else_is_no_pass(slices: list[dict[str, Any]] | None, verdict: str) -> None:
    assert verdicts(slices)["dra-devices"] == verdict


def test_slices_of_an_older_generation_or_of_another_driver_do_not_count() -> None:
    older = published(device("gpu-9", "gpu"), generation=0)
    foreign = copy.deepcopy(GOOD)
    foreign["spec"]["driver"] = "example.com"
    assert verdicts([older, foreign, GOOD]) == {"dra-devices": "pass", "dra-partitions": "pass"}


def test_a_profile_that_nothing_publishes_fails_and_names_what_is_there() -> None:
    [_, partitions] = check_devices("big-0", [published(*GOOD["spec"]["devices"][:3])], EXPECTED)
    assert (partitions.verdict, partitions.observed) == ("fail", "1g.18gb")
    assert partitions.source == "stack: pools[0].sharing"
    assert "DynamicMIG" in partitions.remediation


def test_a_node_with_a_device_plugin_has_no_such_checks() -> None:
    plugin = NodeExpectation(pool="serve", allocatable={"nvidia.com/gpu": 8}, labels={})
    assert verdicts(None, plugin) == {}


# -- EFA interfaces that the EFA DRA driver publishes ------------------------------------------------------

WITH_EFA = NodeExpectation(
    pool="big",
    allocatable={},
    labels={},
    nic_driver="dra.net",
    nic_devices=2,
    sources={"NIC devices": "stack: pools[0].network"},
)


def efa(name: str, key: str = "dra.net/pciDevice", kind: str = "Elastic Fabric Adapter (EFA)") -> dict[str, Any]:
    return {"name": name, "attributes": {key: {"string": kind}}}


def nics(*devices: dict[str, Any], driver: str = "dra.net") -> list[dict[str, Any]]:
    slices = published(*devices)
    slices["spec"]["driver"] = driver
    return [slices]


@pytest.mark.parametrize(
    ("slices", "verdict", "observed"),
    [
        (nics(efa("a"), efa("b", "pciDevice")), "pass", "2 EFA"),
        (nics(efa("a"), efa("b"), efa("eth0", kind="Elastic Network Adapter (ENA)")), "pass", "2 EFA"),
        (nics(efa("a")), "fail", "1 EFA"),
        (nics(efa("a"), efa("b"), driver="gpu.nvidia.com"), "fail", "no resource slices"),
        ([], "fail", "no resource slices"),
        (None, "unknown", "ResourceSlices were not read"),
    ],
)
def test_efa_interfaces_in_resource_slices_are_counted(
    slices: list[dict[str, Any]] | None, verdict: str, observed: str
) -> None:
    [result] = check_nics("big-0", slices, WITH_EFA)
    assert (result.id, result.verdict, result.observed) == ("nic-devices", verdict, observed)
    assert result.source == "stack: pools[0].network"


def test_a_node_whose_interfaces_the_device_plugin_advertises_has_no_such_check() -> None:
    assert check_nics("big-0", None, EXPECTED) == []


@pytest.mark.parametrize(("minute", "verdict"), [(9, "unknown"), (11, "fail")])
def test_a_driver_that_publishes_nothing_more_for_ten_minutes_has_stopped(minute: int, verdict: str) -> None:
    half = {**published(count=2), "metadata": {"creationTimestamp": "2026-11-28T03:00:00Z"}}
    [check, *_] = check_devices("big-0", [half], EXPECTED, datetime(2026, 11, 28, 3, minute, tzinfo=UTC))
    assert check.verdict == verdict

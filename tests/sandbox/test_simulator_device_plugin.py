"""Which configs the simulated device plugin accepts or refuses, and which resources it advertises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_hardware import A100, OFF, T4, node

from gpu_platform.catalog import load_catalog
from sandbox.simulator.device_plugin import (
    Advertised,
    PluginConfig,
    PluginError,
    advertise,
    choose_config,
    mps_clients,
    parse_config,
    resolve_mig_strategy,
)
from sandbox.simulator.hardware import Hardware

SEVEN = {"1g.10gb": 7}
MIG = "nvidia.com/mig-1g.10gb"


def _sharing(block: str, replicas: int = 4, name: str = "nvidia.com/gpu", **more: object) -> str:
    lines = [f"    {key}: {str(value).lower()}" for key, value in more.items()]
    return "\n".join(
        [
            "version: v1",
            "sharing:",
            f"  {block}:",
            *lines,
            "    resources:",
            f"    - {{name: {name}, replicas: {replicas}}}",
        ]
    )


def _counts(hardware: Hardware, text: str = "", strategy: str = "none") -> dict[str, int]:
    """Return the number of units of each advertised resource. Names omit the prefix `nvidia.com/`."""
    offered = advertise(hardware, parse_config(text), strategy)
    return {name.removeprefix("nvidia.com/"): offer.count for name, offer in offered.items()}


# -- config selection of a node (cmd/config-manager/main.go) -----------------------------------------------


def test_the_node_label_chooses_the_config_before_the_default() -> None:
    assert choose_config("serve", "train", ["serve", "train"]) == "serve"


def test_without_a_label_the_default_counts_and_without_both_the_empty_config() -> None:
    assert choose_config("", "train", ["serve", "train"]) == "train"
    assert choose_config("", "", ["serve", "train"]) is None


@pytest.mark.parametrize(("label", "default"), [("typo", "train"), ("", "typo")])
def test_a_key_that_is_not_there_stops_the_plugin(label: str, default: str) -> None:
    with pytest.raises(PluginError, match="specified config typo does not exist"):
        choose_config(label, default, ["serve", "train"])


def test_a_config_map_without_keys_stops_the_plugin() -> None:
    with pytest.raises(PluginError, match="no configuration files available"):
        choose_config("", "", [])


# -- the MIG strategy in force (README: flag, then variable, then file) ------------------------------------


@pytest.mark.parametrize(
    ("cluster_policy", "in_config", "expected"),
    [("", None, "none"), ("", "mixed", "mixed"), ("single", "mixed", "single"), ("mixed", "none", "mixed")],
)
def test_the_cluster_policys_mig_strategy_wins_over_the_config(
    cluster_policy: str, in_config: str | None, expected: str
) -> None:
    assert resolve_mig_strategy(cluster_policy, PluginConfig(mig_strategy=in_config)) == expected


# -- the config file (api/config/v1) -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: v2", "unknown version: v2"),
        ("sharing: [1", "unmarshal error"),
        ("flags: {migStrategy: 3}", "migStrategy is not a string"),
        ("sharing: {timeSlicing: {}}", "no resources specified"),
        ("sharing: {timeSlicing: null}", "no resources specified"),
        ("sharing: {timeSlicing: {resources: []}}", "no resources specified"),
        ("sharing: {timeSlicing: {resources: [{replicas: 2}]}}", "no resource name specified"),
        ("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu}]}}", "no replicas specified"),
        ("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}", "must be >= 2"),
        ("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 0}]}}", "must be >= 2"),
        ("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: '4'}]}}", "not a whole number"),
        ("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: true}]}}", "not a whole number"),
        (
            "sharing: {mps: {resources: [{name: mig-1g.10gb+me, replicas: 2}]}}",
            "incorrect format for resource name",
        ),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: some}]}}",
            "unrecognized type for devices",
        ),
        ("sharing: {mps: {renameByDefault: yes please, resources: [{name: gpu, replicas: 2}]}}", "not a boolean"),
    ],
)
def test_a_config_that_the_plugin_cannot_read_stops_it(text: str, reason: str) -> None:
    with pytest.raises(PluginError, match=reason):
        parse_config(text)


def test_an_empty_file_and_an_empty_mps_block_are_no_sharing() -> None:
    assert parse_config("").sharing.strategy == "none"
    assert parse_config("sharing: {mps: null}").sharing.strategy == "none"


def test_rename_and_fail_requests_under_flags_are_ignored() -> None:
    sharing = parse_config(
        "flags: {renameByDefault: true, failRequestsGreaterThanOne: true}\n" + _sharing("timeSlicing")
    ).sharing
    assert (sharing.renamed, sharing.fail_requests_greater_than_one) == (False, False)


def test_rename_and_devices_of_one_resource_are_ignored_with_a_warning() -> None:
    config = parse_config(
        "sharing: {timeSlicing: {resources: [{name: gpu, rename: nvidia.com/mine, replicas: 4, devices: 2}]}}"
    )
    assert {warning.split("'")[1] for warning in config.warnings} == {"rename", "devices"}
    assert {name: offer.count for name, offer in advertise(node(A100), config, "none").items()} == {
        "nvidia.com/gpu": 32
    }


def test_a_resource_name_without_a_prefix_is_nvidias() -> None:
    assert parse_config(_sharing("timeSlicing", name="gpu")).sharing.replicas_of("nvidia.com/gpu") == 4


def test_mps_refuses_more_than_one_unless_it_is_told_not_to() -> None:
    assert parse_config(_sharing("mps")).sharing.fail_requests_greater_than_one
    assert not parse_config(
        _sharing("mps", failRequestsGreaterThanOne=False)
    ).sharing.fail_requests_greater_than_one
    assert not parse_config(_sharing("timeSlicing")).sharing.fail_requests_greater_than_one


def test_with_both_blocks_mps_takes_the_place_of_time_slicing() -> None:
    both = _sharing("timeSlicing", 4) + "\n  mps:\n    resources: [{name: nvidia.com/gpu, replicas: 2}]"
    config = parse_config(both)
    assert config.sharing.strategy == "mps"
    assert config.sharing.replicas_of("nvidia.com/gpu") == 2
    assert any("timeSlicing is ignored" in warning for warning in config.warnings)


# -- advertised resources (internal/rm/device_map.go) ------------------------------------------------------


@pytest.mark.parametrize(
    ("hardware", "config", "strategy", "expected"),
    [
        (node(A100), "", "none", {"gpu": 8}),
        (node(T4), _sharing("timeSlicing", 4), "none", {"gpu": 16}),
        (node(T4), _sharing("timeSlicing", 4, renameByDefault=True), "none", {"gpu.shared": 16}),
        (node(T4), _sharing("timeSlicing", 2, renameByDefault=True), "none", {"gpu.shared": 8}),
        (node(T4), _sharing("mps", 8, renameByDefault=True), "none", {"gpu.shared": 32}),
        (node(A100, SEVEN), "", "mixed", {"mig-1g.10gb": 56}),
        (node(A100, SEVEN), "", "single", {"gpu": 56}),
        (node(A100, SEVEN), "", "none", {"gpu": 8}),
        (node(A100, {"3g.40gb": 2}, *[OFF] * 7), "", "mixed", {"gpu": 7, "mig-3g.40gb": 2}),
        (node(A100, {"1g.10gb": 2, "3g.40gb": 1}), "", "mixed", {"mig-1g.10gb": 16, "mig-3g.40gb": 8}),
        (node(A100, {"1g.10gb+me": 1}), "", "mixed", {"mig-1g.10gb.me": 8}),
        (node(A100, {}), "", "mixed", {}),
        (node(A100), "", "mixed", {"gpu": 8}),
        (node(A100), "", "single", {"gpu": 8}),
        (node(A100, {"3g.40gb": 2}, *[{"3g.40gb": 1}] * 7), "", "single", {"gpu": 9}),
        (node(A100, SEVEN), _sharing("timeSlicing", 2, name=MIG), "mixed", {"mig-1g.10gb": 112}),
        (node(A100, SEVEN), _sharing("mps", 3, renameByDefault=True), "none", {"gpu.shared": 24}),
        (node(A100, SEVEN), _sharing("timeSlicing", 2), "mixed", {"mig-1g.10gb": 56}),
        (node(A100, SEVEN), _sharing("timeSlicing", 2, renameByDefault=True), "mixed", {"mig-1g.10gb": 56}),
        (node(A100, SEVEN), _sharing("timeSlicing", 2), "single", {"gpu": 112}),
        (node(A100, gpus=()), "", "none", {}),
    ],
)  # fmt: skip
def test_what_a_node_advertises(hardware: Hardware, config: str, strategy: str, expected: dict[str, int]) -> None:
    assert _counts(hardware, config, strategy) == expected


@pytest.mark.parametrize(
    ("hardware", "config", "strategy", "reason"),
    [
        (node(A100, {"1g.10gb": 1, "3g.40gb": 1}), "", "single", "more than one MIG device type"),
        (node(A100, SEVEN, *[OFF] * 7), "", "single", "same migEnabled value"),
        (node(A100, {}, *[SEVEN] * 7), "", "single", "device 0 has no MIG devices configured"),
        (node(A100), "", "both", "unknown MIG strategy: both"),
        (node(A100, driver_answers=False), "", "none", "nvml init failed"),
        (node(A100), _sharing("mps"), "mixed", "mixed is not supported with MPS"),
        (node(A100, SEVEN), _sharing("mps"), "single", "MPS is not supported for MIG devices"),
        (node(A100), _sharing("mps", 49), "none", "maximum allowed replicas exceeded: 49 > 48"),
        (node(T4, gpu=load_catalog().gpus["v100-16gb"]), _sharing("mps", 17), "none", "exceeded: 17 > 16"),
    ],
)
def test_what_keeps_the_plugin_from_advertising_anything(
    hardware: Hardware, config: str, strategy: str, reason: str
) -> None:
    with pytest.raises(PluginError, match=reason):
        advertise(hardware, parse_config(config), strategy)


def test_a_renamed_mig_resource_is_shared_under_its_own_name() -> None:
    config = _sharing("timeSlicing", 3, MIG, renameByDefault=True)
    assert _counts(node(A100, SEVEN), config, "mixed") == {"mig-1g.10gb.shared": 168}


def test_mps_takes_48_clients_from_turing_on_and_16_before() -> None:
    assert [mps_clients(capability) for capability in ("7.0", "7.5", "8.0", "12.0")] == [16, 48, 48, 48]


def test_only_shared_resources_refuse_requests_for_more_than_one() -> None:
    config = parse_config(_sharing("timeSlicing", 4, failRequestsGreaterThanOne=True))
    partly_cut = node(A100, SEVEN, *[OFF] * 7)
    assert advertise(partly_cut, config, "mixed") == {
        "nvidia.com/gpu": Advertised(28, 28, single_only=True),
        "nvidia.com/mig-1g.10gb": Advertised(7, 7, single_only=False),
    }


def test_a_lost_gpu_stays_in_the_capacity_and_leaves_the_allocatable() -> None:
    whole = node(A100)
    lost = replace(whole, gpus=(replace(whole.gpus[0], lost=True), *whole.gpus[1:]))
    assert advertise(lost, parse_config(""), "none") == {"nvidia.com/gpu": Advertised(8, 7)}


def test_every_machine_type_of_the_catalogue_advertises_its_gpus() -> None:
    machines = {name: machine for name, machine in load_catalog().machine_types.items() if machine.gpu}
    assert all(_counts(node(name)) == {"gpu": machine.gpu_count} for name, machine in machines.items())

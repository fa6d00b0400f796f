"""Which mig-parted configs the simulated MIG manager accepts or refuses, and how it changes the GPUs."""

from __future__ import annotations

import pytest
from simulated_hardware import A100, OFF

from gpu_platform.catalog import load_catalog
from sandbox.nvml import MigTable, mig_table, mig_tables
from sandbox.simulator.hardware import GpuLayouts
from sandbox.simulator.mig_manager import (
    MigConfigError,
    MigOutcome,
    generated_configs,
    parse_mig_configs,
    reconfigure,
)


def table_of(product: str) -> MigTable:
    table = mig_table(product)
    assert table is not None
    return table


GPU = table_of(load_catalog().gpu_of(load_catalog().machine_types[A100]).product)
SEVEN = {"1g.10gb": 7}
EMPTY: dict[str, int] = {}

CONFIG = """
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  all-enabled: [{devices: all, mig-enabled: true, mig-devices: {}}]
  notebooks: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]
  zero-count: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 0}}]
  first: [{devices: [0], mig-enabled: true, mig-devices: {7g.80gb: 1}}]
  first-and-rest:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2}}
  - {devices: [1], mig-enabled: false, mig-devices: {}}
  too-many: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 8}}]
  overlapping: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}}]
  other-gpu: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]
  second-wrong:
  - {devices: [0], mig-enabled: true, mig-devices: {7g.80gb: 1}}
  - {devices: [1], mig-enabled: true, mig-devices: {7g.80gb: 2}}
  twice:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  - {devices: [1], mig-enabled: false}
  by-model:
  - {device-filter: ["0x233010DE"], devices: all, mig-enabled: true, mig-devices: {1g.10gb: 1}}
  - {device-filter: "0x20b210de", devices: all, mig-enabled: true, mig-devices: {2g.20gb: 3}}
  by-subsystem: [{device-filter: "0x20B210DE:0x1533", devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]
  no-such-model: [{device-filter: nonsense, devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
"""


def _apply(
    selected: str, current: GpuLayouts = (OFF, OFF), *, busy: bool = False, refused: str = ""
) -> MigOutcome:
    configs = parse_mig_configs(CONFIG)
    return reconfigure(GPU, current, configs, selected, busy=busy, refused=refused)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mig-configs: {a: [{devices: all, mig-enabled: false}]}", "missing 'version'"),
        ("version: v2", "unknown version: v2"),
        ("version: v1", "at least one entry in 'mig-configs'"),
        ("version: v1\nmig-configs: {a: []}", "at least one entry in 'a'"),
        ("version: v1\nmig_configs: {}", "unexpected field: mig_configs"),
        ("version: [v1", "unmarshal error"),
        ("version: v1\nmig-configs: {a: [{mig-enabled: false}]}", "missing required field: devices"),
        ("version: v1\nmig-configs: {a: [{devices: all}]}", "missing required field: mig-enabled"),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true}]}",
            "missing required field 'mig-devices'",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}]}",
            "MIG devices included when 'mig-enabled' is false",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: some, mig-enabled: false}]}",
            "invalid string input for 'devices'",
        ),
        ("version: v1\nmig-configs: {a: [{devices: ['0'], mig-enabled: false}]}", "list of indices"),
        ("version: v1\nmig-configs: {a: [{devices: all, mig-enabled: 'true'}]}", "not a boolean"),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: false, layout: {}}]}",
            "unexpected field: layout",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {seven: 7}}]}",
            "invalid format for 'seven'",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: -1}}]}",
            "invalid count",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 0}}]}",
            "all counts for all MigProfiles are 0",
        ),
    ],
)
def test_a_config_that_mig_parted_cannot_read(text: str, reason: str) -> None:
    with pytest.raises(MigConfigError, match=reason):
        parse_mig_configs(text)


@pytest.mark.parametrize(
    ("selected", "current", "expected"),
    [
        ("notebooks", (OFF, OFF), (SEVEN, SEVEN)),
        ("notebooks", ({"3g.40gb": 2}, EMPTY), (SEVEN, SEVEN)),
        ("all-disabled", (SEVEN, SEVEN), (OFF, OFF)),
        ("all-enabled", (OFF, OFF), (EMPTY, EMPTY)),
        ("zero-count", (OFF, OFF), ({"3g.40gb": 2}, {"3g.40gb": 2})),
        ("first", (OFF, OFF), ({"7g.80gb": 1}, OFF)),
        ("first", (OFF, SEVEN), ({"7g.80gb": 1}, SEVEN)),
        ("first-and-rest", (OFF, SEVEN), ({"3g.40gb": 2}, OFF)),
        ("by-model", (OFF, OFF), ({"2g.20gb": 3}, {"2g.20gb": 3})),
        ("by-subsystem", (OFF,), ({"7g.80gb": 1},)),
        ("no-such-model", (OFF, OFF), (OFF, OFF)),
    ],
)
def test_what_a_config_makes_of_two_gpus(selected: str, current: GpuLayouts, expected: GpuLayouts) -> None:
    outcome = _apply(selected, current)
    assert (outcome.state, outcome.gpus) == ("success", expected)


@pytest.mark.parametrize(
    ("selected", "current", "left", "reason"),
    [
        ("too-many", (OFF, OFF), (EMPTY, EMPTY), "at most 7"),
        (
            "overlapping",
            (OFF, OFF),
            (EMPTY, EMPTY),
            "no placement on NVIDIA A100-SXM4-80GB for 3g.40gb x2 + 1g.10gb x1",
        ),
        ("other-gpu", (OFF, OFF), (EMPTY, EMPTY), "no profile '1g.5gb' on NVIDIA A100-SXM4-80GB"),
        ("too-many", (SEVEN, SEVEN), (EMPTY, SEVEN), "at most 7"),
        ("second-wrong", (OFF, OFF), ({"7g.80gb": 1}, EMPTY), "GPU 1"),
        ("twice", (OFF, OFF), (SEVEN, OFF), "with MIG mode disabled"),
    ],
)
def test_a_config_that_cannot_be_made_fails_and_leaves_what_a_real_one_leaves(
    selected: str, current: GpuLayouts, left: GpuLayouts, reason: str
) -> None:
    outcome = _apply(selected, current)
    assert (outcome.state, outcome.gpus, outcome.at_once) == ("failed", left, False)
    assert reason in outcome.message


def test_a_name_that_is_not_in_the_config_fails_at_once_and_changes_nothing() -> None:
    assert _apply("typo", (SEVEN, OFF)) == MigOutcome(
        (SEVEN, OFF), "failed", "selected mig-config not present: typo", at_once=True
    )


@pytest.mark.parametrize(
    ("selected", "current"),
    [("all-disabled", (OFF, OFF)), ("notebooks", (SEVEN, SEVEN)), ("all-enabled", (EMPTY,))],
)
def test_a_layout_that_is_applied_already_succeeds_without_stopping_operands(
    selected: str, current: GpuLayouts
) -> None:
    outcome = _apply(selected, current)
    assert (outcome.state, outcome.gpus, outcome.at_once) == ("success", current, True)


def test_a_config_that_leaves_out_a_gpu_is_never_there_already() -> None:
    assert not _apply("first", ({"7g.80gb": 1}, OFF)).at_once


def test_a_busy_gpu_fails_the_change_and_loses_its_instances() -> None:
    outcome = _apply("halves", (SEVEN, OFF), busy=True)
    assert (outcome.state, outcome.gpus, outcome.at_once) == ("failed", (EMPTY, OFF), False)


def test_gpus_that_cannot_be_changed_stay_as_they_are_and_the_change_fails() -> None:
    outcome = _apply("halves", (SEVEN, OFF), refused="In use by another client")
    assert (outcome.state, outcome.gpus, outcome.at_once) == ("failed", (SEVEN, OFF), False)
    assert outcome.message == "In use by another client"


def test_a_layout_that_is_there_needs_no_change_of_gpus_in_use() -> None:
    outcome = _apply("notebooks", (SEVEN, SEVEN), refused="In use by another client")
    assert (outcome.state, outcome.at_once) == ("success", True)


def test_without_a_config_map_the_manager_makes_configs_from_the_hardware() -> None:
    configs = generated_configs(GPU)
    assert {"all-disabled", "all-enabled", "all-balanced", "all-1g.10gb", "all-1g.10gb.me"} <= set(configs)
    assert configs["all-balanced"][0].layout == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}


def test_every_generated_config_of_every_gpu_can_be_made() -> None:
    for table in mig_tables().values():
        configs = generated_configs(table)
        for name in configs:
            outcome = reconfigure(table, (OFF,), configs, name, busy=False)
            assert outcome.state == "success", (table.product, name, outcome.message)


def test_all_balanced_of_the_hardware_is_what_mig_parteds_own_config_says() -> None:
    for gpu in load_catalog().gpus.values():
        if gpu.mig is not None:
            generated = generated_configs(table_of(gpu.product)).get("all-balanced")
            assert gpu.mig.named_layout("all-balanced") == (generated[0].layout if generated else None), gpu.model


def test_every_name_that_the_manager_makes_is_a_layout_that_a_stack_file_may_name() -> None:
    for gpu in load_catalog().gpus.values():
        if gpu.mig is not None:
            for name, entries in generated_configs(table_of(gpu.product)).items():
                if name not in ("all-disabled", "all-enabled"):
                    assert gpu.mig.named_layout(name) == entries[0].layout, (gpu.model, name)


def test_every_seven_slice_gpu_has_a_pci_id() -> None:
    unknown = [table.product for table in mig_tables().values() if table.device_id is None]
    assert unknown == ["NVIDIA RTX PRO 4500 Blackwell Server Edition"]

"""During a rollout, the mig-parted file contains the old and the new configs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_platform.deploy.rollout.layouts import config_text, read_configs, retry_name, same_layout, with_both

SEVENS: list[dict[str, Any]] = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]
HALVES: list[dict[str, Any]] = [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}]
WHOLE: list[dict[str, Any]] = [{"devices": "all", "mig-enabled": False}]


def text(**configs: list[dict[str, Any]]) -> str:
    return yaml.safe_dump({"version": "v1", "mig-configs": configs})


@pytest.mark.parametrize("broken", [None, "", "version: [", "[]", "mig-configs: 3", "version: v1"])
def test_a_file_that_cannot_be_read_has_no_configs(broken: str | None) -> None:
    assert read_configs(broken) == {}


def test_live_configs_stay_and_each_new_one_has_two_names() -> None:
    both = read_configs(with_both(text(old=SEVENS), {"new": HALVES}))
    assert both == {"old": SEVENS, "new": HALVES, retry_name("new"): HALVES}


def test_a_config_that_is_live_is_never_changed() -> None:
    assert read_configs(with_both(text(by_hand=SEVENS), {"by_hand": HALVES}))["by_hand"] == SEVENS


def test_nothing_is_written_where_nothing_is_new() -> None:
    live = with_both(text(old=SEVENS), {"new": HALVES})
    assert with_both(live, {"new": HALVES}) is live


def test_the_file_that_is_made_is_one_that_mig_parted_reads() -> None:
    assert yaml.safe_load(with_both(None, {"new": HALVES}))["version"] == "v1"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (SEVENS, SEVENS, True),
        (SEVENS, HALVES, False),
        (WHOLE, [{"devices": [0, 1], "mig-enabled": False, "mig-devices": {}}], True),
        (
            SEVENS,
            [{**SEVENS[0], "devices": [1]}, {**SEVENS[0], "devices": [0]}],
            True,
        ),
        (SEVENS, [{**SEVENS[0], "devices": [0]}], False),
        (None, SEVENS, False),
        (None, None, False),
        ([{**SEVENS[0], "device-filter": "0x20B210DE"}], SEVENS, False),
        ([{**SEVENS[0], "device-filter": "0x20B210DE"}], [{**SEVENS[0], "device-filter": "0x20B210DE"}], True),
    ],
)
def test_two_configs_are_the_same_where_every_gpu_gets_the_same(one: Any, other: Any, same: bool) -> None:
    assert same_layout(one, other, 2) is same


def test_a_config_is_described_by_its_layout_or_by_name_if_nodes_differ() -> None:
    mixed = [{**SEVENS[0], "devices": [0]}, {"devices": [1, 2], "mig-enabled": False}]
    assert config_text("lab", mixed, 3) == "1 GPU: 1g.10gb x7, 2 GPUs: MIG disabled"
    assert config_text("lab", [{**SEVENS[0], "device-filter": "0x20B210DE"}], 3) == "config lab"
    assert config_text("lab", None, 3) == "config lab"

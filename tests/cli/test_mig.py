"""`gpu-platform mig` as a user calls it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console


@pytest.mark.parametrize(
    "spelling", ["a100-80gb", "A100-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "A100 SXM4 80GB"]
)
def test_a_legal_layout_ends_with_0_however_the_model_is_spelled(run: Any, spelling: str):
    code, out, _ = run("mig", "check", "--gpu", spelling, "4g.40gb:1", "3g.40gb:1")
    assert code == 0
    assert "3g.40gb      memory slices 4-7 of 0-7" in out


def test_an_illegal_layout_ends_with_1_and_names_the_slices_that_overlap(run: Any):
    code, out, _ = run("mig", "check", "--gpu", "A100-80GB", "3g.40gb:2", "1g.10gb:1")
    assert code == 1
    assert "no free slices for another 1g.10gb" in out
    assert "start 0 overlaps 3g.40gb (0-3)" in out
    assert "start 6 overlaps 3g.40gb (4-7)" in out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--gpu", "A100-80GB", "3g.20gb:1"), "did you mean '3g.40gb'"),
        (("--gpu", "A100-88GB", "3g.40gb:1"), "did you mean 'a100-80gb'"),
        (("--gpu", "A100-80GB", "3g.40gb"), "PROFILE:COUNT"),
        (("--gpu", "A100-80GB", "3g.40gb:0"), "PROFILE:COUNT"),
        (("--gpu", "A100-80GB", "1g.10gb:1", "1g.10gb:2"), "a second 1g.10gb"),
    ],
)
def test_an_unknown_name_ends_with_2_and_says_what_is_known(run: Any, arguments: tuple[str, ...], named: str):
    code, out, err = run("mig", "check", *arguments)
    assert (code, out) == (2, "")
    assert named in err


def test_any_layout_is_illegal_on_a_gpu_without_mig(run: Any):
    code, out, err = run("mig", "check", "--gpu", "Tesla T4", "1g.5gb:1")
    assert (code, out) == (1, "")
    assert "does not support MIG" in err


def test_the_list_shows_every_profile_with_its_starts_and_counts_the_maximal_layouts(run: Any):
    code, out, _ = run("mig", "list", "--gpu", "A100-40GB", "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert {one["name"]: one["starts"] for one in document["profiles"]}["3g.20gb"] == [0, 4]
    assert (document["maximal_placements"], len(document["maximal_layouts"])) == (78, 38)


def test_a_narrow_terminal_cuts_no_name_of_a_profile_short(run: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpu_platform.cli.mig.console", lambda: Console(width=40))
    _, out, _ = run("mig", "list", "--gpu", "RTX PRO 6000")
    table = out.split("compute slices, ")[0]
    assert {"1g.24gb+me", "1g.24gb-me", "4g.96gb+gfx"} <= set(table.split())
    assert "…" not in table


def test_each_model_gets_its_own_demand_and_the_answer_carries_its_proof(run: Any):
    code, out, _ = run(
        "mig", "solve", "--gpu", "A100-80GB", "--demand", "1g.10gb=14,3g.40gb=3",
        "--gpu", "A30", "--demand", "2g.12gb=3", "--format", "json",
    )  # fmt: skip
    first, second = json.loads(out)["solutions"]
    assert code == 0
    assert (first["gpus"], first["bound"], first["optimal"]) == (4, 4, True)
    assert (second["gpus"], second["bound"]) == (2, 2)
    assert first["placements"][2] == [
        {"profile": "3g.40gb", "start": 0, "size": 4},
        {"profile": "3g.40gb", "start": 4, "size": 4},
    ]


def test_a_model_without_a_demand_is_refused(run: Any):
    code, _, err = run("mig", "solve", "--gpu", "A100-80GB", "--gpu", "A30", "--demand", "2g.12gb=3")
    assert code == 2
    assert "one --demand for each --gpu" in err


@pytest.mark.parametrize("between", [":", "="])
def test_a_count_may_follow_a_colon_or_an_equals_sign_in_check_and_solve(run: Any, between: str):
    code, out, _ = run("mig", "check", "--gpu", "A100-80GB", f"3g.40gb{between}2")
    assert (code, out.splitlines()[0]) == (0, "legal on NVIDIA A100-SXM4-80GB: 3g.40gb x2")
    code, out, _ = run("mig", "solve", "--gpu", "A100-80GB", "--demand", f"3g.40gb{between}2")
    assert (code, out.splitlines()[0].partition(";")[0]) == (0, "NVIDIA A100-SXM4-80GB: 1 GPU for 3g.40gb x2")


@pytest.mark.parametrize("count", [pytest.param("100001"), pytest.param("9" * 5000, id="5000 digits")])
def test_a_count_beyond_any_cluster_is_refused_before_it_is_searched(run: Any, count: str):
    for arguments in (("check", f"1g.10gb:{count}"), ("solve", "--demand", f"1g.10gb={count}")):
        code, out, err = run("mig", arguments[0], "--gpu", "A100-80GB", *arguments[1:])
        assert (code, out) == (2, "")
        assert "at most 100000" in err
        assert len(err) < 300

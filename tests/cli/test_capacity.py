"""`gpu-platform capacity STACK` as a user calls it."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.cli import main
from gpu_platform.cli.capacity_page import capacity_page

Called = tuple[int, str, str]


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Called:
    with pytest.raises(SystemExit) as stop:
        main(["capacity", *arguments])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return int(stop.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize(
    "stack", ["local", "dev", "eks-training", "gke-training", "eks-monitoring", "gke-monitoring"]
)
def test_the_quotas_of_every_shipped_environment_fit_the_nodes_together(
    capsys: pytest.CaptureFixture[str], stack: str
) -> None:
    code, out, _ = _run(capsys, stack, "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert document["quotas"]["verdict"] == "placed"
    assert document["quotas"][document["quotas"]["at"].split()[0]]["placement"]


def test_the_command_show_may_be_left_out_and_options_may_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    plain = _run(capsys, "local", "--format", "json")
    assert _run(capsys, "show", "local", "--format", "json") == plain
    assert _run(capsys, "--format", "json", "local") == plain


def test_text_shows_modes_the_verdict_cost_and_waste_by_cause(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, "local")
    assert "mode mig: 56 logical GPUs on 8 physical GPUs" in out
    assert "quotas at desired size (train 2, serve 2, notebooks 1): fit the nodes" in out
    assert "cost: 83.39 USD/h, 60877.00 USD/month (730 h)" in out
    assert "waste: at least" in out
    for cause in ("geometry remainder", "stranded CPU or memory", "not allocated to any team", "idle quota"):
        assert cause in out


def test_quotas_that_do_not_fit_the_nodes_are_a_finding_that_names_the_smallest_set(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stack = tmp_path / "Pulumi.much.yaml"
    text = (STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8")
    text = text.replace("cpu: 16, memory: 128Gi", "cpu: 90, memory: 128Gi")
    stack.write_text(text, "utf-8")
    code, out, _ = _run(capsys, str(stack))
    assert code == 1
    assert "smallest set of teams that do not fit together: vision, search" in out
    assert "not enough: CPU on the nodes that have the GPUs" in out


def test_measured_utilisation_is_read_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "dcgm.json"
    file.write_text('{"train": 0.5, "serve": 0.25, "notebooks": 1}', "utf-8")
    code, out, _ = _run(capsys, "local", "--utilisation", str(file), "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert document["effective"]["usd_per_hour"] == pytest.approx(27.44705 + 0.263 + 27.44705, abs=1e-3)
    assert document["waste"]["usd_per_hour"] == pytest.approx(27.44705 + 0.789, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "place", "allowed"),
    [
        ("train: 48", "train", "a number from 0 to 1. Fix: write 0.48 for 48 %"),
        ("train: -0.1", "train", "a number from 0 to 1"),
        ("train: '0.5'", "train", "a number from 0 to 1"),
        ("trian: 0.5", "trian", "a pool of the stack: train, serve, notebooks. Fix: did you mean 'train'?"),
        ("- 0.5", "(the whole file)", "a mapping"),
        ("train: 0.5\ntrain: 0.6", "line 2, column 1", "each key once"),
        ("", "(the whole file)", "a mapping"),
    ],
)
def test_a_wrong_utilisation_file_is_refused_with_the_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, place: str, allowed: str
) -> None:
    file = tmp_path / "measured.yaml"
    file.write_text(text, "utf-8")
    code, _, err = _run(capsys, "local", "--utilisation", str(file))
    assert code == 2
    assert re.search(rf"  - (line \d+, column \d+: )?{re.escape(place)}: found ", err)
    assert allowed in err


def test_a_missing_utilisation_file_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "local", "--utilisation", "nowhere.yaml")
    assert code == 2
    assert "nowhere.yaml" in err


def test_cpu_and_memory_quotas_are_compared_with_all_pools(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, "gke-monitoring", "--format", "json")
    document = json.loads(out)
    cpu, memory = document["compute"]
    # DaemonSets request 494m CPU on each node, and the driver installer another 150m on GPU nodes.
    taken = {pool["name"]: 494 + (150 if pool["name"] == "serve" else 0) for pool in document["pools"]}
    own = {
        pool["name"]: pool["nodes"] * (pool["cpu_millicores"] - taken[pool["name"]]) / 1000
        for pool in document["pools"]
    }
    assert own["monitoring"] > 0
    assert cpu["offered"] == pytest.approx(sum(own.values()), abs=0.005)
    assert (cpu["allocated"], memory["allocated"]) == (220, 840)
    _, text, _ = _run(capsys, "gke-monitoring")
    assert "cpu: 220 cores in team quotas, " in text


def test_a_cpu_pool_is_shown_without_gpus_and_mode(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, "gke-monitoring", "--format", "json")
    pools = {pool["name"]: pool for pool in json.loads(out)["pools"]}
    found = pools["monitoring"]
    assert (found["gpu"], found["mode"], found["physical_gpus"], found["logical_gpus"]) == (None, None, 0, {})
    assert [mode["mode"] for mode in json.loads(out)["modes"]] == ["none"]


def test_the_page_has_the_numbers_of_the_document_and_nothing_from_outside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, page, _ = _run(capsys, "local", "--format", "html")
    document = json.loads(_run(capsys, "local", "--format", "json")[1])
    assert code == 0
    assert not re.findall(r"(?:src|href)=|url\(|https?:|@import", page)
    assert '<span class="verdict pass">pass</span> quotas of all teams on the desired nodes' in page
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.split("<tr>", page)]
    for pool in document["pools"]:
        (row,) = [row for row in rows if row[:2] == [pool["name"], pool["machine_type"]]]
        share = f"{pool['allocated_share']:.0%}"
        usd = [f"{pool['usd_per_hour']:.2f}", f"{pool['usd_per_month']:.2f}"]
        assert row[5:] == [str(pool["nodes"]), str(pool["physical_gpus"]), share, *usd, "unknown"]
    for cause in document["waste"]["causes"]:
        (row,) = [row for row in rows if row[:1] == [cause["cause"]]]
        figures = (cause["gpus"], cause["usd_per_hour"], cause["usd_per_month"])
        assert row[2:] == ["unknown" if figure is None else f"{figure:.2f}" for figure in figures]
    for resource in document["resources"]:
        assert f'aria-label="{resource["allocated"]} of {resource["offered"]} allocated to teams"' in page
    assert 'style="background:#4477aa;width:75.00%" title="allocated to teams: 42"' in page


def test_the_page_shows_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = unescape(_run(capsys, "gke-monitoring", "--format", "html")[1])
    _, text, _ = _run(capsys, "gke-monitoring")
    starts = ("mode ", "cpu: ", "quotas at ", "cost: ", "highest cost: ", "prices: ", "effective: ", "waste: ")
    lines = [line for line in text.splitlines() if line.startswith(starts)]
    assert len(lines) >= len(starts)
    assert [line for line in lines if line.removesuffix(", by cause:")[:70] not in page] == []


def test_the_page_marks_quotas_beyond_the_nodes_and_escapes_every_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stack = tmp_path / "Pulumi.much.yaml"
    text = (STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8")
    stack.write_text(text.replace("cpu: 16, memory: 128Gi", "cpu: 90, memory: 128Gi"), "utf-8")
    code, out, _ = _run(capsys, str(stack), "--format", "json")
    document = json.loads(out)
    evil = "<script>alert(1)</script>\"'&"
    document["stack"] = document["pools"][0]["name"] = document["compute"][0]["name"] = evil
    document["quotas"]["desired"]["conflict"]["teams"][0] = evil
    document["resources"][0].update(name=evil, allocated=20)
    page = capacity_page(document)
    assert code == 1
    assert '<span class="verdict fail">fail</span>' in page
    assert "more than the nodes have: 4" in page
    assert "<script" not in page
    assert unescape(page).count(evil) == 8

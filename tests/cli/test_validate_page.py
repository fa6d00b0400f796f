"""The HTML page and the CTRF report of a validation of simulated nodes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.validate import ReportFiles, _check_files
from gpu_platform.cli.validate_page import broken_gpus, odd_ones, validation_page
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from sandbox.nvml import NodeProfile, install
from validators.agent.calls import Journal
from validators.agent.checks import run_checks
from validators.agent.expectations import parse_expectations
from validators.agent.nvml import read_nvml
from validators.render import as_ctrf
from validators.report import NodeReport, ValidationReport
from validators.result import CheckResult

DRIVER = "580.65.06"
TIME = "2026-11-25T10:00:00+00:00"
FAULTS = {
    "train-1": ({"kind": "nvlink-degraded", "index": 3, "link": 5},),
    "train-4": ({"kind": "wrong-driver", "version": "550.90.07"},),
    "train-6": ({"kind": "gpu-missing", "index": 2},),
    "train-7": ({"kind": "numa-unknown"},),
}


def node_report(name: str, machine_type: str, *faults: object) -> NodeReport:
    catalog = load_catalog()
    document = expectations_for_machine(
        catalog.machine_types[machine_type], catalog, DeclaredNode(driver_version=DRIVER, driver_source="test")
    ).to_json()
    profile = NodeProfile.model_validate(
        {"machine_type": machine_type, "driver_version": DRIVER, "node": name, "faults": faults}
    )
    with install(profile):
        snapshot = read_nvml(Journal(), lambda _: None)
    entries = run_checks(snapshot, parse_expectations(json.dumps(document), "test"))
    checks = tuple(CheckResult.from_json(entry) for entry in entries)
    return NodeReport(
        node=name,
        pool=name.rpartition("-")[0],
        machine_type=machine_type,
        checks=checks,
        reported="2026-11-25T09:58:00+00:00",
    )


def fleet() -> ValidationReport:
    train = [node_report(name, "p5.48xlarge", *FAULTS.get(name, ())) for name in names("train", 8)]
    serve = [node_report(name, "g5.12xlarge") for name in names("serve", 3)]
    return ValidationReport((*train, *serve), TIME)


def names(pool: str, count: int) -> list[str]:
    return [f"{pool}-{index}" for index in range(count)]


@pytest.fixture(scope="module")
def report() -> ValidationReport:
    return fleet()


def test_the_page_has_a_row_for_each_node_the_worst_first(report: ValidationReport) -> None:
    page = validation_page(report, "prod", load_catalog())
    rows = re.findall(r'<tr><th class="node">([^<]+)</th><td', page)
    assert set(rows[:3]) == {"train-1", "train-4", "train-6"}
    assert len(rows) == 11
    assert "17 of 18 active; inactive: 5" in page


def test_the_page_needs_nothing_from_outside_and_no_text_is_markup(report: ValidationReport) -> None:
    name = "<script>alert(1)</script>"
    evil = NodeReport(node=name, pool=name, machine_type=name, checks=report.nodes[0].checks)
    page = validation_page(ValidationReport((*report.nodes, evil), TIME), name, load_catalog())
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="', page)


def test_the_node_that_differs_from_its_machine_type_is_named(report: ValidationReport) -> None:
    found = {(check, usual, value): nodes for _, check, usual, value, nodes in odd_ones(report)}
    assert found["driver-version", DRIVER, "550.90.07"] == ["train-4"]
    assert found["gpu-count", "8", "7"] == ["train-6"]
    assert {check for check, _, _ in found} >= {"driver-version", "gpu-count", "nvlink-count", "firmware"}


def test_failing_gpus_are_marked_in_the_drawing_of_their_machine_type(report: ValidationReport) -> None:
    assert broken_gpus(report.nodes) == {3: 1}
    page = validation_page(report, "prod", load_catalog())
    assert page.count("<svg") == 2
    assert 'class="box bad"' in page
    assert "NVLink switches" in page


def test_earlier_runs_show_which_nodes_changed(report: ValidationReport) -> None:
    before = ValidationReport(tuple(node_report(name, "g5.12xlarge") for name in names("train", 9)), "2026-11-24")
    page = validation_page(report, "prod", load_catalog(), [before.to_json()])
    assert "train-1: pass → fail" in page
    assert "train-8: gone" in page
    assert "serve-0: new → pass" in page


def test_ctrf_has_a_test_for_each_check_and_counts_them(report: ValidationReport) -> None:
    results = as_ctrf(report)["results"]
    assert results["summary"]["tests"] == len(results["tests"]) == sum(len(node.checks) for node in report.nodes)
    for status in ("passed", "failed", "skipped", "other", "pending"):
        assert results["summary"][status] == sum(test["status"] == status for test in results["tests"])
    [failed] = [test for test in results["tests"] if test["name"] == "train-4: driver-version"]
    assert failed["status"] == "failed"
    assert failed["message"] == f"fail: expected {DRIVER}, observed 550.90.07"
    assert failed["suite"] == ["train", "train-4"]


def test_the_age_of_the_oldest_report_is_known(report: ValidationReport) -> None:
    assert report.oldest_seconds == 120
    assert ValidationReport(report.nodes).oldest_seconds is None
    assert ValidationReport((), TIME).oldest_seconds is None


def test_files_that_cannot_be_read_or_written_are_all_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    nowhere = tmp_path / "none" / "report"
    files = ReportFiles(junit=nowhere, ctrf=nowhere, html=nowhere, earlier=(wrong, tmp_path / "absent.json"))
    with pytest.raises(BadInput) as error:
        _check_files(files)
    assert [problem.path for problem in error.value.problems] == [
        "--junit",
        "--ctrf",
        "--html",
        *["--earlier"] * 2,
    ]


if __name__ == "__main__":  # write the page to a file, to view it in a browser
    earlier = ValidationReport(tuple(fleet().nodes[:5]), "2026-11-24T10:00:00+00:00").to_json()
    Path(sys.argv[1]).write_text(validation_page(fleet(), "prod", load_catalog(), [earlier]), "utf-8")

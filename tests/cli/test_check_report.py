"""The SARIF and JUnit output of `check`. Every finding refers to its line of the stack file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gpu_platform.cli.app import main
from gpu_platform.stack.positions import Position, Positions

SHARED_TRAINING = """\
config:
  gpu-platform:platform:
    kind: environment
    cluster: {provider: sandbox, name: local}
    operator: {release: v26.7.0}
    pools:
      - name: serve
        machine_type: g4dn.xlarge
        count: {desired: 2}
        workload: inference
        sharing: {mode: time-slicing, replicas: 4}
      - name: train
        machine_type: p4de.24xlarge
        count: {desired: 1}
        workload: training
        sharing: {mode: time-slicing, replicas: 2}
    teams:
      - name: vision
        quota: {shared: 4, cpu: 100, memory: 1Ti}
        priority: training
        members: ["group:vision"]
        workloads:
          - {name: web, pool: serve, cpu: 1, memory: 1Gi}
          - name: ranker
            pool: serve
            cpu: 1
            memory: 1Gi
            image: registry.example.com/ranker:latest
      - name: search
        quota: {shared: 4}
        priority: inference
        members: ["group:search"]
"""


# The fields of each object in the SARIF logs of `check`, from section 3 of SARIF 2.1.0 (OASIS, errata 01).
# Each field is mapped to the type of its value.
# The names of required fields end with `!`, and fields that are not listed are not allowed.
# On 2026-11-25, logs of `check` satisfied the whole SARIF schema (oasis-tcs/sarif-spec, sarif-2.1/schema).
MESSAGE = {"text!": str}
FORM: dict[str, Any] = {
    "$schema": str,
    "version!": {"2.1.0"},
    "runs!": [
        {
            "tool!": {
                "driver!": {
                    "name!": str,
                    "semanticVersion": str,
                    "rules": [
                        {
                            "id!": str,
                            "shortDescription": MESSAGE,
                            "defaultConfiguration": {"level": {"none", "note", "warning", "error"}},
                            "properties": dict,
                        }
                    ],
                }
            },
            "automationDetails": {"id": str},
            "results": [
                {
                    "ruleId": str,
                    "ruleIndex": int,
                    "level": {"none", "note", "warning", "error"},
                    "message!": MESSAGE,
                    "locations": [
                        {
                            "physicalLocation": {
                                "artifactLocation": {"uri": str},
                                "region": {"startLine": int, "startColumn": int},
                            }
                        }
                    ],
                }
            ],
            "columnKind": {"utf16CodeUnits", "unicodeCodePoints"},
        }
    ],
}


def strays(value: Any, form: Any, path: str = "log") -> list[str]:
    """Return the paths of all parts of `value` that `form` does not allow."""
    if isinstance(form, set):
        return [] if value in form else [path]
    if isinstance(form, list):
        items = enumerate(value) if isinstance(value, list) else [(0, None)]
        return [one for index, item in items for one in strays(item, form[0], f"{path}[{index}]")]
    if not isinstance(form, dict):
        return [] if isinstance(value, form) and not isinstance(value, bool) else [path]
    if not isinstance(value, dict):
        return [path]
    fields = {name.removesuffix("!"): of for name, of in form.items()}
    wrong = [f"{path}.{name}" for name in value if name not in fields]
    wrong += [f"{path}.{name}" for name in form if name.endswith("!") and name.removesuffix("!") not in value]
    return wrong + [
        one for name, of in fields.items() if name in value for one in strays(value[name], of, f"{path}.{name}")
    ]


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "stacks" / "Pulumi.shared.yaml"
    path.parent.mkdir()
    path.write_text(SHARED_TRAINING, "utf-8")
    return path


def check(path: Path, output: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(["check", str(path), "--format", output])
    return int(stop.value.code or 0), capsys.readouterr().out


def sarif(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code, out = check(path, "sarif", capsys)
    return code, json.loads(out)["runs"][0]


def places(run: dict[str, Any]) -> dict[str, int]:
    return {
        result["ruleId"]: result["locations"][0]["physicalLocation"]["region"]["startLine"]
        for result in run["results"]
    }


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SHARED_TRAINING.splitlines(), 1) if text in line)


def test_each_violation_is_at_the_line_of_what_it_is_about(stack: Path, capsys: pytest.CaptureFixture[str]):
    code, run = sarif(stack, capsys)
    assert code == 1
    assert places(run) == {
        "sharing-for-training": line_of("- name: train"),
        "gpu-image-pinned": line_of("- name: ranker"),
        "sharing-across-tenants": line_of("quota: {shared: 4}"),
    }


def test_text_has_the_lines_of_sarif_and_names_of_the_stack_file(stack: Path, capsys: pytest.CaptureFixture[str]):
    _, run = sarif(stack, capsys)
    _, text = check(stack, "text", capsys)
    plain = " ".join(text.split())
    for rule, line in places(run).items():
        assert re.search(rf"{rule} \(\w+\): [a-z/ ()0-9]+: line {line}, column", plain), rule
    assert ": train: line" in plain


def test_an_exemption_without_effect_is_a_warning_at_its_line(stack: Path, capsys: pytest.CaptureFixture[str]):
    exempt = "exempt: [{resource: nobody, reason: gone, owner: ops, until: 2099-01-31}]"
    text = stack.read_text("utf-8").rstrip("\n") + f"\n    policy: {{rules: {{shm-for-training: {{{exempt}}}}}}}\n"
    stack.write_text(text, "utf-8")
    _, run = sarif(stack, capsys)
    (found,) = [one for one in run["results"] if one["ruleId"] == "shm-for-training"]
    assert (found["level"], places(run)["shm-for-training"]) == ("warning", len(text.splitlines()))
    _, out = check(stack, "json", capsys)
    (warning,) = [one for one in json.loads(out)["warnings"] if "shm-for-training" in one]
    assert "covers no violation" in warning


def test_the_file_is_named_from_the_current_folder_and_levels_follow_the_rules(
    stack: Path, capsys: pytest.CaptureFixture[str]
):
    _, run = sarif(stack, capsys)
    locations = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]
    ]
    assert set(locations) == {"stacks/Pulumi.shared.yaml"}
    levels = {result["ruleId"]: result["level"] for result in run["results"]}
    assert levels["sharing-for-training"] == "warning"
    assert levels["sharing-across-tenants"] == "error"


def test_every_result_names_a_rule_that_the_log_describes(stack: Path, capsys: pytest.CaptureFixture[str]):
    _, run = sarif(stack, capsys)
    described = run["tool"]["driver"]["rules"]
    assert run["results"]
    for result in run["results"]:
        assert described[result["ruleIndex"]]["id"] == result["ruleId"]


@pytest.mark.parametrize("replaced", ["", "replicas: 4", "kind: environment"])
def test_a_log_has_the_form_that_the_standard_gives_it(
    stack: Path, capsys: pytest.CaptureFixture[str], replaced: str
):
    if replaced:
        stack.write_text(SHARED_TRAINING.replace(replaced, "wrong: 1"), "utf-8")
    _, out = check(stack, "sarif", capsys)
    log = json.loads(out)
    assert strays(log, FORM) == []
    assert log["runs"][0]["results"]
    assert all(
        place["physicalLocation"]["region"][field] >= 1
        for result in log["runs"][0]["results"]
        for place in result["locations"]
        for field in ("startLine", "startColumn")
    )


def test_mistakes_of_the_file_are_findings_too_and_the_exit_code_stays_2(
    stack: Path, capsys: pytest.CaptureFixture[str]
):
    stack.write_text(
        SHARED_TRAINING.replace("replicas: 4", "replicas: 0").replace("p4de.24xlarge", "p4de.48xlarge")
    )
    code, run = sarif(stack, capsys)
    assert code == 2
    lines = sorted(result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in run["results"])
    assert lines == [line_of("replicas: 4"), line_of("p4de.24xlarge")]
    assert {result["ruleId"] for result in run["results"]} == {"stack-file"}


def test_a_file_that_is_no_yaml_has_its_finding_at_the_line_of_the_mistake(
    stack: Path, capsys: pytest.CaptureFixture[str]
):
    stack.write_text("config:\n  a: [1, 2\n  b: 3\n")
    code, run = sarif(stack, capsys)
    assert (code, places(run)) == (2, {"stack-file": 3})


def test_junit_has_a_case_for_every_rule_and_fails_those_that_stop_a_deploy(
    stack: Path, capsys: pytest.CaptureFixture[str]
):
    code, out = check(stack, "junit", capsys)
    suite = ElementTree.fromstring(out).find("testsuite")
    assert suite is not None
    failed = {case.get("name") for case in suite if case.find("failure") is not None}
    skipped = {case.get("name") for case in suite if case.find("skipped") is not None}
    assert (code, failed) == (1, {"sharing-across-tenants"})
    assert skipped == {"sharing-for-training", "gpu-image-pinned"}
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "2")
    assert "stacks/Pulumi.shared.yaml:" in (
        suite.findtext("testcase[@name='sharing-across-tenants']/failure") or ""
    )


def _skipped(out: str) -> dict[str, str]:
    found = ElementTree.fromstring(out).iterfind("testsuite/testcase")
    results = {str(case.get("name")): case.find("skipped") for case in found}
    return {name: str(one.get("message")) for name, one in results.items() if one is not None}


def test_junit_passes_no_rule_for_a_file_that_is_not_valid(stack: Path, capsys: pytest.CaptureFixture[str]):
    stack.write_text(SHARED_TRAINING.replace("replicas: 4", "replicas: 0"), "utf-8")
    code, out = check(stack, "junit", capsys)
    suite = ElementTree.fromstring(out).find("testsuite")
    assert suite is not None
    assert code == 2
    assert set(_skipped(out).values()) == {"not checked: the stack file is not valid"}
    assert [case.get("name") for case in suite if len(case) == 0] == []
    assert suite.get("skipped") == str(len(_skipped(out)))


def test_junit_does_not_pass_a_rule_that_the_stack_file_disables(stack: Path, capsys: pytest.CaptureFixture[str]):
    policy = "    policy: {rules: {gpu-node-taint: disabled}}\n"
    stack.write_text(SHARED_TRAINING + policy, "utf-8")
    _, out = check(stack, "junit", capsys)
    assert _skipped(out)["gpu-node-taint"] == "not checked: the stack file disables this rule"


def test_a_good_stack_has_no_result(stack: Path, capsys: pytest.CaptureFixture[str]):
    code, run = sarif(Path("local"), capsys)
    assert (code, run["results"]) == (0, [])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pools[1].sharing.replicas", Position(16, 39)),
        ("pools[1].sharing.nothing", Position(16, 9)),
        ("pools[7]", Position(6, 5)),
        ("teams[0].workloads[1].image", Position(28, 13)),
        ("", Position(2, 3)),
        ("config", Position(1, 1)),
        ("line 3, column 9", Position(3, 9)),
    ],
)
def test_a_path_leads_to_its_key_or_to_the_nearest_part_above_it(stack: Path, path: str, expected: Position):
    assert Positions(stack).of(path) == expected

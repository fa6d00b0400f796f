"""`charts` and `chart_mirror`: additional Helm values and repositories of every chart that a stack installs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from gpu_platform.paths import STACKS_DIR
from gpu_platform.planning.charts.section import ignored, merged
from gpu_platform.program import record_stack
from gpu_platform.stacks import load_stack
from tests.support.command_line import run


def _stack(tmp_path: Path, **settings: Any) -> Path:
    document = yaml.safe_load((STACKS_DIR / "Pulumi.eks-training.yaml").read_text("utf-8"))
    document["config"]["gpu-platform:platform"] |= settings
    path = tmp_path / "Pulumi.eks-own.yaml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


def _releases(path: Path) -> dict[str, dict[str, Any]]:
    resources = record_stack(load_stack(str(path))).resources
    return {one.name: dict(one.inputs) for one in resources if one.type == "kubernetes:helm.sh/v3:Release"}


def test_every_chart_comes_from_the_mirror_and_one_from_its_own_repository(tmp_path: Path) -> None:
    plain = _releases(_stack(tmp_path))
    mirror, other = "oci://registry.example.com/charts", "https://charts.example.com"
    changed = _releases(_stack(tmp_path, chart_mirror=mirror, charts={"gpu-operator": {"repository": other}}))
    assert len(changed) >= 3
    assert changed.keys() == plain.keys()
    for name, inputs in changed.items():
        chart = plain[name]["chart"].rsplit("/", 1)[-1]
        if chart == "gpu-operator":
            assert (inputs["chart"], inputs["repositoryOpts"]["repo"]) == (chart, other)
        else:
            assert inputs["chart"] == f"{mirror}/{chart}"
            assert not inputs.get("repositoryOpts")
        assert inputs["version"] == plain[name]["version"]
        assert inputs["values"] == plain[name]["values"]


def test_additional_values_are_merged_and_those_of_the_program_win(tmp_path: Path) -> None:
    plain = _releases(_stack(tmp_path))["gpu-operator"]["values"]
    added = {
        "driver": {"enabled": "mine", "licensing": {"nlsEnabled": True}},
        "daemonsets": {"updateStrategy": "OnDelete"},
    }
    path = _stack(tmp_path, charts={"gpu-operator": {"values": added}})
    values = _releases(path)["gpu-operator"]["values"]
    assert values["driver"] == {**plain["driver"], "licensing": {"nlsEnabled": True}}
    assert values["daemonsets"]["updateStrategy"] == "OnDelete"
    assert {key: value for key, value in values.items() if key not in added} == {
        key: value for key, value in plain.items() if key not in added
    }
    _, out, err = run("check", str(path), "--format", "json")
    assert "charts.gpu-operator.values.driver.enabled: the program sets another value, which wins" in err
    decisions = {one["subject"]: one["chosen"] for one in json.loads(out)["decisions"]}
    assert decisions["chart gpu-operator"] == "daemonsets, driver"


def test_values_of_a_chart_that_the_stack_does_not_install_are_named(tmp_path: Path) -> None:
    _, _, err = run("check", str(_stack(tmp_path, charts={"lws": {"values": {"a": 1}}})))
    assert "warning: charts.lws: this stack does not install the chart" in err


def test_an_unknown_chart_and_charts_in_the_sandbox_are_refused(tmp_path: Path) -> None:
    code, _, err = run("check", str(_stack(tmp_path, charts={"gpu-operatr": {"values": {"a": 1}}})))
    assert code == 2
    assert "charts.gpu-operatr: found 'gpu-operatr'" in err
    assert "did you mean 'gpu-operator'?" in err
    document = yaml.safe_load((STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8"))
    document["config"]["gpu-platform:platform"]["chart_mirror"] = "oci://registry.example.com/charts"
    path = tmp_path / "Pulumi.local2.yaml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    code, _, err = run("check", str(path))
    assert code == 2
    assert "chart_mirror: found settings of Helm charts on a cluster without any" in err


def test_values_merge_by_key_at_every_depth() -> None:
    own, added = {"a": {"b": 1, "l": [1]}, "c": 2}, {"a": {"b": 9, "d": 3, "l": [2]}, "c": 2, "e": 4}
    assert merged(own, added) == {"a": {"b": 1, "d": 3, "l": [1]}, "c": 2, "e": 4}
    assert ignored(own, added) == ["a.b", "a.l"]


def test_images_lists_every_image_of_the_programs_own_pods_and_every_chart(tmp_path: Path) -> None:
    path = _stack(tmp_path, chart_mirror="oci://registry.example.com/charts")
    resources = record_stack(load_stack(str(path))).resources
    named = set(re.findall(r'"image": "([^"]+[:@][^"]+)"', json.dumps([dict(one.inputs) for one in resources])))
    assert named
    _, out, _ = run("images", str(path), "--format", "json")
    document = json.loads(out)
    assert named <= {one["image"] for one in document["images"]}
    releases = _releases(path)
    assert {one["chart"] for one in document["charts"]} == {
        inputs["chart"].rsplit("/", 1)[-1] for inputs in releases.values()
    }
    assert {one["repository"] for one in document["charts"]} == {"oci://registry.example.com/charts"}

"""The settings `charts` and `chart_mirror`: Helm values and repositories for the charts that a stack installs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from gpu_platform.base.paths import PROJECT_ROOT, STACKS_DIR
from gpu_platform.planning.charts.section import ignored, merged
from tests.support.command_line import run
from tests.support.recorded import record_platform


def _platform(**settings: Any) -> dict[str, Any]:
    document = yaml.safe_load((STACKS_DIR / "Pulumi.eks-training.yaml").read_text("utf-8"))
    return document["config"]["gpu-platform:platform"] | settings


def _stack(tmp_path: Path, **settings: Any) -> Path:
    path = tmp_path / "Pulumi.eks-own.yaml"
    path.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": _platform(**settings)}}), "utf-8")
    return path


def _releases(**settings: Any) -> dict[str, dict[str, Any]]:
    resources = record_platform(_platform(**settings)).resources
    return {one.name: dict(one.inputs) for one in resources if one.type == "kubernetes:helm.sh/v3:Release"}


def test_every_chart_comes_from_the_mirror_and_one_from_its_own_repository() -> None:
    plain = _releases()
    mirror, other = "oci://registry.example.com/charts", "https://charts.example.com"
    changed = _releases(chart_mirror=mirror, charts={"gpu-operator": {"repository": other}})
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


def test_additional_values_are_merged_but_the_programs_take_precedence(tmp_path: Path) -> None:
    plain = _releases()["gpu-operator"]["values"]
    added = {
        "driver": {"enabled": "mine", "licensing": {"nlsEnabled": True}},
        "daemonsets": {"updateStrategy": "OnDelete"},
    }
    charts = {"gpu-operator": {"values": added}}
    values = _releases(charts=charts)["gpu-operator"]["values"]
    assert values["driver"] == {**plain["driver"], "licensing": {"nlsEnabled": True}}
    assert values["daemonsets"]["updateStrategy"] == "OnDelete"
    assert {key: value for key, value in values.items() if key not in added} == {
        key: value for key, value in plain.items() if key not in added
    }
    _, out, err = run("check", str(_stack(tmp_path, charts=charts)), "--format", "json")
    assert (
        "charts.gpu-operator.values.driver.enabled: the program sets another value, which takes precedence" in err
    )
    decisions = {one["subject"]: one["chosen"] for one in json.loads(out)["decisions"]}
    assert decisions["chart gpu-operator"] == "daemonsets, driver; without effect: driver.enabled"


def test_a_chart_whose_values_are_all_replaced_has_no_additional_values(tmp_path: Path) -> None:
    charts = {"gpu-operator": {"values": {"driver": {"enabled": True}}}}
    _, out, _ = run("check", str(_stack(tmp_path, charts=charts)), "--format", "json")
    decisions = {one["subject"]: one["chosen"] for one in json.loads(out)["decisions"]}
    assert decisions["chart gpu-operator"] == "none; without effect: driver.enabled"


def test_values_of_a_chart_that_the_stack_does_not_install_are_named(tmp_path: Path) -> None:
    _, _, err = run("check", str(_stack(tmp_path, charts={"lws": {"values": {"a": 1}}})))
    assert "warning: charts.lws: this stack does not install the chart" in err


def test_sarif_and_junit_have_the_warnings_of_the_text(tmp_path: Path) -> None:
    stack = _stack(tmp_path, charts={"lws": {"values": {"a": 1}}})
    code, out, _ = run("check", str(stack), "--format", "sarif")
    (found,) = [
        one for one in json.loads(out)["runs"][0]["results"] if "does not install" in one["message"]["text"]
    ]
    line = found["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert (code, found["ruleId"], found["level"]) == (0, "stack-file", "warning")
    assert "lws" in stack.read_text("utf-8").splitlines()[line - 1]
    _, out, _ = run("check", str(stack), "--format", "junit")
    assert "charts.lws: this stack does not install the chart" in out


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
    assert "chart_mirror: found settings for Helm charts on a cluster without Helm charts" in err


def test_values_merge_by_key_at_every_depth() -> None:
    own, added = {"a": {"b": 1, "l": [1]}, "c": 2}, {"a": {"b": 9, "d": 3, "l": [2]}, "c": 2, "e": 4}
    assert merged(own, added) == {"a": {"b": 1, "d": 3, "l": [1]}, "c": 2, "e": 4}
    assert ignored(own, added) == ["a.b", "a.l"]


def test_the_repository_of_an_image_is_that_of_the_stack_file() -> None:
    own, added = {"image": {"repository": "a.example/plugin"}}, {"image": {"repository": "mirror.example/plugin"}}
    assert merged(own, added) == added
    assert ignored(own, added) == []


def test_lists_merge_by_the_names_of_their_entries() -> None:
    own = {
        "env": [{"name": "A", "value": "1"}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "args": ["--a"],
        "empty": [],
    }
    added = {
        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "0"}],
        "tolerations": [{"key": "reserved", "operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute"}],
        "args": ["--b"],
        "empty": [{"name": "C"}],
    }
    result = merged(own, added)
    assert {one["name"]: one["value"] for one in result["env"]} == {"A": "1", "B": "2"}
    assert [one.get("key") for one in result["tolerations"]] == ["reserved", None, "gpu"]
    assert (result["args"], result["empty"]) == (["--a"], [{"name": "C"}])
    assert ignored(own, added) == ["env[A]", "args"]
    assert ignored(result, added) == ["env[A]", "args"]


def test_documented_toolkit_values_for_rke2_are_merged_with_the_programs() -> None:
    text = (PROJECT_ROOT / "docs" / "existing-clusters.md").read_text("utf-8")
    section = text.partition("### RKE2, k3s and MicroK8s")[2]
    document = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    resources = record_platform(document["config"]["gpu-platform:platform"]).resources
    [release] = [dict(one.inputs) for one in resources if one.type == "kubernetes:helm.sh/v3:Release"]
    variables = {one["name"]: one["value"] for one in release["values"]["toolkit"]["env"]}
    assert variables == {
        "CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock",
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED": "false",
        "RUNTIME_CONFIG_SOURCE": "file",
    }


def test_images_lists_every_image_of_the_programs_own_pods_and_every_chart(tmp_path: Path) -> None:
    mirror = "oci://registry.example.com/charts"
    resources = record_platform(_platform(chart_mirror=mirror)).resources
    named = set(re.findall(r'"image": "([^"]+[:@][^"]+)"', json.dumps([dict(one.inputs) for one in resources])))
    assert named
    _, out, _ = run("images", str(_stack(tmp_path, chart_mirror=mirror)), "--format", "json")
    document = json.loads(out)
    assert named <= {one["image"] for one in document["images"]}
    releases = _releases(chart_mirror=mirror)
    assert {one["chart"] for one in document["charts"]} == {
        inputs["chart"].rsplit("/", 1)[-1] for inputs in releases.values()
    }
    assert {one["repository"] for one in document["charts"]} == {mirror}

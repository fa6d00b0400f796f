"""Recipes of NVIDIA AICR, compared with stacks: the verdicts, the components, and the errors for files that are
not recipes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from extensions.reports.recipe.command import show_recipe
from extensions.reports.recipe.compare import ConstraintResult, Verdict, compare, components
from extensions.reports.recipe.document import read_recipe
from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.catalog import load_catalog
from tests.support.eks_stacks import CREATED, plan_eks

TRAIN = {"zones": ["us-east-2a"]}
# The output of `aicr recipe --service eks --accelerator h100 --intent training --os ubuntu`, shortened.
RECIPE: dict[str, Any] = {
    "kind": "RecipeResult",
    "apiVersion": "aicr.nvidia.com/v1alpha1",
    "metadata": {"appliedOverlays": ["base", "eks"]},
    "criteria": {"service": "eks", "accelerator": "h100", "intent": "training", "os": "any"},
    "constraints": [{"name": "K8s.server.version", "value": ">= 1.32.4"}],
    "componentRefs": [
        {"name": "gpu-operator", "type": "Helm", "version": "v25.10.1"},
        {"name": "kai-scheduler", "type": "Helm", "version": "v0.13.0"},
        {"name": "new-thing", "type": "Helm", "version": "1.0"},
    ],
    "deploymentOrder": ["gpu-operator"],
    "validation": {
        "deployment": {"constraints": [{"name": "Deployment.gpu-operator.version", "value": ">= v24.6.0"}]},
        "performance": {"constraints": [{"name": "nccl-all-reduce-bw", "value": ">= 300", "unit": "GB/s"}]},
    },
}


def written(folder: Path, document: Any) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def answers(
    folder: Path, *pools: dict[str, Any], kubernetes: str = "1.34", **recipe: Any
) -> dict[str, ConstraintResult]:
    plan = plan_eks(*(pools or (TRAIN,)), cluster={**CREATED, "kubernetes": kubernetes})
    read = read_recipe(written(folder, {**RECIPE, **recipe}))
    return {one.constraint: one for one in compare(read, plan, load_catalog())}


def of(name: str, value: str) -> dict[str, Any]:
    return {"constraints": [{"name": name, "value": value}]}


def test_the_criteria_and_constraints_of_a_recipe_are_answered_in_its_order(tmp_path: Path) -> None:
    found = answers(tmp_path)
    assert [(name, one.verdict) for name, one in found.items()] == [
        ("criteria.service", Verdict.MET),
        ("criteria.accelerator", Verdict.MET),
        ("criteria.intent", Verdict.MET),
        ("K8s.server.version", Verdict.MET),
        ("Deployment.gpu-operator.version", Verdict.MET),
        ("nccl-all-reduce-bw", Verdict.UNKNOWN),
    ]
    assert found["nccl-all-reduce-bw"].why == "measured on the nodes after the deployment, not planned"


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (">= 1.34", Verdict.MET),
        (">= 1.35", Verdict.NOT_MET),
        (">= 1.35.2", Verdict.NOT_MET),
        (">= 1.34.3", Verdict.UNKNOWN),
        ("< 1.40", Verdict.MET),
        ("== 1.34", Verdict.MET),
        ("!= 1.34", Verdict.NOT_MET),
    ],
)
def test_kubernetes_is_compared_by_minor_version_and_a_patch_is_left_open(
    tmp_path: Path, value: str, verdict: Verdict
) -> None:
    assert answers(tmp_path, **of("K8s.server.version", value))["K8s.server.version"].verdict == verdict


@pytest.mark.parametrize(
    ("image", "wanted", "verdict"),
    [
        ({"family": "al2023"}, "amzn", Verdict.MET),
        ({"family": "al2023"}, "ubuntu", Verdict.NOT_MET),
        ({"family": "bottlerocket"}, "bottlerocket", Verdict.MET),
        ({"ami": "ami-0a1b2c3d4e5f60718"}, "amzn", Verdict.UNKNOWN),
    ],
)
def test_the_operating_system_is_taken_from_the_node_images(
    tmp_path: Path, image: dict[str, str], wanted: str, verdict: Verdict
) -> None:
    found = answers(tmp_path, {**TRAIN, "image": image}, **of("OS.release.ID", wanted))
    assert found["OS.release.ID"].verdict == verdict


def test_a_stack_for_something_else_does_not_meet_the_criteria(tmp_path: Path) -> None:
    other = {"service": "gke", "accelerator": "gb200", "intent": "inference", "os": "cos"}
    found = answers(tmp_path, criteria=other)
    assert {name for name, one in found.items() if one.verdict is Verdict.NOT_MET} == {
        f"criteria.{name}" for name in other
    }


def test_a_component_is_answered_by_the_catalogue_and_an_unknown_one_says_so(tmp_path: Path) -> None:
    read = read_recipe(written(tmp_path, RECIPE))
    operator, scheduler, new = components(read, plan_eks(TRAIN), load_catalog())
    assert (operator.wanted, operator.version) == ("v25.10.1", "v26.7.0")
    assert scheduler.handled.startswith("not installed: ")
    assert new.handled == "not installed and unknown to this program"


def test_an_overlay_of_the_repository_is_read_as_well(tmp_path: Path) -> None:
    overlay = {
        "kind": "RecipeMetadata",
        "metadata": {"name": "eks"},
        "spec": {**of("K8s.server.version", ">= 1.28")},
    }
    [constraint] = read_recipe(written(tmp_path, overlay)).constraints
    assert constraint.value == ">= 1.28"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("kind: Deployment", "kind"),
        ("- a list", "kind"),
        ("{", ""),
        ("kind: RecipeMetadata", ""),
        ({**RECIPE, "constraints": [{"name": "K8s.server.version"}]}, "constraints.0.value"),
    ],
)
def test_a_file_that_is_no_recipe_is_bad_input(tmp_path: Path, document: Any, place: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_recipe(written(tmp_path, document))
    assert [problem.path for problem in caught.value.problems] == [place]


def test_the_command_ends_with_a_finding_only_for_a_constraint_of_severity_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = {"name": "Deployment.gpu-operator.version", "value": ">= v99.0.0"}
    plain = {"kind": "RecipeResult", "criteria": {}}
    hard = written(tmp_path, {**plain, "constraints": [failing]})
    assert show_recipe("eks-training", hard, to_json=True) is ExitCode.FINDING
    [answer] = json.loads(capsys.readouterr().out)["constraints"]
    assert (answer["found"], answer["verdict"]) == ("v26.7.0", "not met")
    soft = written(tmp_path, {**plain, "constraints": [{**failing, "severity": "warning"}]})
    assert show_recipe("eks-training", soft, to_json=False) is ExitCode.GOOD
    assert "not met" in capsys.readouterr().out


def test_every_component_of_the_recipes_has_its_row_in_the_documentation() -> None:
    page = (PROJECT_ROOT / "docs" / "recipes.md").read_text("utf-8")
    named = {"kgateway-crds": "Gateway API CRDs", "dynamo-platform": "dynamo-platform"}
    missing = [name for name in load_catalog().recipe_components if named.get(name, name) not in page]
    assert missing == []

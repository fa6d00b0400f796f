"""The output of `gpu-platform production` for people and for programs."""

from __future__ import annotations

import json

from tests.cli.conftest import Run


def test_the_checklist_is_one_document_with_the_lines_of_the_stack_file(run: Run) -> None:
    ran = run("production", "eks-training", "--format", "json")
    document = json.loads(ran.out)
    points = {point["name"]: point for point in document["points"]}
    assert ran.code == 1
    assert document["not_done"] == sum(point["status"] == "not done" for point in document["points"])
    assert points["cost budget"]["status"] == "not done"
    with open("stacks/Pulumi.eks-training.yaml") as file:
        lines = file.read().splitlines()
    assert lines[points["cost budget"]["line"] - 1].strip().startswith("gpu-platform:platform:")
    assert lines[points["validated nodes"]["line"] - 1].strip().startswith("validation:")


def test_the_checklist_of_a_team_names_that_of_its_environment(run: Run) -> None:
    ran = run("production", "speech")
    assert ran.code == 2
    assert "run `gpu-platform production local`" in ran.err

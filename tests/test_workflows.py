"""Workflows run pinned actions with minimal permissions, and issue forms and bots refer to existing files and
labels.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from gpu_platform.base.paths import PROJECT_ROOT

GITHUB = PROJECT_ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))
PINNED = re.compile(
    r"(?P<action>[\w.-]+/[\w.-]+)(/[\w./-]+)?@(?P<commit>[0-9a-f]{40}) # (?P<version>v\d+\.\d+\.\d+)"
)


def read(name: str) -> Any:
    return yaml.safe_load((GITHUB / name).read_text("utf-8"))


def uses() -> dict[str, list[str]]:
    """Return the actions that each workflow and the project's action use."""
    files = [*WORKFLOWS, PROJECT_ROOT / "action.yml"]
    return {file.name: re.findall(r"^\s*(?:- )?uses: (.+)$", file.read_text("utf-8"), re.M) for file in files}


def test_every_action_is_pinned_to_the_commit_of_a_version() -> None:
    assert all(uses().values())
    loose = [f"{file}: {use}" for file, used in uses().items() for use in used if not PINNED.fullmatch(use)]
    assert loose == []


def test_all_workflows_use_the_same_commit_of_an_action() -> None:
    commits = defaultdict[str, set[tuple[str, str]]](set)
    for use in (use for used in uses().values() for use in used):
        if pin := PINNED.fullmatch(use):
            commits[pin["action"]].add((pin["commit"], pin["version"]))
    assert {action: pins for action, pins in commits.items() if len(pins) > 1} == {}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_jobs_have_a_time_limit_and_may_only_read_by_default(workflow: Any) -> None:
    content = yaml.safe_load(workflow.read_text("utf-8"))
    assert content["permissions"] == {"contents": "read"}
    assert [name for name, job in content["jobs"].items() if "timeout-minutes" not in job] == []


def test_only_the_reviewed_environment_publishes() -> None:
    jobs = read("workflows/release.yaml")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["environment"] == "release"


def test_nothing_is_published_before_the_wheel_was_tried_on_each_python() -> None:
    jobs = read("workflows/release.yaml")["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "smoke": "build",
        "publish": "smoke",
        "announce": "publish",
        "pages": "publish",
    }
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tried = jobs["smoke"]["strategy"]["matrix"]["python"]
    assert [f"Programming Language :: Python :: {python}" for python in tried] == project["classifiers"]


def test_dependencies_that_must_not_move_are_declared() -> None:
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {
        Requirement(text).name for text in (*project["dependencies"], *project["optional-dependencies"]["dev"])
    }
    (python,) = (entry for entry in read("dependabot.yml")["updates"] if entry["package-ecosystem"] == "uv")
    ignored = {entry["dependency-name"] for entry in python["ignore"]}
    assert {"protobuf", "ortools", "pulumi-policy", "grpcio-status"} <= ignored <= declared


def test_the_bot_knows_every_go_module_of_the_sandbox() -> None:
    (go,) = (entry for entry in read("dependabot.yml")["updates"] if entry["package-ecosystem"] == "gomod")
    known = {
        folder for pattern in go["directories"] for folder in PROJECT_ROOT.glob(f"{pattern.strip('/')}/go.mod")
    }
    assert known == set((PROJECT_ROOT / "sandbox").rglob("go.mod"))


@pytest.mark.parametrize("form", ["bug", "feature"])
def test_issue_forms_have_unique_fields_with_labels(form: str) -> None:
    content = read(f"ISSUE_TEMPLATE/{form}.yaml")
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert content["name"]
    assert content["description"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_the_bug_form_asks_what_a_maintainer_needs() -> None:
    body = read("ISSUE_TEMPLATE/bug.yaml")["body"]
    required = {field["id"] for field in body if field.get("validations", {}).get("required")}
    assert {"version", "doctor", "stack", "provider"} <= required
    (provider,) = (field for field in body if field.get("id") == "provider")
    assert provider["attributes"]["options"] == ["eks", "gke", "existing", "sandbox"]

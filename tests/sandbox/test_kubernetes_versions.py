"""The Kubernetes version of a sandbox. tests/e2e/test_kubernetes_upgrade.py tests its upgrade in place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from sandbox._layout import Layout, Settings
from sandbox._modules import kubernetes_versions
from sandbox.versions import check_kubernetes

OLDER, NEWER = kubernetes_versions()[-2:]


def problem_of(home: Path, wanted: str) -> Problem:
    with pytest.raises(BadInput) as raised:
        check_kubernetes(home, "x", wanted, "--kubernetes")
    (problem,) = raised.value.problems
    return problem


def sandbox_of(folder: Path, kubernetes: str) -> Path:
    Layout(folder).write_settings(Settings("x", 1, kubernetes))
    return folder


def test_a_new_sandbox_takes_any_version_that_can_be_built(tmp_path: Path) -> None:
    for version in kubernetes_versions():
        check_kubernetes(tmp_path, "x", version, "--kubernetes")


def test_a_version_that_cannot_be_built_is_refused_with_those_that_can(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "1.30")
    assert (problem.path, problem.found) == ("--kubernetes", "'1.30'")
    assert problem.allowed.endswith(", ".join(kubernetes_versions()))


def test_a_sandbox_keeps_its_version_and_takes_the_next(tmp_path: Path) -> None:
    home = sandbox_of(tmp_path, OLDER)
    for wanted in (None, OLDER, NEWER):
        check_kubernetes(home, "x", wanted, "--kubernetes")


def test_a_downgrade_is_refused(tmp_path: Path) -> None:
    problem = problem_of(sandbox_of(tmp_path, NEWER), OLDER)
    assert "cannot be downgraded" in problem.allowed
    assert "sandbox down --name x" in problem.fix


def test_a_minor_version_cannot_be_skipped(tmp_path: Path) -> None:
    problem = problem_of(sandbox_of(tmp_path, "1.33"), OLDER)
    assert problem.allowed == "one minor version at a time"
    assert problem.fix == "upgrade to 1.34 first"


def test_a_sandbox_of_before_versions_could_be_chosen_has_the_default(tmp_path: Path) -> None:
    (tmp_path / "sandbox.json").write_text(json.dumps({"name": "x", "api_port": 1}))
    settings = Layout(tmp_path).settings()
    assert settings is not None
    assert settings.kubernetes == NEWER


def plan_of(**cluster: Any) -> EnvironmentPlan:
    pool = {"name": "train", "machine_type": "g4dn.xlarge", "count": {"desired": 1}, "workload": "inference"}
    document = {"kind": "environment", "cluster": {"provider": "sandbox", **cluster}, "pools": [pool]}
    plan = plan_platform(document, "test")
    assert plan.kind == "environment"
    return plan


def test_a_stack_file_names_the_version() -> None:
    assert plan_of(kubernetes=OLDER).cluster.kubernetes == OLDER
    assert plan_of().cluster.kubernetes == NEWER


def test_a_stack_file_cannot_name_a_version_that_no_sandbox_can_have() -> None:
    with pytest.raises(BadInput) as raised:
        plan_of(kubernetes="1.34")
    assert "cluster.kubernetes: found '1.34'; allowed: a version that sandboxes support" in str(raised.value)

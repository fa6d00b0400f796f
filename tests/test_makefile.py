"""`make` on a fresh checkout, with fake Python and uv commands: packages and sandbox are set up in parallel."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]

# `python -m venv` creates an environment whose `python` and `gpu-platform` are also fake commands.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*)
    mkdir -p .venv/bin && cp "$0" .venv/bin/python
    printf '#!/bin/sh\\necho "gpu-platform $*"\\n' > .venv/bin/gpu-platform && chmod +x .venv/bin/gpu-platform ;;
  "-m pip install "*" uv=="*) cp "$0" .venv/bin/uv ;;
  "sync "*" --frozen "* | "-m pip install "*" --requirement requirements.txt "*)
    echo "installing by: $*"
    until [ -e building ]; do sleep 0.01; done
    {install} ;;
  "-m sandbox.build --plan") {plan} ;;
  "-m sandbox.build")
    trap 'echo "build: stopped"; exit 130' TERM
    touch building
    {build} ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "uv.lock", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(
    checkout: Path, *goals: str, install: str = "true", build: str = "true", plan: str = "true"
) -> subprocess.CompletedProcess[str]:
    python = checkout / "python"
    python.write_text(PYTHON.format(install=install, build=build, plan=plan))
    python.chmod(0o755)
    return subprocess.run(
        ["make", *goals, f"PYTHON={python}"],
        cwd=checkout,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )


def test_up_builds_the_sandbox_while_packages_are_installed(checkout: Path) -> None:
    # Each command waits for the other one, so neither command would end if they ran one after the other.
    met = "until [ -e met ]; do sleep 0.01; done"
    result = make(checkout, "up", install=f"{met}; echo packages: done", build="touch met; echo build: done")
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert {"packages: done", "build: done"} <= set(lines)
    assert lines[-1] == "gpu-platform up local"


def test_the_first_line_of_up_is_the_plan_of_the_control_plane(checkout: Path) -> None:
    plan = "echo 'Control plane of Kubernetes: downloading'"
    first = make(checkout, "up", plan=plan).stdout.splitlines()
    assert first[0] == "Control plane of Kubernetes: downloading"
    again = make(checkout, "up", plan=plan)
    assert again.stdout.splitlines()[0] != first[0]


def test_a_plan_that_fails_ends_up_before_anything_is_installed(checkout: Path) -> None:
    result = make(checkout, "up", plan="echo 'error: no such folder'; exit 2")
    assert result.returncode == 2
    assert result.stdout.splitlines()[0] == "error: no such folder"
    assert not (checkout / ".venv").exists()


def test_install_has_no_plan_of_a_control_plane(checkout: Path) -> None:
    (checkout / "building").touch()
    result = make(checkout, "install", plan="echo planned")
    assert result.returncode == 0, result.stdout
    assert "planned" not in result.stdout


def test_a_failed_installation_stops_the_build_and_deploys_nothing(checkout: Path) -> None:
    result = make(checkout, "up", install="echo 'no such package'; exit 1", build="while :; do sleep 0.01; done")
    assert result.returncode == 2
    lines = result.stdout.splitlines()
    assert lines.index("no such package") < lines.index("build: stopped")
    assert "gpu-platform up local" not in lines
    assert not (checkout / ".venv" / ".installed").exists()


def test_where_the_build_fails_nothing_is_deployed_and_the_packages_stay(checkout: Path) -> None:
    result = make(checkout, "up", build="echo 'build: no space left'; exit 3")
    assert result.returncode == 2
    lines = result.stdout.splitlines()
    assert "build: no space left" in lines
    assert "gpu-platform up local" not in lines
    assert (checkout / ".venv" / ".installed").exists()


def test_install_builds_no_sandbox(checkout: Path) -> None:
    (checkout / "building").touch()
    result = make(checkout, "install", build="touch built")
    assert result.returncode == 0, result.stdout
    assert (checkout / ".venv" / ".installed").exists()
    assert not (checkout / "built").exists()


def test_the_packages_of_the_lock_are_installed_by_uv(checkout: Path) -> None:
    (checkout / "building").touch()
    lines = make(checkout, "install").stdout.splitlines()
    assert [line for line in lines if line.startswith("installing by: sync") and "--frozen" in line]


def test_pip_installs_the_same_versions_where_it_is_preferred(checkout: Path) -> None:
    (checkout / "building").touch()
    lines = make(checkout, "install", "INSTALLER=pip").stdout.splitlines()
    assert [line for line in lines if line.startswith("installing by: -m pip") and "requirements.txt" in line]


def test_without_a_supported_python_the_error_names_the_versions(checkout: Path) -> None:
    (checkout / "python").unlink(missing_ok=True)
    result = subprocess.run(
        ["make", "install", "PYTHON=python3.99"], cwd=checkout, text=True, capture_output=True, check=False
    )
    assert result.returncode == 2
    assert "error: python3.99 not found: install Python 3.11, 3.12 or 3.13, or set PYTHON=..." in result.stderr


def test_make_test_needs_no_pytorch_and_continuous_integration_runs_both() -> None:
    planned = {
        goal: subprocess.run(["make", "-n", goal], cwd=ROOT, text=True, capture_output=True, check=True).stdout
        for goal in ("suite", "test-training")
    }
    assert "torch" not in planned["suite"]
    assert "tests/extensions/training/torch_needed" in planned["test-training"]
    assert {".ci/run", "make test-training"} <= _runs("ci")
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1].startswith("make test")


def test_pyrefly_checks_the_types_and_pyright_the_rest_in_ci() -> None:
    planned = {
        goal: subprocess.run(["make", "-n", goal], cwd=ROOT, text=True, capture_output=True, check=True).stdout
        for goal in ("lint", "lint-pyright")
    }
    assert "/pyrefly check " in planned["lint"]
    assert "pyright" not in planned["lint"]
    assert planned["lint-pyright"].rstrip().endswith(" pyright")
    assert "make lint-pyright" in _runs("ci")


def test_continuous_integration_runs_all_tests_the_long_ones_in_a_job_of_their_own() -> None:
    assert {".ci/run", "make test-long"} <= _runs("ci")
    assert "make test-thorough" in _runs("thorough")


def _runs(workflow: str) -> set[str]:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / f"{workflow}.yaml").read_text("utf-8"))["jobs"]
    return {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}

"""A project that uses the installed package is deployed to a sandbox, and then again with a newer version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_platform.stack.project import version
from sandbox import control_plane
from tests.support.installed_package import build_wheel, install, run_with

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-installed-package")]

NAME = "e2e-installed"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    return install(build_wheel(folder), folder / "venv")


@pytest.fixture(scope="module")
def deployed(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose stack the installed package has deployed."""
    project = tmp_path_factory.mktemp("project")
    assert run_with(python, project, "init", NAME, "--provider", "sandbox").returncode == 0
    try:
        result = run_with(python, project, "up", NAME)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "nodes       2 of 2 validated" in result.stdout
        yield project
    finally:
        control_plane.down(NAME)


def test_a_newer_version_names_the_one_that_deployed(python: Path, deployed: Path) -> None:
    (metadata,) = python.parents[1].rglob("gpu_platform-*.dist-info/METADATA")
    metadata.write_text(metadata.read_text("utf-8").replace(f"Version: {version()}\n", "Version: 99.0\n"), "utf-8")
    previewed = run_with(python, deployed, "preview", NAME)
    assert previewed.returncode == 0, previewed.stderr
    assert f"gpu-platform {version()} deployed the stack, but 99.0 is installed" in previewed.stderr
    report = run_with(python, deployed, "upgrade", NAME, "--today", "2026-11-25")
    assert f"gpu-platform 99.0 is installed, and {version()} deployed the stack." in report.stdout
    assert run_with(python, deployed, "destroy", NAME, "--yes").returncode == 0

"""uv.lock, the requirements files for pip, the wheel's metadata and a resolution without the lock agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from components._cloud_sdk import EXTRAS
from gpu_platform.base.paths import PROJECT_ROOT

UV = Path(sys.executable).with_name("uv")
pytestmark = pytest.mark.skipif(not UV.exists(), reason="uv is missing: the environment was installed with pip")


def uv(*arguments: str) -> str:
    """Run uv in the project's folder and return its output. Fails with uv's error output."""
    result = subprocess.run([UV, *arguments], cwd=PROJECT_ROOT, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def locked_packages() -> list[dict[str, Any]]:
    return tomllib.loads((PROJECT_ROOT / "uv.lock").read_text("utf-8"))["package"]


def requirement(name: str, specifier: str = "", marker: str = "", extras: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return a requirement in a normalized form, so that differently written requirements compare as equal."""
    versions = ",".join(sorted(specifier.split(",")))
    return re.sub(r"[-_.]+", "-", name).lower(), ",".join(sorted(extras)), versions, marker.replace('"', "'")


def test_the_lock_is_of_this_pyproject() -> None:
    uv("lock", "--check", "--offline")


def test_every_locked_file_has_a_hash() -> None:
    files = [file for package in locked_packages() for file in package.get("wheels", [])]
    files += [package["sdist"] for package in locked_packages() if "sdist" in package]
    assert len(files) > 500
    assert [file["url"] for file in files if not file["hash"].startswith("sha256:")] == []


@pytest.mark.parametrize(("file", "project"), [("requirements.txt", "."), ("plugin/requirements.txt", "..")])
def test_the_lists_for_pip_have_the_locks_versions(file: str, project: str) -> None:
    clouds = [f"--extra={extra}" for extra in EXTRAS.values()]
    options = ("--no-dev", "--no-hashes", "--no-annotate", "--no-header", "--no-emit-project")
    locked = uv("export", "--quiet", "--frozen", *clouds, *options).splitlines()
    comment, editable, *pins = (PROJECT_ROOT / file).read_text("utf-8").splitlines()
    assert comment.startswith("#")
    assert editable == f"--editable {project}"
    assert pins == locked, "run `make lock`"


def test_the_lock_has_what_the_wheels_metadata_asks_for(tmp_path: Path) -> None:
    build = (
        f"from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_wheel({str(tmp_path)!r}))"
    )
    subprocess.run([sys.executable, "-c", build], cwd=PROJECT_ROOT, capture_output=True, check=True)
    (file,) = tmp_path.glob("*.dist-info/METADATA")
    asked = [Requirement(text) for text in HeaderParser().parsestr(file.read_text()).get_all("Requires-Dist", [])]
    wheel = {
        requirement(one.name, str(one.specifier), str(one.marker or ""), tuple(one.extras))
        for one in asked
        if one.name != "gpu-platform"  # an extra that includes another extra
    }
    (project,) = (package for package in locked_packages() if package["name"] == "gpu-platform")
    lock = {
        requirement(one["name"], one.get("specifier", ""), one.get("marker", ""), tuple(one.get("extras", ())))
        for one in project["metadata"]["requires-dist"]
        if one["name"] != "gpu-platform"
    }
    assert lock == wheel


@pytest.mark.long
@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_a_resolution_without_the_lock_ends_within_the_bounds(python: str, tmp_path: Path) -> None:
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_bytes((PROJECT_ROOT / "pyproject.toml").read_bytes())
    options = ("--extra", "dev", "--no-header", "--no-annotate", "--python-version", python)
    resolved = dict(line.split("==") for line in uv("pip", "compile", "--quiet", str(pyproject), *options).split())
    bounds: defaultdict[str, SpecifierSet] = defaultdict(SpecifierSet)
    declared = tomllib.loads(pyproject.read_text())["project"]
    for text in (*declared["dependencies"], *declared["optional-dependencies"]["dev"]):
        one = Requirement(text)
        bounds[requirement(one.name)[0]] &= one.specifier
    del bounds["gpu-platform"]
    assert {name for name, bound in bounds.items() if not bound.contains(resolved[name])} == set()
    # The lock file may pin other versions, but every resolved package must be in it.
    assert resolved.keys() <= {package["name"] for package in locked_packages()}


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_the_lock_is_for_each_python_from_its_first_release(python: str) -> None:
    # Long-lived systems keep an early patch release: Debian 12 has 3.11.2.
    lock = tomllib.loads((PROJECT_ROOT / "uv.lock").read_text("utf-8"))
    assert SpecifierSet(lock["requires-python"]).contains(python)

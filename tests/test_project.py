"""How the command behaves inside a checkout, next to a checkout, and in a copy of a checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from gpu_platform.base.errors import BadInput
from gpu_platform.base.paths import PROJECT_ROOT, project_around
from gpu_platform.stack import find_stack_file, project, read_stack_file
from tests.support.installed_package import LEFT_BEHIND, build, run_with, unpack
from tests.support.pulumi_cli import MISSING, environment

PYPROJECT = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
VERSION = PYPROJECT["version"]


def run(code: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the folder `cwd` with the source code in `code`."""
    return run_with(sys.executable, cwd, *arguments, PYTHONPATH=str(code))


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in the form that `pulumi new` creates under another name: the same files without the template
    section.
    """
    root = tmp_path_factory.mktemp("new") / "ml-platform"
    shutil.copytree(PROJECT_ROOT, root, ignore=LEFT_BEHIND)
    settings = yaml.safe_load((root / "Pulumi.yaml").read_text())
    del settings["template"]
    settings |= {"name": "ml-platform", "config": {"pulumi:tags": {"value": {"pulumi:template": "https://..."}}}}
    (root / "Pulumi.yaml").write_text(yaml.safe_dump(settings))
    return root


def test_an_editable_install_puts_the_whole_checkout_on_the_path(copy: Path, tmp_path: Path) -> None:
    (path,) = unpack(build(copy, "editable", tmp_path), tmp_path / "unpacked").glob("*.pth")
    assert path.read_text().strip() == str(copy)


def test_a_checkout_knows_its_version_without_being_installed(tmp_path: Path) -> None:
    result = run(PROJECT_ROOT, tmp_path, "--version")
    assert (result.returncode, result.stdout) == (0, f"{VERSION}\n")


def test_stacks_of_the_current_project_are_not_confused_with_others(copy: Path) -> None:
    result = run(PROJECT_ROOT, copy, "check", "local")
    assert result.returncode == 2
    assert f"found the project {copy}, and gpu-platform of {PROJECT_ROOT}" in result.stderr


@pytest.mark.long
def test_a_project_of_another_name_works_and_names_its_resources_after_itself(copy: Path, tmp_path: Path) -> None:
    assert run(copy, copy / "tests", "check", "speech").returncode == 0
    result = run(copy, copy, "render", "speech", "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    urns = re.findall(r'"urn": "urn:pulumi:speech::([^:]+)::', (tmp_path / "out" / "resources.json").read_text())
    assert set(urns) == {"ml-platform"}
    assert "organization/ml-platform/local" in (tmp_path / "out" / "resources.json").read_text()


@pytest.mark.pulumi
@pytest.mark.skipif("pulumi" in MISSING, reason="not on PATH: pulumi")
def test_pulumi_new_creates_a_project_and_leaves_its_stack_files(tmp_path: Path) -> None:
    template, made = tmp_path / "template", tmp_path / "ml-platform"
    shutil.copytree(PROJECT_ROOT, template, ignore=LEFT_BEHIND)
    made.mkdir()
    command = ["pulumi", "new", str(template), "--name", "ml-platform", "--generate-only", "--yes"]
    env = {**os.environ, **environment(tmp_path / "backend")}
    result = subprocess.run(command, cwd=made, env=env, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "gpu-platform check STACK" in result.stdout
    settings = yaml.safe_load((made / "Pulumi.yaml").read_text())
    assert settings["name"] == "ml-platform"
    assert "template" not in settings
    for file in (template / "stacks").iterdir():
        assert (made / "stacks" / file.name).read_bytes() == file.read_bytes()
    checked = run(made, made, "check", "local")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("folder", [PROJECT_ROOT, PROJECT_ROOT / "tests" / "stack"])
def test_in_any_folder_of_a_project_its_code_may_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert project_around(folder) == PROJECT_ROOT
    project.check_project()


def test_outside_of_any_project_the_project_of_the_code_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: somebody-elses\nruntime: python\n")
    monkeypatch.chdir(tmp_path)
    assert project_around(tmp_path) is None
    project.check_project()


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        ({}, ""),
        ({"version": VERSION}, ""),
        ({"version": "0.0.1"}, f"gpu-platform 0.0.1 deployed the stack, but {VERSION} is installed: "),
        ({"version": "99.1"}, f"gpu-platform 99.1 deployed the stack, but the older {VERSION} is installed: "),
    ],
)
def test_another_version_that_deployed_the_stack_is_named(outputs: dict[str, str], sentence: str) -> None:
    assert project.version_change(outputs).startswith(sentence)
    assert bool(project.version_change(outputs)) is bool(sentence)


def test_a_stack_file_outside_the_folder_is_one_error_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as failure:
        find_stack_file("stacks/Pulumi.local.yaml")
    assert f"found 'stacks/Pulumi.local.yaml', which is not a file in {tmp_path}" in str(failure.value)
    assert f"give the name 'local' for {PROJECT_ROOT}/stacks/Pulumi.local.yaml" in str(failure.value)


@pytest.mark.parametrize(
    ("stack", "fix"),
    [
        ("mine", "give the path: ./Pulumi.mine.yaml"),
        ("Pulumi.mine.yml", "give the path: ./Pulumi.mine.yaml"),
        ("sub/Pulumi.other.yml", "give the path: sub/Pulumi.other.yaml"),
        (".", "give the path of a file: Pulumi.mine.yaml"),
        ("lcal", "did you mean 'local'?"),
        ("Pulumi.lcal.yaml", "did you mean 'local'?"),
    ],
)
def test_a_stack_file_beside_the_one_that_is_named_is_the_fix(
    stack: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    for file in ("Pulumi.mine.yaml", "sub/Pulumi.other.yaml"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as failure:
        find_stack_file(stack)
    (problem,) = failure.value.problems
    assert problem.fix == fix


def test_what_pulumi_writes_into_a_stack_file_is_taken(tmp_path: Path) -> None:
    shipped = (PROJECT_ROOT / "stacks" / "Pulumi.dev.yaml").read_text()
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(f"secretsprovider: passphrase\nencryptionsalt: v1:c2FsdA==\n{shipped}")
    assert read_stack_file(file).platform == read_stack_file(PROJECT_ROOT / "stacks" / "Pulumi.dev.yaml").platform


# The template section of Pulumi's schema: sdk/go/common/workspace/project.json of pulumi/pulumi (2026-08-21).
TEMPLATE_KEYS = {"displayName", "description", "quickstart", "important", "metadata", "config"}


def test_the_repository_is_a_template_for_pulumi_new() -> None:
    settings = project.project_settings()
    template = settings["template"]
    assert isinstance(template, dict)
    assert set(template) <= TEMPLATE_KEYS
    assert all(template[key] for key in ("displayName", "description", "quickstart"))
    assert settings["name"] == "gpu-platform", "`pulumi new` replaces this name, but a checkout needs it"


def test_pulumi_new_finds_nothing_to_replace_in_the_files() -> None:
    # `pulumi new` replaces these placeholders in every file that it copies, including scripts and tests.
    placeholders = [f"${{{name}}}".encode() for name in ("PROJECT", "DESCRIPTION")]
    files = [
        Path(folder) / name
        for folder, folders, names in os.walk(PROJECT_ROOT)
        for name in names
        if folders.sort() or not {".git", ".venv", "__pycache__"} & set(Path(folder).parts)
    ]
    assert PROJECT_ROOT / "Makefile" in files
    found = [file for file in files if any(text in file.read_bytes() for text in placeholders)]
    assert found == []


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_pinned_packages_support_the_first_release_of_each_python(python: str) -> None:
    # Long-lived systems keep an early patch release: Debian 12 has 3.11.2.
    assert SpecifierSet(PYPROJECT["requires-python"]).contains(python)
    locked = tomllib.loads((PROJECT_ROOT / "uv.lock").read_text())["package"]
    pins = {(package["name"], package.get("version")) for package in locked}
    # Packages for other Python versions are not installed here.
    found = [
        package
        for package in distributions()
        if (re.sub(r"[-_.]+", "-", package.name).lower(), package.version) in pins
    ]
    assert len(found) > 90
    needs = {package.name: package.metadata["Requires-Python"] or "" for package in found}
    assert {name: need for name, need in needs.items() if not SpecifierSet(need).contains(python)} == {}


def test_the_project_file_names_the_environment_that_make_installs_into() -> None:
    runtime = yaml.safe_load((PROJECT_ROOT / "Pulumi.yaml").read_text())["runtime"]
    assert runtime == {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}
    assert "\nVENV := .venv\n" in (PROJECT_ROOT / "Makefile").read_text()

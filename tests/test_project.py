"""A project is a checkout: what the command does in one, beside one, in a copy of one, and as a bare wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from gpu_platform.base.errors import BadInput
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.stack import find_stack_file, project, read_stack_file
from tests.support.pulumi_cli import MISSING, environment

PYPROJECT = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
VERSION = PYPROJECT["version"]
COMMAND = "from gpu_platform.cli import main; main()"
LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out", "shared")


def run(code: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the code of `code` in the folder `cwd`."""
    # -P: the current folder is not where Python looks for code, as with an installed command.
    result = subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(code), "COLUMNS": "120"},
        text=True,
        capture_output=True,
        check=False,
    )
    assert "Traceback" not in result.stderr
    return result


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `pulumi new` makes it under another name: the same files, no template section."""
    root = tmp_path_factory.mktemp("new") / "ml-platform"
    shutil.copytree(PROJECT_ROOT, root, ignore=LEFT_BEHIND)
    settings = yaml.safe_load((root / "Pulumi.yaml").read_text())
    del settings["template"]
    settings |= {"name": "ml-platform", "config": {"pulumi:tags": {"value": {"pulumi:template": "https://..."}}}}
    (root / "Pulumi.yaml").write_text(yaml.safe_dump(settings))
    return root


def install(source: Path, kind: str) -> Path:
    """Build a wheel, `wheel` or `editable`, and return the folder that it is unpacked into."""
    built, installed = source.parent / f"{kind}-built", source.parent / kind
    built.mkdir()
    build = f"from setuptools import build_meta; build_meta.build_{kind}({str(built)!r})"
    result = subprocess.run([sys.executable, "-c", build], cwd=source, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    (archive,) = built.glob("*.whl")
    with zipfile.ZipFile(archive) as files:
        files.extractall(installed)
    return installed


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the project's wheel is installed into."""
    source = tmp_path_factory.mktemp("wheel") / "source"
    shutil.copytree(PROJECT_ROOT, source, ignore=LEFT_BEHIND)
    return install(source, "wheel")


def test_an_editable_install_puts_the_whole_checkout_on_the_path(copy: Path) -> None:
    (path,) = install(copy, "editable").glob("*.pth")
    assert path.read_text().strip() == str(copy)


def test_a_wheel_has_no_packages_of_common_names(wheel: Path) -> None:
    assert {path.name for path in wheel.iterdir()} == {"gpu_platform", f"gpu_platform-{VERSION}.dist-info"}
    assert (wheel / "gpu_platform" / "catalog" / "facts" / "gpus.yaml").exists()
    assert (wheel / "gpu_platform" / "base" / "base.html").exists()
    assert (wheel / "gpu_platform" / "base" / "page.css").exists()


@pytest.mark.parametrize("arguments", [("check", "stacks/Pulumi.local.yaml"), ("up", "local"), ("sandbox", "up")])
def test_a_wheel_outside_of_a_project_says_where_a_project_comes_from(
    wheel: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = run(wheel, tmp_path, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    error = result.stderr
    assert error.startswith("error: gpu-platform: 1 problem\n")
    assert f"current folder: found {tmp_path}, which is in no project" in error
    assert "Fix: clone the repository, or make a project of your own with `pulumi new <its git URL>`" in error


def test_a_wheel_in_a_project_names_the_command_of_the_project(wheel: Path, copy: Path) -> None:
    result = run(wheel, copy / "stacks", "check", "local")
    assert result.returncode == 2
    assert f"Fix: run {copy}/.venv/bin/gpu-platform; `make install` in {copy} sets it up" in result.stderr


def test_a_wheel_knows_its_version(wheel: Path, tmp_path: Path) -> None:
    result = run(wheel, tmp_path, "--version")
    assert (result.returncode, result.stdout) == (0, f"{VERSION}\n")


def test_a_checkout_knows_its_version_without_being_installed(tmp_path: Path) -> None:
    result = run(PROJECT_ROOT, tmp_path, "--version")
    assert (result.returncode, result.stdout) == (0, f"{VERSION}\n")


def test_the_stacks_of_the_current_folders_project_are_never_mistaken_for_those_of_another(copy: Path) -> None:
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
def test_pulumi_new_makes_a_project_that_works_and_leaves_its_stack_files_alone(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("folder", [PROJECT_ROOT, PROJECT_ROOT / "tests" / "spec"])
def test_in_any_folder_of_a_project_its_code_may_run(folder: Path) -> None:
    assert project.project_around(folder) == PROJECT_ROOT
    project.check_project(folder)


def test_outside_of_any_project_the_project_of_the_code_is_used(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: somebody-elses\nruntime: python\n")
    assert project.project_around(tmp_path) is None
    project.check_project(tmp_path)


def test_a_stack_file_that_is_not_in_the_current_folder_is_one_error_with_the_stacks_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as failure:
        find_stack_file("stacks/Pulumi.local.yaml")
    assert f"found 'stacks/Pulumi.local.yaml', which is no file in {tmp_path}" in str(failure.value)
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
    assert settings["name"] == "gpu-platform", "`pulumi new` sets the name by itself; a checkout needs one"


def test_pulumi_new_finds_nothing_to_replace_in_the_files() -> None:
    # It replaces these in every file that it copies, scripts and tests included.
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
def test_every_pinned_package_can_be_installed_with_each_python_from_its_first_release(python: str) -> None:
    # Long-lived systems keep an early one: Debian 12 has 3.11.2.
    assert SpecifierSet(PYPROJECT["requires-python"]).contains(python)
    locked = tomllib.loads((PROJECT_ROOT / "uv.lock").read_text())["package"]
    pins = {(package["name"], package.get("version")) for package in locked}
    # Those of another Python are not installed here.
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

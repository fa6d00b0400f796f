"""The contents of the wheel, and a project that uses the installed package."""

from __future__ import annotations

import base64
import json
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from gpu_platform.base.paths import PACKAGES, PROJECT_ROOT
from tests.support.installed_package import build_wheel, install, run_with
from validators.zipapp import build_agent

VERSION = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]["version"]
LEFT_OUT = {"__pycache__", ".ruff_cache", "training", "ruff.toml"}
"""Names of files and folders that the wheel omits from the packages."""
OWN_COMPONENT = """
import pulumi
import own_storage

own_storage.Bucket("data", pulumi.ResourceOptions(depends_on=platform))
"""
OWN_STORAGE = """
import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap


class Bucket(pulumi.ComponentResource):
    def __init__(self, name, opts=None):
        super().__init__("acme:index:Bucket", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        ConfigMap(name, metadata={"name": "bucket", "namespace": "default"}, opts=child)
        self.register_outputs({})
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python interpreter of the environment that the wheel is installed into."""
    return install(wheel, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture(scope="module")
def new_project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project that `init` created in an empty folder, and the output of `init`."""
    folder = tmp_path_factory.mktemp("projects") / "ml platform"
    folder.mkdir()
    result = run_with(python, folder, "init", "mine", "--provider", "sandbox")
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


@pytest.fixture
def project(new_project: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the project that a test may change."""
    return shutil.copytree(new_project[0], tmp_path / "ml platform")


def _set(project: Path, **sections: object) -> None:
    """Replace top-level sections in the project's stack file."""
    file = project / "stacks" / "Pulumi.mine.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["gpu-platform:platform"] |= sections
    file.write_text(yaml.safe_dump(document))


def test_a_wheel_takes_one_top_level_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        assert {name.partition("/")[0] for name in files.namelist()} == {
            "gpu_platform",
            f"gpu_platform-{VERSION}.dist-info",
        }


def test_a_wheel_has_every_file_of_its_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        inside = {name.replace("_bundle/", "").removeprefix("gpu_platform/") for name in files.namelist()}
    for package in PACKAGES:
        folder = PROJECT_ROOT / package
        for file in folder.rglob("*"):
            path = file.relative_to(folder if package == "gpu_platform" else PROJECT_ROOT)
            if file.is_file() and not LEFT_OUT & set(path.parts):
                assert path.as_posix() in inside, path


def test_init_in_an_empty_folder_writes_a_project_of_three_files(new_project: tuple[Path, str]) -> None:
    folder, printed = new_project
    files = [folder / "Pulumi.yaml", folder / "__main__.py", folder / "stacks" / "Pulumi.mine.yaml"]
    assert sorted(file for file in folder.rglob("*") if file.is_file()) == sorted(files)
    following = ["next:", "  gpu-platform check mine", "  gpu-platform up mine"]
    assert printed.splitlines() == [*(f"wrote {file}" for file in files), *following]
    assert len((folder / "__main__.py").read_text().splitlines()) == 3
    settings = yaml.safe_load((folder / "Pulumi.yaml").read_text())
    assert (settings["name"], settings["stackConfigDir"]) == ("ml-platform", "stacks")
    assert settings["runtime"] == {"name": "python", "options": {"toolchain": "pip"}}


def test_a_virtual_environment_in_the_project_is_named(wheel: Path, tmp_path: Path) -> None:
    python = install(wheel, tmp_path / ".venv")
    assert run_with(python, tmp_path, "init", "mine", "--provider", "sandbox").returncode == 0
    settings = yaml.safe_load((tmp_path / "Pulumi.yaml").read_text())
    assert settings["runtime"]["options"]["virtualenv"] == ".venv"


def test_a_second_stack_leaves_the_project_as_it_is(python: Path, project: Path) -> None:
    before = (project / "__main__.py").read_bytes()
    result = run_with(python, project / "stacks", "init", "second", "--provider", "sandbox")
    assert result.returncode == 0, result.stderr
    assert "Pulumi.yaml" not in result.stdout
    assert (project / "stacks" / "Pulumi.second.yaml").is_file()
    assert (project / "__main__.py").read_bytes() == before


@pytest.mark.parametrize("name", ["Pulumi.yaml", "__main__.py"])
def test_init_keeps_the_files_of_another_program(python: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("name: other\n")
    result = run_with(python, tmp_path, "init", "mine", "--provider", "sandbox")
    assert result.returncode == 2
    assert f"{tmp_path / name}: found a file of another program" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_outside_of_a_project_a_missing_stack_leads_to_init(python: Path, tmp_path: Path) -> None:
    result = run_with(python, tmp_path, "check", "local")
    assert result.returncode == 2
    assert f"Fix: `gpu-platform init local` writes {tmp_path}/stacks/Pulumi.local.yaml" in result.stderr


def test_check_passes_in_a_folder_of_the_project(python: Path, new_project: tuple[Path, str]) -> None:
    result = run_with(python, new_project[0] / "stacks", "check", "mine")
    assert result.returncode == 0, result.stderr
    assert "policies: no violation" in result.stdout


def test_render_runs_the_program_of_the_project(python: Path, project: Path, tmp_path: Path) -> None:
    (project / "own_storage.py").write_text(OWN_STORAGE)
    with (project / "__main__.py").open("a") as program:
        program.write(OWN_COMPONENT)
    result = run_with(python, project, "render", "mine", "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    resources = json.loads((tmp_path / "out" / "resources.json").read_text())
    assert {one["urn"].split("::")[1] for one in resources} == {"ml-platform"}
    assert "acme:index:Bucket" in {one["type"] for one in resources}
    (agent,) = [one for one in resources if "agent.pyz" in one["inputs"].get("binaryData", {})]
    assert base64.b64decode(agent["inputs"]["binaryData"]["agent.pyz"]) == build_agent(metrics=False)


def test_a_rule_of_the_project_stops_check(python: Path, project: Path) -> None:
    shutil.copy(PROJECT_ROOT / "examples" / "policy-rules" / "acme_rules.py", project)
    _set(project, policy={"own_rules": ["acme_rules"]})
    result = run_with(python, project, "check", "mine")
    assert result.returncode == 1, result.stderr
    assert "mandatory: acme.image-registry (high)" in result.stdout


@pytest.mark.parametrize("module", ["components/storage.py", "policies.py"])
def test_a_module_with_a_name_of_the_package_is_refused(python: Path, project: Path, module: str) -> None:
    (project / module).parent.mkdir(exist_ok=True)
    (project / module).touch()
    result = run_with(python, project, "check", "mine")
    assert result.returncode == 2
    place = module.partition("/")[0]
    assert (
        f"{project / place}: found a Python module of your project; "
        "allowed: Python modules whose names differ from those of gpu-platform's packages" in result.stderr
    )
    assert f"Fix: rename it, for example to own_{place}" in result.stderr


def test_a_folder_without_modules_may_have_such_a_name(python: Path, project: Path) -> None:
    (project / "policies").mkdir()
    (project / "policies" / "nodes.json").write_text("{}")
    assert run_with(python, project, "check", "mine").returncode == 0


@pytest.mark.parametrize(
    ("stack", "sdk", "extra"),
    [
        ("eks-training", "pulumi_aws", "aws"),
        ("gke-training", "pulumi_gcp", "gcp"),
        ("aks-training", "pulumi_azure", "azure"),
    ],
)
def test_a_missing_sdk_names_its_extra(python: Path, tmp_path: Path, stack: str, sdk: str, extra: str) -> None:
    file = PROJECT_ROOT / "stacks" / f"Pulumi.{stack}.yaml"
    result = run_with(python, tmp_path, "check", str(file), before=f"import sys; sys.modules[{sdk!r}] = None")
    assert result.returncode == 2
    assert f"cluster.provider: found {stack[:3]!r}, and no module {sdk}" in result.stderr
    assert f"Fix: run `pip install 'gpu-platform[{extra}]'`" in result.stderr


def test_a_wheel_in_a_checkout_names_the_command_of_the_checkout(python: Path) -> None:
    result = run_with(python, PROJECT_ROOT / "stacks", "check", "local")
    assert result.returncode == 2
    assert f"Fix: run {PROJECT_ROOT}/.venv/bin/gpu-platform; `make install` in {PROJECT_ROOT}" in result.stderr


def test_a_wheel_knows_its_version(python: Path, tmp_path: Path) -> None:
    result = run_with(python, tmp_path, "--version")
    assert (result.returncode, result.stdout) == (0, f"{VERSION}\n")


def test_the_policy_pack_of_a_wheel_takes_the_python_of_its_caller(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        pack = yaml.safe_load(files.read("gpu_platform/_bundle/policies/PulumiPolicy.yaml"))
    assert pack["runtime"] == {"name": "python", "options": {"toolchain": "pip"}}

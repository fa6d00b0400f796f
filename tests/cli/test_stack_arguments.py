"""Printed commands contain the stack file as the user named it, because the bare stack name may refer to a
different file or to none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.base.paths import stacks_dir
from gpu_platform.stack import CONFIG_KEY
from gpu_platform.stack.loaded import environment_of, load_stack
from tests.stack.field_cases import STACKS
from tests.support import command_line


def write(file: Path, platform: Mapping[str, Any]) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump({"config": {CONFIG_KEY: dict(platform)}}), "utf-8")
    return file


def team_of(environment: dict[str, str]) -> dict[str, Any]:
    return {"kind": "team", "environment": environment, "team": STACKS["sandbox"]["teams"][0]}


def test_stacks_in_the_default_folder_are_named_and_others_shown_by_path(tmp_path: Path) -> None:
    known = stacks_dir() / "Pulumi.local.yaml"
    assert load_stack("local").argument == load_stack(str(known)).argument == "local"
    copy = tmp_path / "Pulumi.local.yaml"
    copy.write_text(known.read_text("utf-8"), "utf-8")
    assert load_stack(str(copy)).argument == str(copy)


def test_a_path_that_a_shell_would_split_is_quoted(tmp_path: Path) -> None:
    file = write(tmp_path / "my stacks" / "Pulumi.shop.yaml", STACKS["sandbox"])
    assert load_stack(str(file)).argument == f"'{file}'"


@pytest.mark.parametrize("file", ["Pulumi.shop.yaml", "shared.yaml"])
def test_a_teams_environment_outside_the_default_folder_is_shown_by_path(file: str, tmp_path: Path) -> None:
    environment = write(tmp_path / file, {**STACKS["sandbox"], "teams": []})
    reference = {"stack": "acme/gpu-platform/shop"} | ({} if file.startswith("Pulumi") else {"file": file})
    own = load_stack(str(write(tmp_path / "Pulumi.vision.yaml", team_of(reference))))
    with pytest.raises(BadInput, match=f"run `gpu-platform validate {environment}`"):
        environment_of(own, ", because teams have no nodes", "validate {}")


def test_the_steps_of_an_upgrade_end_with_a_preview_of_the_file_that_was_named(tmp_path: Path) -> None:
    stack = {**STACKS["eks"], "cluster": {**STACKS["eks"]["cluster"], "kubernetes": "1.34"}}
    file = write(tmp_path / "Pulumi.eks.yaml", stack)
    ran = command_line.run("upgrade", str(file), env={"COLUMNS": "400"})
    assert f"`gpu-platform preview {file}`" in ran.out


def test_a_warning_about_the_kubernetes_version_names_the_file_that_was_named(tmp_path: Path) -> None:
    stack = {**STACKS["eks"], "cluster": {**STACKS["eks"]["cluster"], "kubernetes": "1.34"}}
    file = write(tmp_path / "Pulumi.eks.yaml", stack)
    assert f"`gpu-platform upgrade {file}` lists the steps" in command_line.run("check", str(file)).err

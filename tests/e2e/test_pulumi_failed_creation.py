"""The real Pulumi CLI with a node group whose creation failed."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpu_platform.base.errors import Finding
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.deploy.changes import Action
from gpu_platform.deploy.pulumi.pulumi_cli import find_cli
from gpu_platform.deploy.pulumi.pulumi_engine import PulumiEngine
from tests.support.pulumi_cli import NEEDS_PULUMI, environment

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("e2e-pulumi-creation"),
]

STACK: Final = "nodes"
PROVIDER: Final = f"""#!/bin/sh
PYTHONPATH={PROJECT_ROOT} exec {sys.executable} -m tests.support.failing_cloud "$@"
"""
PROGRAM: Final = """
import pulumi
import pulumi_aws as aws

from components.program import delete_failed_first

class Pool(pulumi.ComponentResource):
    def __init__(self, name, opts):
        super().__init__("gpu-platform:index:EksNodePool", name, None, opts)
        aws.eks.NodeGroup(
            name,
            cluster_name="shop",
            node_role_arn="arn",
            subnet_ids=["subnet"],
            scaling_config={"min_size": 1, "desired_size": 1, "max_size": 1},
            opts=pulumi.ResourceOptions(parent=self),
        )

Pool("train", pulumi.ResourceOptions(transformations=[delete_failed_first]))
Pool("other", pulumi.ResourceOptions(transformations=[delete_failed_first]))
"""


class Cloud:
    """A Pulumi project with two node groups, and a cloud that records each request in a file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "pulumi-resource-aws").write_text(PROVIDER, "utf-8")
        (programs / "pulumi-resource-aws").chmod(0o755)
        self._env = {
            **environment(folder / "backend"),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join((str(PROJECT_ROOT), os.environ.get("PYTHONPATH", ""))),
            "FAILING_CLOUD": str(folder),
            "PLAYED_VERSION": version("pulumi-aws"),
        }
        for key, value in self._env.items():
            monkeypatch.setenv(key, value)
        settings: dict[str, Any] = {"name": "nodes", "main": ".", "stackConfigDir": "stacks"}
        settings["runtime"] = {"name": "python", "options": {"virtualenv": sys.prefix}}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        (folder / "__main__.py").write_text(PROGRAM, "utf-8")
        (folder / "stacks").mkdir()
        (folder / "stacks" / f"Pulumi.{STACK}.yaml").write_text("config: {}\n", "utf-8")

    def engine(self) -> PulumiEngine:
        return PulumiEngine(find_cli(install=False), STACK, project=self._folder, env=self._env)

    def fail(self, error: str) -> None:
        """Let the creation of `train` fail with an error from now on, or succeed if the error is empty."""
        (self._folder / "error").write_text(error, "utf-8")

    def requests(self) -> list[str]:
        """Return the requests that changed node groups since the last call, in order."""
        file = self._folder / "requests"
        found = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
        file.write_text("", "utf-8")
        return found


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    return Cloud(tmp_path, monkeypatch)


def test_a_node_group_whose_creation_failed_is_deleted_and_created_again(cloud: Cloud) -> None:
    cloud.fail("unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'")
    with pytest.raises(Finding, match="CREATE_FAILED"):
        cloud.engine().up()
    cloud.requests()
    with pytest.raises(Finding, match="CREATE_FAILED"):  # the cloud still has no capacity
        cloud.engine().up()
    assert cloud.requests() == ["delete train", "create train"]

    cloud.fail("")
    changes = {one.key.name: one for one in cloud.engine().preview().changes}
    assert (changes["train"].action, changes["train"].reason) == (Action.REPLACE, "its creation failed")
    assert changes["other"].action is Action.UNCHANGED
    assert not cloud.requests()
    cloud.engine().up()
    assert cloud.requests() == ["delete train", "create train"]
    cloud.engine().up()
    assert not cloud.requests()


def test_a_node_group_that_may_still_become_active_is_kept(cloud: Cloud) -> None:
    cloud.fail("timeout while waiting for state to become 'ACTIVE' (last state: 'CREATING', timeout: 1h0m0s)")
    with pytest.raises(Finding, match="CREATING"):
        cloud.engine().up()
    cloud.requests()
    assert Action.REPLACE not in {one.action for one in cloud.engine().preview().changes}
    cloud.engine().up()
    assert not cloud.requests()

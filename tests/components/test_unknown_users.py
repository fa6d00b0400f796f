"""Pods whose user id is not in their image have a user name and a home directory."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.components.test_team_workloads import KINDS, RUN, manifest, recorded, templates
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import record_platform

UNKNOWN = 54321


def environments(objects: Any) -> list[dict[str, str]]:
    """Return the environment variables of the main container of each pod spec in `objects`."""
    return [
        {one["name"]: one.get("value", "") for one in spec["containers"][0].get("env") or ()}
        for spec in templates(objects)
    ]


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_each_pod_with_a_user_id_has_a_name_and_a_home(kind: str, name: str) -> None:
    found = environments(manifest(recorded(), kind, name))
    assert found
    home = "/home/me" if name == "lab" else "/tmp"
    assert [(one["USER"], one["HOME"]) for one in found] == [("member", home)] * len(found)


def test_deployments_have_them_only_with_a_user_id() -> None:
    workload = {"name": "web", "pool": "train", "gpus": 1, "replicas": 1}
    for field, expected in (({"run_as_user": 1000}, {"USER": "member", "HOME": "/tmp"}), ({}, {})):
        stack = environment(pool(), teams=[team(quota={"gpus": 8}, workloads=[{**workload, **field}])])
        deployment = record_platform(stack).one("Deployment", "web")
        assert environments(deployment.inputs) == [expected]


def test_the_entrys_own_variables_win() -> None:
    own = {"USER": "ada", "HOME": "/models"}
    found = recorded(batch_jobs=[{**RUN, "name": "embed", "parts": 1, "env": own}])
    (one,) = environments(manifest(found, "Job", "embed"))
    assert (one["USER"], one["HOME"]) == ("ada", "/models")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_program_that_asks_for_its_users_name_and_home_runs_with_these_variables() -> None:
    found = recorded(batch_jobs=[{**RUN, "name": "embed", "parts": 1}])
    (env,) = environments(manifest(found, "Job", "embed"))
    program = f"import getpass, os, pwd; os.setuid({UNKNOWN}); getpass.getuser()"
    program += "; print(os.access(os.environ['HOME'], os.W_OK))"

    def run(variables: dict[str, str]) -> str:
        command = [sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    assert "uid not found" in run({"HOME": "/"})  # the environment that the container runtime sets
    assert run(env) == "True"

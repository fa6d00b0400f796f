"""Commands reach a cloud cluster through the kubeconfig in the stack's outputs. The Pulumi CLI reads these
outputs.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import ExitCode, UnknownOutcome
from gpu_platform.live import cluster_access
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cluster_access import ClusterAccess, WrongKubeconfig, client_of
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.kubeconfig import eks_kubeconfig
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import pool
from tests.support.cloud_plans import environment, filled, on_cloud

SDK = version("pulumi")


@pytest.fixture
def plan() -> EnvironmentPlan:
    return on_cloud(environment({"train": 1}), filled(EksClusterPlan, name="ml"), train=filled(EksPoolPlan))


CALLS = "calls.txt"
"""The file to which the fake CLI adds one line for each call."""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a machine with a Pulumi backend but no program on PATH. Return the only folder on PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///states")
    monkeypatch.setenv("GPU_PLATFORM_NO_INSTALL", "1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return folder


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def put_pulumi(folder: Path, outputs: object) -> None:
    """Write a fake CLI that prints secret outputs only if it is called with `--show-secrets`."""
    program = f"""#!{sys.executable}
import pathlib, sys
asked = " ".join(sys.argv[1:])
with pathlib.Path({str(folder / CALLS)!r}).open("a") as calls:
    print(asked, file=calls)
if "version" in asked:
    print("v{SDK}")
elif "stack output --json --stack test --show-secrets" in asked:
    print({json.dumps(outputs)!r})
else:
    print({json.dumps({"kubeconfig": "[secret]"})!r})
"""
    (folder / "pulumi").write_text(program)
    (folder / "pulumi").chmod(0o755)


def kubeconfig() -> str:
    return json.dumps(json.loads(eks_kubeconfig("ml", "us-east-2", "https://127.0.0.1:1", "")))


def give_token(folder: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": "a-token"},
    }
    put(folder, "aws", f"echo '{json.dumps(answer)}'")


def test_the_stacks_kubeconfig_and_its_credential_command_are_used(plan: EnvironmentPlan, machine: Path) -> None:
    put_pulumi(machine, {"kubeconfig": kubeconfig()})
    give_token(machine)

    client = client_of(plan)

    assert client.server == "https://127.0.0.1:1"
    assert client._connection._headers("application/json")["Authorization"] == "Bearer a-token"


def test_the_kubeconfig_file_is_private_and_deleted_after_use(
    plan: EnvironmentPlan, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path, int]] = []

    class Watched(KubernetesClient):
        def __init__(self, path: Path, **options: Any) -> None:
            seen.append((path, stat.S_IMODE(path.stat().st_mode)))
            super().__init__(path, **options)

    monkeypatch.setattr(cluster_access, "KubernetesClient", Watched)
    put_pulumi(machine, {"kubeconfig": kubeconfig()})
    give_token(machine)

    client_of(plan)

    ((path, mode),) = seen
    assert (path.parent, mode) == (tmp_path, 0o600)
    assert not path.exists()
    assert os.listdir(tmp_path) == ["path"]


def test_errors_name_the_stack_and_not_a_file_that_is_gone(plan: EnvironmentPlan, machine: Path) -> None:
    put_pulumi(machine, {"kubeconfig": kubeconfig()})
    give_token(machine)

    with pytest.raises(UnknownOutcome, match="the kubeconfig of stack test"):
        client_of(plan).get("v1", "Node", "a")


def test_without_the_pulumi_cli_the_cluster_cannot_be_reached_and_the_error_says_why(
    plan: EnvironmentPlan,
) -> None:
    with pytest.raises(UnknownOutcome, match="only the Pulumi CLI can read: pulumi is not on PATH"):
        client_of(plan)


@pytest.mark.parametrize("outputs", [{}, {"kubeconfig": None}])
def test_a_stack_without_outputs_is_not_deployed(plan: EnvironmentPlan, machine: Path, outputs: object) -> None:
    put_pulumi(machine, outputs)

    with pytest.raises(
        UnknownOutcome, match=r"stack test is not deployed.*Run `gpu-platform up` for that stack first"
    ):
        client_of(plan)


def test_a_stack_that_the_backend_does_not_know_is_not_deployed(plan: EnvironmentPlan, machine: Path) -> None:
    unknown = "echo \"error: no stack named 'test' found\" >&2; exit 255"
    put(machine, "pulumi", f'case "$*" in *version*) echo v{SDK} ;; *) {unknown} ;; esac')

    with pytest.raises(UnknownOutcome, match="stack test is not deployed"):
        client_of(plan)


def test_a_missing_credential_command_is_named_with_its_installation(plan: EnvironmentPlan, machine: Path) -> None:
    put_pulumi(machine, {"kubeconfig": kubeconfig()})

    with pytest.raises(UnknownOutcome, match="credentials from `aws`, which is not on PATH: install the AWS CLI"):
        client_of(plan)


def test_a_kubeconfig_that_cannot_be_parsed_is_an_unknown_outcome(plan: EnvironmentPlan, machine: Path) -> None:
    put_pulumi(machine, {"kubeconfig": "not: [a kubeconfig"})

    with pytest.raises(UnknownOutcome, match="the kubeconfig of stack test cannot be used"):
        client_of(plan)


def secrets_read(machine: Path) -> int:
    """Return how often the CLI was called for the secret outputs."""
    calls = machine / CALLS
    return calls.read_text().count("--show-secrets") if calls.exists() else 0


def test_a_command_reads_the_kubeconfig_once_where_it_is_needed(plan: EnvironmentPlan, machine: Path) -> None:
    put_pulumi(machine, {"kubeconfig": kubeconfig()})
    give_token(machine)
    access = ClusterAccess(plan)
    assert secrets_read(machine) == 0
    assert access.client() is access.client()
    assert secrets_read(machine) == 1


def test_a_cluster_that_may_be_another_one_gets_a_new_client(plan: EnvironmentPlan, machine: Path) -> None:
    put_pulumi(machine, {"kubeconfig": kubeconfig()})
    give_token(machine)
    access = ClusterAccess(plan)
    before = access.client()
    access.forget()
    assert access.client() is not before


def test_a_new_cluster_is_found_after_its_creation(plan: EnvironmentPlan, machine: Path) -> None:
    put_pulumi(machine, {})
    access = ClusterAccess(plan)
    with pytest.raises(UnknownOutcome, match="is not deployed"):
        access.client()
    put_pulumi(machine, {"kubeconfig": kubeconfig()})
    give_token(machine)
    assert access.client().server == "https://127.0.0.1:1"


KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "prod", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "prod", "user": {"token": "t"}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "prod"}}],
}


def existing(kubeconfig: Path, **cluster: str) -> EnvironmentPlan:
    named = {
        "provider": "existing",
        "name": "prod",
        "kubernetes": "1.36",
        "kubeconfig": str(kubeconfig),
        **cluster,
    }
    plan = plan_platform(
        {"kind": "environment", "cluster": named, "pools": [pool(nodes={"names": ["gpu-0"]})]}, "test"
    )
    assert plan.kind == "environment"
    return plan


@pytest.mark.parametrize(
    ("text", "context", "place", "found"),
    [
        (None, "prod", "cluster.kubeconfig", "No such file"),
        ("{", "prod", "cluster.kubeconfig", "which is not YAML"),
        ("[]", "prod", "cluster.kubeconfig", "which has no contexts"),
        (yaml.safe_dump(KUBECONFIG), "prd", "cluster.context", "'prd'"),
        (yaml.safe_dump(KUBECONFIG), None, "cluster.context", "nothing, and the file has no current-context"),
    ],
)
def test_a_wrong_kubeconfig_or_context_of_the_stack_file_is_bad_input(
    tmp_path: Path, text: str | None, context: str | None, place: str, found: str
) -> None:
    file = tmp_path / "kubeconfig"
    if text is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(WrongKubeconfig) as caught:
        client_of(existing(file, **({"context": context} if context else {})))
    problem = caught.value.problem
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert problem.path == place
    assert found in problem.found
    assert "sandbox" not in str(caught.value)
    if place == "cluster.context":
        assert problem.fix == ("did you mean 'prod'?" if context else "write context: prod")


def test_a_cluster_of_the_stack_file_that_does_not_answer_is_not_called_a_sandbox(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(KUBECONFIG), "utf-8")
    with pytest.raises(UnknownOutcome, match="does not answer") as caught:
        client_of(existing(file, context="prod")).get("v1", "Node", "a")
    assert "sandbox" not in str(caught.value)

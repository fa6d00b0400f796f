"""`doctor STACK` reports the requirements of `up` for a stack, without credentials and without a network."""

from __future__ import annotations

import json
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.cli import doctor_stack
from gpu_platform.cli.doctor import examine
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack
from tests.support.recorded import record_shipped

SECRET = "never-to-be-printed"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a machine with an empty home, no program on PATH and no network. Return the only folder on PATH."""
    for name in ("PULUMI_BACKEND_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    monkeypatch.setenv("GPU_PLATFORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))

    def refuse(*_: object) -> None:
        raise AssertionError("doctor must not use a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(doctor_stack, "record_stack", _record_once)
    return tmp_path / "path"


def _record_once(loaded: LoadedStack) -> RecordedProgram:
    """Run the program only once for each stack in `stacks/`, because a run takes most of a test's time."""
    return record_shipped(loaded.stack) if loaded.path.parent == STACKS_DIR else record_stack(loaded)


@pytest.fixture
def needs(capsys: pytest.CaptureFixture[str]) -> Any:
    def of(stack: str) -> dict[str, dict[str, Any]]:
        examine(stack, to_json=True)
        text = capsys.readouterr().out
        assert SECRET not in text
        document = json.loads(text)
        assert document["stack"]["name"] == stack
        return {need["name"]: need for need in document["stack"]["needs"]}

    return of


def put(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("stack", ["eks-training", "gke-training"])
def test_a_shipped_cloud_stack_is_examined_without_credentials_and_without_network(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert examine(stack, to_json=False) is ExitCode.FINDING
    assert f"`up` of stack {stack} needs:" in capsys.readouterr().out


def test_a_cloud_stack_needs_the_pulumi_cli_and_one_for_the_sandbox_does_not(needs: Any) -> None:
    cloud, sandbox = needs("eks-training"), needs("local")

    assert cloud["Pulumi CLI and backend"]["required"]
    assert "no Pulumi backend is configured" in cloud["Pulumi CLI and backend"]["remedy"]
    assert not sandbox["Pulumi CLI and backend"]["required"]


def test_a_pulumi_cli_with_a_backend_is_found(needs: Any, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(machine, "pulumi", f"echo v{version('pulumi')}")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://states")

    assert needs("eks-training")["Pulumi CLI and backend"]["found"].endswith("with backend s3://states")


def test_provider_plugins_are_named_with_the_version_that_the_program_asks_for(needs: Any, tmp_path: Path) -> None:
    wanted = version("pulumi_aws")
    before = needs("eks-training")
    (tmp_path / "pulumi/plugins" / f"resource-aws-v{wanted}").mkdir(parents=True)
    after = needs("eks-training")

    assert before[f"provider plugin aws {wanted}"]["found"] == ""
    assert f"pulumi plugin install resource aws {wanted}" in before[f"provider plugin aws {wanted}"]["remedy"]
    assert after[f"provider plugin aws {wanted}"]["found"]
    assert f"provider plugin kubernetes {version('pulumi_kubernetes')}" in after
    assert not any("gcp" in name for name in after)


@pytest.mark.parametrize(
    ("stack", "command"), [("eks-training", "aws"), ("gke-training", "gke-gcloud-auth-plugin")]
)
def test_the_command_that_the_kubeconfig_needs_is_looked_for(
    needs: Any, machine: Path, stack: str, command: str
) -> None:
    missing = needs(stack)[command]
    put(machine, command)

    assert (missing["found"], missing["required"]) == ("", True)
    assert needs(stack)[command]["found"] == str(machine / command)


def test_credentials_are_reported_by_their_kind_and_never_by_their_value(
    needs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert needs("eks-training")["AWS credentials"]["found"] == ""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    assert "access key in the environment" in needs("eks-training")["AWS credentials"]["found"]


def test_placeholders_of_a_shipped_stack_are_missing_prerequisites(needs: Any) -> None:
    eks, gke = needs("eks-training"), needs("gke-training")

    for field in ("cluster.account", "cluster.create.admins", "cluster.create.api_access"):
        assert (eks[field]["found"], eks[field]["required"]) == ("", True)
    assert "cr-0a1b2c3d4e5f60718" in eks["pools[0].capacity.reservation"]["needed_for"]
    assert "my-project" in gke["cluster.project"]["needed_for"]


def test_a_stack_that_is_filled_in_lacks_nothing_of_its_own(needs: Any, tmp_path: Path) -> None:
    text = (STACKS_DIR / "Pulumi.eks-training.yaml").read_text("utf-8")
    for example, real in (
        ("123456789012", "210987654321"),
        ("203.0.113.0/24", "198.18.0.0/24"),
        ("cr-0a1b2c3d4e5f60718", "cr-0f0e0d0c0b0a09080"),
    ):
        text = text.replace(example, real)
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(text, "utf-8")

    assert not [name for name in needs(str(file)) if name.startswith(("cluster.", "pools"))]


def test_quotas_and_permissions_are_left_for_a_manual_check(
    needs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = needs("eks-training")

    quota = found["quota Running On-Demand G and VT instances"]
    # Pool serve needs 10 x 48 vCPU, plus two nodes in each of three zones during a rolling update by EKS.
    # Pool develop needs 8 x 64 vCPU for its largest machine type, plus one node during an update by Karpenter.
    # Pool train uses a capacity block.
    assert "1344 vCPU in us-east-2" in quota["needed_for"]
    assert "plus 7 nodes during rolling updates" in quota["needed_for"]
    system = found["quota Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"]
    assert "40 vCPU in us-east-2" in system["needed_for"]
    assert "3 Elastic IP addresses in us-east-2" in found["quota EC2-VPC Elastic IPs"]["needed_for"]
    assert (quota["known"], quota["required"]) == (False, False)
    assert "eks:*" in found["permissions"]["needed_for"]
    assert "vpc:*" not in found["permissions"]["needed_for"], "IAM has no such service"
    examine("eks-training", to_json=False)
    assert "CHECK   quota Running On-Demand G" in capsys.readouterr().out


def test_the_google_apis_that_must_be_enabled_are_named_as_a_command(needs: Any) -> None:
    need = needs("gke-training")["Google APIs"]
    command, _, apis = need["remedy"].partition(" --project my-project ")

    assert command == "gcloud services enable"
    assert {name.removesuffix(".googleapis.com") for name in apis.split()} == {
        "artifactregistry",
        "cloudresourcemanager",
        "compute",
        "container",
        "iam",
        "logging",
        "monitoring",
    }
    assert not need["known"]


def test_one_login_serves_pulumi_and_the_kubeconfig_of_gke(needs: Any) -> None:
    assert "gcloud auth login --update-adc" in needs("gke-training")["Google Cloud credentials"]["remedy"]


def test_permissions_on_google_cloud_are_roles(needs: Any) -> None:
    wanted = needs("gke-training")["permissions"]["needed_for"]

    assert "roles/container.admin" in wanted
    assert "a role for" not in wanted, "every used service must have a known role"


def test_a_stack_of_the_sandbox_needs_nothing_of_a_cloud(needs: Any) -> None:
    assert not {"permissions", "AWS credentials", "Google Cloud credentials"} & set(needs("local"))


def test_a_stack_with_mistakes_is_bad_input(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.broken.yaml"
    file.write_text("config: {gpu-platform:platform: {kind: environment}}", "utf-8")

    with pytest.raises(BadInput):
        examine(str(file), to_json=True)


def test_without_a_stack_the_document_is_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(None, to_json=True) is ExitCode.GOOD
    assert set(json.loads(capsys.readouterr().out)) == {"version", "tools"}

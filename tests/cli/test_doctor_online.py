"""The lines, the JSON document and the exit codes of `doctor STACK --online`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.cli.app import app
from gpu_platform.cli.tool import Tool
from gpu_platform.online.aws import api
from tests.support.aws_account import AwsAccount
from tests.support.google_project import google_project

PRESENT = Tool("Python", "3.12", "everything", True, "install Python")
RESERVATION = "cr-0f0e0d0c0b0a09080"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine that has the tools for `up`, but no credentials."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("gpu_platform.cli.doctor.tools", lambda: [PRESENT])
    monkeypatch.setattr("gpu_platform.cli.doctor_stack.needs_of", lambda _stack: [PRESENT])


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> AwsAccount:
    account = AwsAccount("us-east-2")
    account.reservations.append(
        {
            "CapacityReservationId": RESERVATION,
            "InstanceType": "p5.48xlarge",
            "AvailabilityZone": "us-east-2a",
            "State": "active",
            "ReservationType": "capacity-block",
            "TotalInstanceCount": 4,
            "AvailableInstanceCount": 4,
        }
    )
    monkeypatch.setattr(api, "new_session", account.session)
    return account


@pytest.fixture
def stack(tmp_path: Path) -> str:
    text = (STACKS_DIR / "Pulumi.eks-training.yaml").read_text("utf-8")
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(text.replace("cr-0a1b2c3d4e5f60718", RESERVATION), "utf-8")
    return str(file)


def doctor(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", *arguments, "--online"])


def test_a_stack_that_the_cloud_would_accept_is_good(account: AwsAccount, stack: str) -> None:
    result = doctor(stack)

    assert result.exit_code == ExitCode.GOOD, result.output
    assert "0 stop `up`, 0 warn, 0 unknown" in result.output


def test_a_blocker_of_up_is_a_finding_with_reason_and_fix(account: AwsAccount, stack: str) -> None:
    account.reservations.clear()

    result = doctor(stack)

    assert result.exit_code == ExitCode.FINDING
    assert f"STOPS   capacity of pool train: {RESERVATION}: no such reservation" in result.output
    assert "why: EC2 cannot launch nodes into a reservation that it does not find" in result.output
    assert "fix: see aws ec2 describe-capacity-reservations" in result.output


def test_the_document_has_every_finding_with_its_severity(account: AwsAccount, stack: str) -> None:
    result = doctor(stack, "--format", "json")

    findings = json.loads(result.stdout)["stack"]["online"]
    assert {finding["severity"] for finding in findings} == {"fine"}
    assert set(findings[0]) == {"looked_at", "severity", "found", "why", "fix"}


def test_without_credentials_every_line_is_unknown(stack: str) -> None:
    result = doctor(stack)

    assert result.exit_code == ExitCode.UNKNOWN
    assert "UNKNOWN AWS account: not checked" in result.output
    assert "why: no AWS credentials were found" in result.output
    assert "Traceback" not in result.output


def test_a_missing_permission_is_an_unknown_line_and_the_rest_is_done(account: AwsAccount, stack: str) -> None:
    account.denied = {"ec2:DescribeCapacityReservations"}

    result = doctor(stack)

    assert result.exit_code == ExitCode.UNKNOWN
    assert "the credentials lack ec2:DescribeCapacityReservations" in result.output
    assert "ok      AWS account" in result.output


def test_an_endpoint_that_does_not_answer_is_unknown(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    result = doctor(stack)

    assert result.exit_code == ExitCode.UNKNOWN
    assert "did not answer" in result.output


def test_a_missing_sdk_is_named_with_the_command_that_installs_it(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)

    result = doctor(stack)

    assert result.exit_code == ExitCode.UNKNOWN
    assert "fix: pip install 'gpu-platform[online]', or pip install boto3" in result.output


def test_a_stack_on_google_cloud_that_would_be_accepted_is_good() -> None:
    with google_project():
        result = doctor("gke-training")

    assert result.exit_code == ExitCode.GOOD, result.output
    assert "ok      project my-project: reachable" in result.output


def test_an_existing_cluster_that_cannot_be_reached_is_unknown(tmp_path: Path) -> None:
    cluster = {"provider": "existing", "kubeconfig": str(tmp_path / "none")}
    pool: dict[str, Any] = {
        "name": "a",
        "machine_type": "dgx-h100",
        "count": {"desired": 1},
        "workload": "training",
    }
    pool["nodes"] = {"names": ["gpu-0"]}
    platform = {"kind": "environment", "cluster": cluster, "pools": [pool]}
    file = tmp_path / "Pulumi.ours.yaml"
    file.write_text(json.dumps({"config": {"gpu-platform:platform": platform}}), "utf-8")

    result = doctor(str(file))

    assert result.exit_code == ExitCode.UNKNOWN, result.output
    assert "UNKNOWN installed software of the cluster: not checked" in result.output


def test_a_stack_of_the_sandbox_has_no_cloud_to_ask() -> None:
    result = doctor("local")

    assert result.exit_code == ExitCode.GOOD
    assert "the stack uses no cloud" in result.output


def test_without_a_stack_nothing_is_checked_online() -> None:
    result = CliRunner().invoke(app, ["doctor", "--online"])

    assert isinstance(result.exception, BadInput)

"""On a terminal, `init` asks again after an invalid answer. Without a terminal, its error names the flags."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from tests.support.command_line import Ran, run


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _typed(monkeypatch: pytest.MonkeyPatch, out: Path, *answers: str) -> Ran:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("sys.stdin", _Terminal("".join(f"{answer}\n" for answer in answers)))
    return run("init", "mine", "--out", str(out))


def test_a_question_is_repeated_after_a_wrong_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "Pulumi.mine.yaml"
    wrong = {"aws": "--provider", "nw": "--cluster", "us-east": "--region", "us-east-2": "--zone"}
    ran = _typed(
        monkeypatch, out,
        "aws", "eks", "nw", "existing", "us-east", "us-east-2", "us-east-2", "us-east-2a",
        "p5", "p5.48xlarge", "many", "2", "train", "training", "ML", "ml", "me", "group:ml",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    for answer, flag in wrong.items():
        assert f"{flag}: found " in ran.err
        assert answer in ran.err
    assert ran.err.count("Fix: ") == 9
    assert yaml.safe_load(out.read_text("utf-8"))["config"]["gpu-platform:platform"]["cluster"] == {
        "provider": "eks",
        "name": "mine",
        "region": "us-east-2",
    }


def test_a_new_cluster_is_asked_for_its_administrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, arn = tmp_path / "Pulumi.mine.yaml", "arn:aws:iam::123456789012:role/admin"
    ran = _typed(monkeypatch, out, "eks", "new", "us-east-2", "us-east-2a", "root", arn, *[""] * 5)
    assert ran.code == 0, ran.err
    assert "--admin: found " in ran.err
    cluster = yaml.safe_load(out.read_text("utf-8"))["config"]["gpu-platform:platform"]["cluster"]
    assert cluster["create"] == {"admins": [arn]}


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--provider sandbox --team A_b --workload foo --member x", ["--team", "--workload", "--member"]),
        ("--provider eks --region us-east-2 --zone us-east-2 --machine-type p5", ["--zone", "--machine-type"]),
        ("--provider eks --cluster nw", ["--cluster"]),
        ("--provider existing --node-names A_", ["--node-names"]),
        ("--provider sandbox --nodes 99999", ["--nodes"]),
        ("--provider sandbox --cluster new", ["--cluster"]),
    ],
)
def test_wrong_flags_are_named_as_flags(tmp_path: Path, flags: str, named: list[str]) -> None:
    ran = run("init", "mine", *flags.split(), "--out", str(tmp_path / "Pulumi.mine.yaml"))
    assert ran.code == 2
    for flag in named:
        assert f"  - {flag}: found " in ran.err
    assert "pools[0]" not in ran.err
    assert list(tmp_path.iterdir()) == []


_ID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


@pytest.mark.parametrize(("provider", "said"), [("eks", True), ("gke", False), ("aks", True)])
def test_the_next_steps_name_what_the_first_up_would_refuse(tmp_path: Path, provider: str, said: bool) -> None:
    flags = {
        "eks": "--region us-east-2 --zone us-east-2a --admin arn:aws:iam::123456789012:role/admin",
        "gke": "--region us-central1 --project my-project --zone us-central1-a",
        "aks": f"--region eastus2 --subscription {_ID} --admin {_ID}",
    }[provider]
    member = f"group:{_ID}" if provider == "aks" else "group:ml@example.com"
    given = ["--provider", provider, "--cluster", "new", *flags.split(), "--member", member]
    ran = run("init", "mine", *given, "--out", str(tmp_path / "Pulumi.mine.yaml"))
    assert ran.code == 0, ran.err
    assert ("before up, write cluster.create.api_access into the file" in ran.out) is said


def test_wrong_flags_are_named_together_with_missing_flags(tmp_path: Path) -> None:
    flags = "--provider eks --cluster new --region us-east-2 --zone us-east-2a --workload batch --member ml"
    ran = run("init", "mine", *flags.split(), "--out", str(tmp_path / "Pulumi.mine.yaml"))
    assert ran.code == 2
    assert {line.split(":")[0] for line in ran.err.splitlines() if line.startswith("  - ")} == {
        "  - --admin",
        "  - --workload",
        "  - --member",
    }

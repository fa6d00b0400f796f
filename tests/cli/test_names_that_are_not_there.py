"""The error for a stack or sandbox that does not exist contains the command that creates it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import run


def test_an_unknown_stack_is_refused_with_the_command_that_writes_one() -> None:
    ran = run("check", "nowhere")
    assert ran.code == 2
    assert "STACK: found 'nowhere'" in ran.err
    assert "`gpu-platform init nowhere` writes " in ran.err


def test_the_command_that_writes_a_stack_has_a_name_that_it_accepts() -> None:
    assert "`gpu-platform init my-eks` writes " in run("check", "My_EKS").err


def test_a_wrong_file_type_does_not_suggest_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("text", "utf-8")
    ran = run("check", "README.md")
    assert ran.code == 2
    assert "a different kind of file" in ran.err
    assert "Fix: give the path of a file whose name ends with .yaml" in ran.err


def test_a_fault_for_a_missing_sandbox_is_refused_with_its_name() -> None:
    ran = run("sandbox", "fault", "train-0", "--name", "nowhere")
    assert ran.code == 2
    assert "--name: found 'nowhere'" in ran.err
    assert "gpu-platform sandbox list" in ran.err


def test_a_missing_sandbox_cannot_be_stopped(tmp_path: Path) -> None:
    ran = run("sandbox", "down", "--name", "nowhere", env={"GPU_PLATFORM_SANDBOX_DIR": str(tmp_path)})
    assert (ran.code, ran.out) == (2, "")
    assert "--name: found 'nowhere'; allowed: none, because this machine has no sandbox" in ran.err

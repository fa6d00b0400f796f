"""The exit code of a pod, which determines how Kubernetes continues the job."""

from __future__ import annotations

from pathlib import Path

from gpu_platform_training.exit_codes import BUG, FAILED, NODE_FAULT, USAGE

from .launched import Pod


def test_a_mistake_of_the_program_ends_the_job(tmp_path: Path) -> None:
    ended = Pod(tmp_path, 2, "3", "mistake", "1").end()
    assert ended.code == BUG, ended.output
    assert "a mistake of the program" in ended.output


def test_an_error_costs_an_attempt_and_is_a_bug_when_it_comes_back(tmp_path: Path) -> None:
    first = Pod(tmp_path, 2, "3", "flaky", "1").end()
    assert first.code == FAILED, first.output
    assert Pod(tmp_path, 2, "3", "flaky", "1").end().code == BUG


def test_a_broken_gpu_is_a_fault_of_the_node(tmp_path: Path) -> None:
    assert Pod(tmp_path, 2, "3", "ecc", "1").end().code == NODE_FAULT


def test_fewer_gpus_than_granted_are_a_fault_of_the_node(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("GPU_PLATFORM_GPUS", "8")
    ended = Pod(tmp_path, 2, "3").end()
    assert ended.code == NODE_FAULT
    assert "the pod was granted 8 GPUs, but CUDA finds 0" in ended.output


def test_float16_with_fsdp_is_refused_as_wrong_usage(tmp_path: Path) -> None:
    ended = Pod(tmp_path, 2, "3", options=("--precision", "float16", "--parallel", "fsdp")).end()
    assert ended.code == USAGE, ended.output
    assert "which FSDP2 does not support" in ended.output

from __future__ import annotations

import pytest

from gpu_platform.stack.team_workloads import TrainingJob
from gpu_platform_training import exit_codes
from gpu_platform_training.exit_codes import BUG, FAILED, FINISHED, INTERRUPTED, NODE_FAULT, USAGE


class OutOfMemoryError(RuntimeError):
    """A fake of torch.OutOfMemoryError. The tested module recognizes the error by its class name."""


def code_of(error: BaseException, *, saved: bool = False, repeated: bool = False, shared: bool = False) -> int:
    return exit_codes.code_of(error, saved=saved, repeated=repeated, shared_memory=shared)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TypeError("got an unexpected keyword"), BUG),
        (ModuleNotFoundError("No module named 'datasets'"), BUG),
        (KeyError("text"), BUG),
        (ValueError("a shard cannot be read"), FAILED),
        (OSError("No space left on device"), FAILED),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), NODE_FAULT),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), FAILED),
        (SystemExit(3), 3),
        (SystemExit(), FINISHED),
        (SystemExit("no data"), FAILED),
    ],
)
def test_an_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert code_of(error) == code


def test_an_error_that_came_back_at_the_same_step_is_a_bug() -> None:
    assert code_of(ValueError("a shard cannot be read"), repeated=True) == BUG


def test_out_of_memory_is_a_bug_unless_the_gpu_is_shared() -> None:
    assert code_of(OutOfMemoryError("tried to allocate 2 GiB")) == BUG
    assert code_of(OutOfMemoryError("tried to allocate 2 GiB"), shared=True) == FAILED


def test_running_out_of_a_share_is_a_bug_where_the_gpu_had_the_memory() -> None:
    # The message that PyTorch 2.11 wrote on an H200.
    own = (
        "CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which "
        "130.84 GiB is free. Including non-PyTorch memory, this process has 8.95 GiB memory in use. 7.81 GiB"
    )
    full = own.replace("130.84 GiB is free", "19.38 MiB is free")
    assert code_of(OutOfMemoryError(own), shared=True) == BUG
    assert code_of(OutOfMemoryError(full), shared=True) == FAILED


def test_an_assertion_of_a_kernel_is_a_bug_and_an_illegal_access_may_not_be() -> None:
    assert code_of(RuntimeError("CUDA error: device-side assert triggered")) == BUG
    assert code_of(RuntimeError("CUDA error: an illegal memory access was encountered")) == FAILED


def test_the_end_of_another_process_costs_nothing_once_this_attempt_has_saved_work() -> None:
    gone = RuntimeError("[pair.cc:534] Connection closed by peer [10.0.0.7]:41234")
    assert code_of(gone, saved=True) == INTERRUPTED
    assert code_of(gone) == FAILED  # otherwise, a network that never works would cause endless retries


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([INTERRUPTED, BUG, FAILED], BUG),
        ([INTERRUPTED, FAILED], FAILED),
        ([NODE_FAULT, FAILED], NODE_FAULT),
        ([INTERRUPTED], INTERRUPTED),
        ([-9], 137),
        ([], FINISHED),
    ],
)
def test_a_pod_has_the_code_of_the_process_that_decides(codes: list[int], code: int) -> None:
    assert exit_codes.worst(codes) == code


def test_the_planned_jobs_know_the_exit_codes() -> None:
    fields = TrainingJob.model_fields
    assert set(fields["stop_on"].default) == {USAGE, BUG, 126, 127}
    assert fields["interrupted_on"].default == (INTERRUPTED,)

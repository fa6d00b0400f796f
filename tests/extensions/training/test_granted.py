from __future__ import annotations

from pathlib import Path

import pytest

from gpu_platform_training.granted import Granted, WrongSetting


def test_what_the_platform_granted_is_read_from_the_environment() -> None:
    found = Granted.from_environment(
        {
            "GPU_PLATFORM_GPUS": "1",
            "GPU_PLATFORM_GPU_MEMORY_MIB": "5758",
            "GPU_PLATFORM_SHARING": "time-slicing",
            "GPU_PLATFORM_GRACE_SECONDS": "120",
            "CHECKPOINTS": "/checkpoints",
        }
    )
    assert (found.gpus, found.gpu_memory_mib, found.grace_seconds) == (1, 5758, 120)
    assert found.checkpoints == Path("/checkpoints")
    assert found.shares_memory


def test_without_the_platform_nothing_is_known() -> None:
    assert Granted.from_environment({}) == Granted()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("GPU_PLATFORM_GPUS", "two", "a whole number"),
        ("GPU_PLATFORM_PEAK_TFLOPS", "fast", "a number"),
        ("CHECKPOINTS", "checkpoints", "an absolute path"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(variable: str, value: str, expected: str) -> None:
    with pytest.raises(WrongSetting) as raised:
        Granted.from_environment({variable: value})
    assert str(raised.value) == f"{variable}: found {value!r}, expected {expected}"

"""Comparison of versions of charts, drivers, add-ons and images."""

from __future__ import annotations

import pytest

from gpu_platform.base.versions import is_older, version_numbers


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("v1.14.1", (1, 14, 1)),
        ("1.18.5-eksbuild.1", (1, 18, 5)),
        ("580.173.02", (580, 173, 2)),
        ("20260110", (20260110,)),
        ("latest", ()),
    ],
)
def test_a_version_gives_its_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(version) == numbers


def test_versions_are_compared_by_number() -> None:
    assert is_older("1.9.0", "1.10.0")
    assert not is_older("1.10.0", "1.9.0")


def test_missing_numbers_count_as_zero() -> None:
    assert not is_older("v1.14", "1.14.0")
    assert is_older("1.14", "1.14.1")

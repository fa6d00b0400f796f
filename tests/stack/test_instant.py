"""Points in time, as written in a stack file and as passed on by the Pulumi CLI."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from gpu_platform.stack._instant import Instant

ADAPTER = TypeAdapter[datetime](Instant)


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-14T11:30:00Z",
        "2026-12-14T12:30:00+01:00",
        "2026-12-14 11:30:00+00:00",
        "2026-12-14 11:30:00 +0000 UTC",
        "2026-12-14 12:30:00 +0100 CET",
        "2026-12-14 12:30:00 +0100 +0100",
    ],
)
def test_an_instant_is_the_same_in_yaml_in_json_and_as_the_pulumi_cli_prints_it(text: str) -> None:
    assert ADAPTER.validate_json(f'"{text}"', strict=True) == datetime(2026, 12, 14, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-12-14T11:30:00", "2026-12-14", "in two weeks"])
def test_an_instant_without_a_time_zone_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_json(f'"{text}"', strict=True)

"""When a maintenance window is open and when it next opens, in any time zone and across clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_platform.planning.maintenance.section import DAYS, WindowPlan
from gpu_platform.planning.maintenance.window import open_until, opens_next, time_text, window_text


def window(
    days: str = "sat sun", start: str = "22:00", hours: float = 4, zone: str = "Europe/Berlin"
) -> WindowPlan:
    return WindowPlan(days=tuple(days.split()), start=start, seconds=round(hours * 3600), time_zone=zone)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-11-28 20:59:59", None),
        ("2026-11-28 21:00", "2026-11-29 01:00"),  # Saturday, 22:00 in Berlin
        ("2026-11-29 00:59:59", "2026-11-29 01:00"),
        ("2026-11-29 01:00", None),
        ("2026-11-30 00:30", "2026-11-30 01:00"),  # Monday in UTC, in a window that opened on Sunday
        ("2026-11-25 21:30", None),
        ("2026-07-04 20:00", "2026-07-05 00:00"),  # in summer, 22:00 in Berlin is 20:00 UTC
    ],
)
def test_a_window_is_open_from_its_start_until_before_its_end(at: str, until: str | None) -> None:
    assert open_until(window(), utc(at)) == (utc(until) if until else None)


@pytest.mark.parametrize(
    ("at", "opens"),
    [
        ("2026-11-22 23:00", "2026-11-28 21:00"),
        ("2026-11-28 20:59", "2026-11-28 21:00"),
        ("2026-11-28 21:00", "2026-11-29 21:00"),
        ("2026-03-29 00:30", "2026-03-29 20:00"),  # summer time begins between the two times
    ],
)
def test_the_next_opening_is_the_first_one_after_a_time(at: str, opens: str) -> None:
    assert opens_next(window(), utc(at)) == utc(opens)


@pytest.mark.parametrize(
    ("day", "start", "first", "last"),
    [
        # In Berlin, the hour from 02:00 to 03:00 does not exist on 2026-03-29 and occurs twice on 2026-10-25.
        ("2026-03-29", "01:00", "2026-03-29 00:00", "2026-03-29 04:00"),
        ("2026-03-29", "02:30", "2026-03-29 01:30", "2026-03-29 05:30"),
        ("2026-10-25", "01:00", "2026-10-24 23:00", "2026-10-25 03:00"),
        ("2026-10-25", "02:30", "2026-10-25 00:30", "2026-10-25 04:30"),
    ],
)
def test_a_window_lasts_its_duration_also_when_the_clocks_change(
    day: str, start: str, first: str, last: str
) -> None:
    sunday = window("sun", start)
    assert opens_next(sunday, utc(f"{day} 00:00") - timedelta(hours=12)) == utc(first)
    assert open_until(sunday, utc(first)) == utc(last)


def test_windows_that_meet_or_overlap_are_one() -> None:
    assert open_until(window("sat sun", "00:00", 24, "UTC"), utc("2026-11-28 10:00")) == utc("2026-11-30 00:00")
    late = window("sat sun", "22:00", 24, "UTC")
    assert open_until(late, utc("2026-11-28 23:00")) == utc("2026-11-30 22:00")


def test_a_window_of_every_day_all_day_is_always_open() -> None:
    always = window(" ".join(DAYS), "00:00", 24, "UTC")
    assert open_until(always, utc("2026-11-25 12:00")) is not None


@given(
    days=st.sets(st.sampled_from(DAYS), min_size=1),
    hour=st.integers(0, 23),
    hours=st.integers(1, 24),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia"]),
    minutes=st.integers(0, 60 * 24 * 365),
)
def test_at_the_next_opening_the_window_is_open_and_just_before_it_is_closed(
    days: set[str], hour: int, hours: int, zone: str, minutes: int
) -> None:
    one = WindowPlan(days=tuple(sorted(days)), start=f"{hour:02}:00", seconds=hours * 3600, time_zone=zone)
    at = utc("2026-01-01 00:00") + timedelta(minutes=minutes)
    if open_until(one, at) is None:
        opening = opens_next(one, at)
        assert at < opening <= at + timedelta(days=8)
        assert open_until(one, opening) is not None
        assert open_until(one, opening - timedelta(seconds=1)) is None


def test_a_window_and_a_time_are_described_in_its_time_zone_and_in_utc() -> None:
    assert window_text(window()) == "sat, sun 22:00 for 4 h (Europe/Berlin)"
    assert window_text(window(" ".join(DAYS))) == "daily 22:00 for 4 h (Europe/Berlin)"
    assert time_text(window(), utc("2026-11-28 21:00")) == "Sat 2026-11-28 22:00 Europe/Berlin (21:00 UTC)"
    assert time_text(window(), utc("2026-11-28 23:30")) == (
        "Sun 2026-11-29 00:30 Europe/Berlin (Sat 2026-11-28 23:30 UTC)"
    )
    assert time_text(window(zone="UTC"), utc("2026-11-28 21:00")) == "Sat 2026-11-28 21:00 UTC"

"""While `up` waits, it prints each new reason for the wait once, and a reminder line every minute."""

from __future__ import annotations

from gpu_platform.deploy.wait_report import WaitReport
from tests.deploy.test_lock import Said


def test_a_reason_is_printed_once_with_the_elapsed_time_and_again_after_a_minute() -> None:
    said = Said()
    report = WaitReport(said)
    for now in range(110, 240, 5):
        report.say("DaemonSet a: 1 of 2 pods ready: pod x: not ready: gpu-count", 100.0, float(now))
    assert said.lines == [
        f"waited {elapsed} so far for DaemonSet a: 1 of 2 pods ready: pod x: not ready: gpu-count"
        for elapsed in ("10 s", "1 min 10 s", "2 min 10 s")
    ]


def test_a_new_reason_is_printed_at_once() -> None:
    said = Said()
    report = WaitReport(said)
    report.say("a: 0 of 2 pods ready", 0.0, 10.0)
    report.say("a: 1 of 2 pods ready", 0.0, 11.0)
    assert said.lines[-1] == "waited 11 s so far for a: 1 of 2 pods ready"


def test_the_first_seconds_of_a_wait_are_silent() -> None:
    report = WaitReport(Said())
    assert not report.is_due(100.0, 109.0)
    assert report.is_due(100.0, 110.0)

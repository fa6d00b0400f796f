from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpu_platform_training import stopping


@pytest.fixture(autouse=True)
def _own_signals_and_variables(monkeypatch: pytest.MonkeyPatch):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv(stopping.FILE_VARIABLE, "")
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_process_notes_sigterm_and_goes_on() -> None:
    notice = stopping.StopNotice()
    notice.listen()
    assert not notice.given
    os.kill(os.getpid(), signal.SIGTERM)
    assert notice.given


def test_the_launcher_passes_sigterm_on_to_its_workers() -> None:
    file = stopping.pass_on_by_file()
    worker = stopping.StopNotice()
    assert not worker.given
    os.kill(os.getpid(), signal.SIGTERM)
    assert worker.given
    assert file.exists()


def test_a_worker_of_the_launcher_can_be_ended_by_its_agent(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopping.StopNotice(tmp_path / "stop").listen()
    assert signal.getsignal(signal.SIGTERM) is before

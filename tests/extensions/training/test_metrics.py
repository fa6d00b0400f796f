from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest

from gpu_platform_training import metrics
from gpu_platform_training.metrics import Metrics

_SAMPLE = re.compile(r'^[a-z_]+\{process="0"\} [-+0-9.e]+$')


@pytest.fixture
def some() -> Metrics:
    return Metrics(
        {"step": 120, "loss": 2.25, "step_seconds": 0.5, "tokens_per_second": 12345.6, "mfu_ratio": 0.412,
         "memory_allocated_bytes": 3 * 2**30, "memory_limit_bytes": 5.5 * 2**30}
    )  # fmt: skip


def test_metrics_are_prometheus_text(some: Metrics) -> None:
    lines = some.prometheus({"process": "0"}).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(_SAMPLE.match(line) for line in samples)
    assert 'training_loss{process="0"} 2.25' in samples
    assert "# TYPE training_loss gauge" in lines


def test_metrics_are_one_line_for_people(some: Metrics) -> None:
    assert some.line() == (
        "step 120, loss 2.25, 0.5 s a step, 12,346 tokens/s, MFU 41.2%, GPU memory 3.0 of 5.5 GiB"
    )


def test_metrics_are_served_on_a_port(some: Metrics) -> None:
    port = metrics.serve(some, 0, {"process": "0"})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert answer.read().decode() == some.prometheus({"process": "0"})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/")


def test_the_utilisation_is_a_part_of_the_peak_of_all_gpus() -> None:
    assert metrics.flops_utilisation(8 * 494.5e12, 8, 989.0) == pytest.approx(0.5)

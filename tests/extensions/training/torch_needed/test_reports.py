"""Reports of a training run on standard output, on its port for Prometheus, and as traces."""

from __future__ import annotations

import re
import socket
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_platform_training.exit_codes import FINISHED

from .launched import Ended, Pod


@dataclass(frozen=True)
class Told:
    """The output of a run, and the metrics that were read in the middle of the run."""

    ended: Ended
    metrics: dict[str, float]
    folder: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("reports")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    options = ("--precision", "float16", "--report-every", "2", "--checkpoint-every", "2", "--profile", "2:3")
    granted = {
        "GPU_PLATFORM_INTERCONNECT": "efa",
        "GPU_PLATFORM_PEAK_TFLOPS": "0.001",
        "GPU_PLATFORM_GRACE_SECONDS": "0",
    }
    pod = Pod(folder, 2, "8", "pause", "6", options=(*options, "--metrics-port", str(port)), **granted)
    pod.wait_for_the_pause()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    pod.go_on()
    found = {name: float(value) for name, value in re.findall(r"^training_(\w+)\{.*\} (\S+)$", text, re.MULTILINE)}
    return Told(pod.end(), found, folder)


def test_the_first_all_reduce_is_measured_and_names_the_network_of_the_pod(told: Told) -> None:
    assert told.ended.code == FINISHED, told.ended.output
    line = r"all-reduce of 1 MiB over 2 processes \(gloo, efa\): \d+\.\d\d GB/s bus bandwidth"
    assert re.search(line, told.ended.output), told.ended.output


def test_throughput_and_utilisation_are_reported_at_the_interval(told: Told) -> None:
    lines = re.findall(r"step (\d+), loss \S+ \S+ s a step, \S+ tokens/s, MFU \S+%", told.ended.output)
    assert lines == ["2", "4", "6", "8"]


def test_prometheus_reads_the_same_on_a_port(told: Told) -> None:
    assert told.metrics["step"] == 6
    assert {"loss", "step_seconds", "tokens_per_second", "mfu_ratio", "checkpoint_seconds"} <= told.metrics.keys()
    assert told.metrics["tokens_per_second"] > 0


def test_a_grace_period_that_a_checkpoint_does_not_fit_into_is_warned_of_once(told: Told) -> None:
    assert told.ended.output.count("need more: raise the job's `grace`") == 1


def test_float16_trains_with_a_scaled_loss(told: Told) -> None:
    assert "float16" in told.ended.output
    assert sorted(told.ended.losses) == list(range(8))
    assert told.ended.losses[7] < told.ended.losses[0]


def test_every_process_writes_a_trace_of_the_steps(told: Told) -> None:
    traces = {one.name for one in told.folder.rglob("*.json") if one.name.startswith("steps-")}
    assert traces == {"steps-2-to-3-process-0.json", "steps-2-to-3-process-1.json"}

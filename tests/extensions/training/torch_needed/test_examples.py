"""On CPUs, the programs in examples/jobs produce the same results as their pods on GPUs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[4]
JOBS = ROOT / "examples" / "jobs"
sys.path.insert(0, str(JOBS))

import miniature  # noqa: E402
import serve  # noqa: E402
import sweep  # noqa: E402


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "extensions" / "training"), "OMP_NUM_THREADS": "1", **more}


def ran(*command: str, stdin: str = "", **more: str) -> str:
    """Run a program of the examples and return its output. Fails if the exit code is not 0."""
    done = subprocess.run(
        [sys.executable, *command], cwd=JOBS, env=environment(**more), input=stdin, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -- training -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def tuned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The output of fine-tuning with two processes, and its checkpoint directory."""
    kept = tmp_path_factory.mktemp(request.param)
    options = (
        "--parallel",
        request.param,
        "--checkpoint-every",
        "60",
        "--warm-up-mib",
        "1",
        "--report-every",
        "50",
    )
    pod = {"PET_NNODES": "1", "PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "2", "CHECKPOINTS": str(kept)}
    return ran("-m", "gpu_platform_training.train", *options, "finetune:main", "150", **pod), kept


def test_fine_tuning_teaches_the_base_model_to_answer(tuned: tuple[str, Path]) -> None:
    assert miniature.share_of_right_answers(miniature.base_model()) < 0.1
    assert "right answers: 100%" in tuned[0]


def test_the_checkpoint_has_the_weights_of_the_whole_model_and_can_be_served(
    tuned: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"step-0000000120", "step-0000000150", "model.pt"} <= {one.name for one in tuned[1].iterdir()}
    monkeypatch.setenv("MODEL", str(tuned[1] / "model.pt"))
    assert miniature.completed(serve.load(), ["after 41: ", "after 20: "], 2) == ["42", "21"]


# -- inference ----------------------------------------------------------------------------------------------


class Held(torch.nn.Module):
    """A fake model that waits for the event `go` before it computes its first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.model = miniature.base_model(1)
        self.begun, self.go, self.sizes = threading.Event(), threading.Event(), list[int]()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.begun.set()
        assert self.go.wait(60)
        self.sizes.append(len(tokens))
        return self.model(tokens)


def test_requests_that_come_while_a_batch_is_computed_are_the_next_batch() -> None:
    model = Held()
    batcher = serve.Batcher(model, most=16, wait=0.0)
    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(batcher.ask, "41 ", 1)
        assert model.begun.wait(60)
        others = [threads.submit(batcher.ask, f"{number} ", 1) for number in range(50, 68)]
        while batcher.waiting < len(others):
            pass
        model.go.set()
        assert all(len(one.result(60)) == 1 for one in (first, *others))
    batcher.end()
    assert model.sizes == [1, 16, 2]
    assert (batcher.answered, batcher.batches, batcher.waiting) == (19, 3, 0)


def test_a_text_that_cannot_be_read_takes_no_other_of_its_batch_with_it() -> None:
    model = Held()
    batcher = serve.Batcher(model, wait=0.0)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(batcher.ask, "41 ", 1)
        assert model.begun.wait(60)
        good, bad = threads.submit(batcher.ask, "50 ", 1), threads.submit(batcher.ask, "É", 1)
        while batcher.waiting < 2:
            pass
        model.go.set()
        assert len(good.result(60)) == len(first.result(60)) == 1
        with pytest.raises(ValueError, match="expected at most"):
            bad.result(60)
    batcher.end()


@dataclass
class Server:
    """The inference server, started in the same way as in its pod."""

    process: subprocess.Popen[str]
    port: int

    def get(self, path: str, body: Any = None) -> tuple[int, str]:
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data=data, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "serve.py"],
        cwd=JOBS,
        env=environment(PORT="0", WAIT_SECONDS="0.2"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"port (\d+)", process.stdout.readline())
    assert found is not None
    yield Server(process, int(found[1]))
    process.kill()


def ready(server: Server) -> None:
    event = threading.Event()
    while server.get("/healthz")[0] != 200:
        assert server.process.poll() is None
        event.wait(0.1)


def test_the_server_is_ready_once_its_model_is_loaded_and_answers_many_at_once(server: Server) -> None:
    ready(server)
    with ThreadPoolExecutor(32) as threads:
        asked = [threads.submit(server.get, "/complete", {"text": f"{n} {n + 1} "}) for n in range(20, 52)]
        answers = [json.loads(one.result()[1])["answer"] for one in asked]
    assert answers == [str(number + 2) for number in range(20, 52)]
    metrics = dict(line.split() for line in server.get("/metrics")[1].splitlines() if line[0] != "#")
    assert metrics["inference_requests_total"] == "32"
    assert int(metrics["inference_batches_total"]) < 32
    assert metrics["inference_requests_waiting"] == "0"


@pytest.mark.parametrize("body", [{"text": "É"}, {}, {"text": "41 ", "characters": 0}, [], {"text": "a" * 40}])
def test_what_is_no_request_gets_400_and_a_reason(server: Server, body: Any) -> None:
    ready(server)
    status, text = server.get("/complete", body)
    assert status == 400
    assert json.loads(text)["error"]


def test_on_sigterm_a_request_that_was_accepted_is_answered(server: Server) -> None:
    ready(server)
    with ThreadPoolExecutor(1) as threads:
        before = server.get("/metrics")[1]
        asked = threads.submit(server.get, "/complete", {"text": "41 42 "})
        while "waiting 0" in before and server.get("/metrics")[1] == before:
            pass
        server.process.send_signal(signal.SIGTERM)
        assert json.loads(asked.result()[1])["answer"] == "43"
    assert server.process.wait(timeout=120) == 0


# -- sweeps and notebook ------------------------------------------------------------------------------------


def test_each_sweep_part_tries_its_setting_and_the_logs_show_the_best() -> None:
    logs = "".join(ran("sweep.py", JOB_COMPLETION_INDEX=index, STEPS="40") for index in ("0", "8"))
    best = json.loads(ran("sweep.py", "best", stdin=f"warning: a line of a log\n{logs}"))
    assert {key: best[key] for key in ("index", "rate", "width", "layers")} == {"index": 8, **sweep.SETTINGS[8]}
    assert best["loss"] < min(json.loads(line)["loss"] for line in logs.splitlines() if '"index": 0' in line)


def test_a_ray_cluster_tries_all_settings_and_names_the_best_one() -> None:
    out = ran("ray_sweep.py", STEPS="2", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0", RAY_USAGE_STATS_ENABLED="0")
    results = [json.loads(line) for line in out.splitlines() if line.startswith('{"index"')]
    assert {one["index"] for one in results} == set(range(len(sweep.SETTINGS)))
    (told,) = [line for line in out.splitlines() if line.startswith("best: ")]
    assert json.loads(told.removeprefix("best: ")) == min(results, key=lambda one: one["loss"])


def test_the_cells_of_the_notebook_run_from_top_to_bottom() -> None:
    notebook = json.loads((JOBS / "first-steps.ipynb").read_text("utf-8"))
    values: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), values)
    assert values["answers"] == ["42", "58", "90"]

"""Starts the launcher in the same way as a pod does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[4]
_PROGRAMS = Path(__file__).parent / "programs"
_PATIENCE = float(os.environ.get("GPU_PLATFORM_TEST_PATIENCE", "600"))


@dataclass(frozen=True)
class Ended:
    """The results of a terminated pod: its exit code, the output of all processes, and the loss of each step."""

    code: int
    output: str
    losses: Mapping[int, float]


class Pod:
    """A process that simulates one pod of a job. It runs in its own directory, with the environment variables of
    the pod.
    """

    def __init__(
        self, job: Path, processes: int, *arguments: str, options: tuple[str, ...] = (), **variables: str
    ) -> None:
        self._losses = job / f"losses-{time.monotonic_ns()}.jsonl"
        steps, *trouble = arguments
        command = ["-m", "gpu_platform_training.train", "--warm-up-mib", "1", *options]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{_ROOT}/extensions/training{os.pathsep}{_PROGRAMS}",
            "OMP_NUM_THREADS": "1",
            "CHECKPOINTS": str(job / "checkpoints"),
            "GPU_PLATFORM_GRACE_SECONDS": "60",
            "PET_NNODES": "1",
            "PET_STANDALONE": "1",
            "PET_NPROC_PER_NODE": str(processes),
            **variables,
        }
        self._output = (job / f"{self._losses.name}.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, *command, "tiny:main", steps, str(self._losses), *trouble],
            cwd=job,
            env=environment,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def terminate_in_the_middle_of_a_step(self) -> None:
        """Send SIGTERM while all processes are paused in a step. The kubelet also sends SIGTERM when a pod is
        deleted.
        """
        self.wait_for_the_pause()
        self._process.send_signal(signal.SIGTERM)
        self.go_on()

    def wait_for_the_pause(self) -> None:
        """Wait until all processes have paused in their step."""
        self._wait_for(self._losses.with_suffix(".paused"))

    def go_on(self) -> None:
        """Let the paused processes continue."""
        self._losses.with_suffix(".continue").touch()

    def end(self) -> Ended:
        """Wait until the pod has ended, and return its results."""
        try:
            code = self._process.wait(timeout=_PATIENCE)
        finally:
            self._process.kill()
        self._output.seek(0)
        lines = self._losses.read_text().splitlines() if self._losses.exists() else []
        losses = {one["step"]: one["loss"] for one in map(json.loads, lines)}
        return Ended(code, self._output.read(), losses)

    def _wait_for(self, file: Path) -> None:
        until = time.monotonic() + _PATIENCE
        while not file.exists():
            assert self._process.poll() is None, self.end().output
            assert time.monotonic() < until, f"{file} was not created in time"
            time.sleep(0.05)

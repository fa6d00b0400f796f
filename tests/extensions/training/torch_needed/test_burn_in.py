"""The program of the active checks, started on CPUs in the same way as in its Job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).resolve().parents[4] / "gpu_platform/burn_in/scripts/burn_in.py"


def run(folder: Path, *, processes: int, **variables: str) -> tuple[int, dict[str, Any]]:
    """Run the program with torchrun. Return the exit code and the container's termination message."""
    message = folder / "message"
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PET_STANDALONE": "1",
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": str(processes),
        "BURN_IN_DEVICE": "cpu",
        "BURN_IN_MESSAGE": str(message),
        "BURN_IN_MATRIX_SECONDS": "0.2",
        **variables,
    }
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", str(_PROGRAM)], cwd=folder, env=environment, check=False
    )
    return ran.returncode, json.loads(message.read_text("utf-8"))


def test_the_processes_of_a_node_copy_multiply_and_reduce_with_equal_products(tmp_path: Path) -> None:
    code, found = run(tmp_path, processes=2)
    assert code == 0
    assert (found["version"], found["gpus"]) == (1, 2)
    assert all(speed > 0 for speed in [*found["host_to_device"], *found["device_to_host"]])
    assert len(found["host_to_device"]) == 2
    assert found["wrong_products"] == [0, 0]
    assert len(set(found["products"])) == 1
    assert found["all_reduce"]["right"] is True
    assert found["all_reduce"]["gb_per_second"] > 0


def test_between_nodes_only_reductions_are_measured(tmp_path: Path) -> None:
    code, found = run(tmp_path, processes=2, BURN_IN_PART="nodes")
    assert code == 0
    assert set(found) == {"version", "gpus", "all_reduce", "network"}


def test_an_error_is_the_last_message(tmp_path: Path) -> None:
    code, found = run(tmp_path, processes=1, BURN_IN_MATRIX_SECONDS="soon")
    assert code != 0
    assert found["error"].startswith("ValueError")

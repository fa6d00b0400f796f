"""The placement benchmark as it is run: on any file of the trace's form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "placement.py"
NODE = "n,8000,8000,2,T4\n"
POD = "p,1000,100,1,500,\n"


def _run(folder: Path, nodes: str, pods: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\n" + nodes, "utf-8")
    (folder / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + pods, "utf-8")
    files = ("--nodes", str(folder / "nodes.csv"), "--pods", str(folder / "pods.csv"))
    command = [sys.executable, str(SCRIPT), *files, "--work", "50000000", "--workers", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_one_table_has_our_figures_beside_the_published_ones(tmp_path: Path) -> None:
    run = _run(tmp_path, NODE, POD, "--seeds", "42-43")
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    assert ["offline", "this", "planner", "25.00", "0"] in lines
    ours = next(line for line in lines if line[:3] == ["online", "this", "planner,"])
    assert ours[3:9] == ["mean", "of", "2", "seeds", "100.00", "±"]
    for published in ("91.66", "96.77", "87.47", "93.08", "95.39"):
        assert any(published in line for line in lines)


@pytest.mark.parametrize(
    ("nodes", "pods", "told"),
    [
        ("", POD, "no node has a GPU, or no pod asks for one"),
        (NODE, "", "no node has a GPU, or no pod asks for one"),
        (NODE, "p,1000,100,0,0,\n", "no node has a GPU, or no pod asks for one"),
        ("n,8000,8000,two,T4\n", POD, "cannot read the trace"),
    ],
)
def test_a_trace_without_a_share_to_report_is_bad_input(tmp_path: Path, nodes: str, pods: str, told: str) -> None:
    run = _run(tmp_path, nodes, pods, "--online")
    assert (run.returncode, run.stdout) == (2, "")
    assert told in run.stderr
    assert "Traceback" not in run.stderr

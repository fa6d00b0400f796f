"""The benchmark of scheduler profiles, run on small files in the format of the openb traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scheduler_profiles import PodShape, main, resampled

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scheduler_profiles.py"
NODE = "n,8000,8000,2,T4\n"
POD = "p,1000,100,1,500,\n"
KINDS = [PodShape(number, 1, 1 + number % 3) for number in range(1, 10)]


def _write(folder: Path, nodes: str, **pods: str) -> tuple[str, ...]:
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\n" + nodes, "utf-8")
    files: list[str] = []
    for name, rows in pods.items():
        files.append(str(folder / f"{name}.csv"))
        Path(files[-1]).write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + rows, "utf-8")
    return "--nodes", str(folder / "nodes.csv"), "--pods", *files


def test_one_table_has_every_trace_with_every_profile(tmp_path: Path) -> None:
    """If small pods are packed, whole nodes stay free for large pods. If small pods are spread over the nodes, no
    node stays free.
    """
    small, large = "p,1000,100,1,1000,\n", "q,1000,100,8,1000,\n"
    files = _write(tmp_path, "n,64000,64000,8,T4\n" * 8, equal=POD, mixed=small * 6 + large)
    command = [sys.executable, str(SCRIPT), *files, "--seeds", "42-51"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = [line.split() for line in run.stdout.splitlines()[1:]]
    assert rows[0] == ["equal", "10", "100.00", "100.00"]
    assert rows[1][:2] == ["mixed", "10"]
    assert float(rows[1][2]) < float(rows[1][3])


def test_a_pod_that_names_a_gpu_model_runs_only_on_nodes_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*_write(tmp_path, NODE + "m,8000,8000,2,V100\n", named="p,1000,100,1,1000,T4|P100\n")])
    assert capsys.readouterr().out.splitlines()[1].split() == ["named", "3", "50.00", "50.00"]


def test_pods_are_drawn_until_they_request_130_percent() -> None:
    drawn = resampled(KINDS, 10, seed=1)
    assert 13 <= sum(pod.gpus for pod in drawn) < 16


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ("", POD, "no node has a GPU, or no pod requests one"),
        (NODE, "", "no node has a GPU, or no pod requests one"),
        (NODE, "p,1000,100,0,0,\n", "no node has a GPU, or no pod requests one"),
        ("n,8000,8000,two,T4\n", POD, "cannot read the trace"),
    ],
)
def test_a_trace_without_a_share_to_report_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: str, pods: str, message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*_write(tmp_path, nodes, pods=pods)])
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err

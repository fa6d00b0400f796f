"""The placement benchmark as it is run: on any files of the trace's form."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks.placement import main, originals, resampled
from gpu_platform.planning.placement import WHOLE_GPU, PodShape

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "placement.py"
CHEAP = ("--work", "50000000", "--workers", "1")
NODE = "n,8000,8000,2,T4\n"
POD = "p,1000,100,1,500,\n"
KINDS = [PodShape(number, 1, 1, 100 * number) for number in range(1, 10)]


def _write(folder: Path, nodes: str, **pods: str) -> tuple[str, ...]:
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\n" + nodes, "utf-8")
    files: list[str] = []
    for name, rows in pods.items():
        files.append(str(folder / f"{name}.csv"))
        Path(files[-1]).write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + rows, "utf-8")
    return "--nodes", str(folder / "nodes.csv"), "--pods", *files


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments, *CHEAP]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the benchmark in this process, and return why it refuses the arguments."""
    with pytest.raises(SystemExit) as stop:
        main([*arguments, *CHEAP])
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_one_table_has_every_trace_by_every_protocol(tmp_path: Path) -> None:
    run = _run(*_write(tmp_path, NODE, one=POD, two=POD * 2), "--seeds", "42-43")
    assert run.returncode == 0, run.stderr
    rows = [line.split()[:6] for line in run.stdout.splitlines()[1:]]
    assert rows[0][:4] == ["one", "offline", "-", "25.00"]
    assert rows[1] == ["one", "resampled", "2", "100.00", "±", "0.00"]
    assert rows[2] == ["one", "originals", "2", "100.00", "±", "0.00"]
    assert rows[3][:4] == ["two", "offline", "-", "50.00"]
    assert [row[:2] for row in rows[4:]] == [["two", "resampled"], ["two", "originals"]]


def test_a_published_figure_is_printed_beside_its_trace_and_protocol(tmp_path: Path) -> None:
    files = _write(tmp_path, NODE, known=POD, other=POD * 2)
    digests = [hashlib.sha256(Path(one).read_bytes()).hexdigest() for one in (files[1], files[3])]
    published = {"protocol": "originals", "nodes": digests[0], "pods": {digests[1]: {"FGD": 97.5}}}
    (tmp_path / "published.yaml").write_text(yaml.safe_dump(published), "utf-8")
    run = _run(*files, "--seeds", "42", "--published", str(tmp_path / "published.yaml"))
    assert run.returncode == 0, run.stderr
    with_figure = [line.split() for line in run.stdout.splitlines() if "FGD" in line]
    assert with_figure == [["known", "originals", "1", "100.00", "FGD", "97.50", "+2.50", "-", "0", "a", "seed"]]


def test_every_pod_of_the_trace_arrives_once_before_any_is_drawn_again() -> None:
    arriving = originals(KINDS, 10 * WHOLE_GPU, seed=1)
    assert Counter(arriving[: len(KINDS)]) == Counter(KINDS)
    assert arriving[: len(KINDS)] != KINDS
    demand = sum(pod.demand_milli for pod in arriving)
    assert 13 * WHOLE_GPU - 900 <= demand <= 13 * WHOLE_GPU
    assert len(arriving) > len(KINDS)


def test_of_a_trace_that_demands_more_some_pods_are_left_out() -> None:
    arriving = originals(KINDS, 2 * WHOLE_GPU, seed=1)
    assert sum(pod.demand_milli for pod in arriving) <= 2.6 * WHOLE_GPU
    assert not Counter(arriving) - Counter(KINDS)


def test_pods_are_drawn_until_they_demand_130_percent() -> None:
    drawn = resampled(KINDS, 10 * WHOLE_GPU, seed=1)
    assert 13 * WHOLE_GPU <= sum(pod.demand_milli for pod in drawn) < 13 * WHOLE_GPU + 900


@pytest.mark.parametrize(
    ("nodes", "pods", "told"),
    [
        ("", POD, "no node has a GPU, or no pod asks for one"),
        (NODE, "", "no node has a GPU, or no pod asks for one"),
        (NODE, "p,1000,100,0,0,\n", "no node has a GPU, or no pod asks for one"),
        ("n,8000,8000,two,T4\n", POD, "cannot read the trace"),
    ],
)
def test_a_trace_without_a_share_to_report_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: str, pods: str, told: str
) -> None:
    assert told in _refused(capsys, *_write(tmp_path, nodes, pods=pods), "--protocols", "resampled")


def test_an_unknown_protocol_is_bad_input_that_names_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _refused(capsys, *_write(tmp_path, NODE, pods=POD), "--protocols", "onlin")
    assert "'onlin' is none of offline, resampled, originals" in told

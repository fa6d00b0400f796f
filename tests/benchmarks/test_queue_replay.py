"""The replay of published schedulers, tested with hand-computed traces and with a second-by-second simulation of
random traces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import queue_replay
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_sort import argsort
from queue_orders import consolidated
from queue_replay import ORDERS, Window, jobs_of, main, means, platform_of, replay

from extensions.capacity.rehearsal import Trace, TraceEntry, TraceJob
from extensions.capacity.rehearsal.model import Job, Shape
from extensions.capacity.rehearsal.nodes import PoolNodes
from extensions.capacity.trace_sources import read_trace
from tests.support.size import size

Row = tuple[float, float, int]
"""A job: its arrival and duration in seconds, and its number of GPUs."""


def jobs(*rows: Row, vc: str = "vc") -> list[TraceJob]:
    entries = [
        TraceEntry(row=at, name=f"{at}", team=vc, arrival=row[0], duration=row[1], gpus=row[2])
        for at, row in enumerate(rows)
    ]
    found = jobs_of(Trace(form="helios", entries=entries), {vc: 100}, 8, Window())
    return list(found.jobs)


def ends_and_waits(order: str, nodes: int, *rows: Row) -> list[tuple[float | None, float]]:
    """Return the end and the queueing time of each job."""
    recorded = replay(jobs(*rows), {"vc": nodes}, 8, order)
    found = {one.job.name: (one.ended, one.waited) for one in recorded.jobs}
    return [found[f"{at}"] for at in range(len(rows))]


# -- queue orders -------------------------------------------------------------------------------------------

ALL_THEN_ALL_THEN_ONE: tuple[Row, ...] = ((0, 100, 16), (1, 50, 16), (2, 5, 1))


def test_fifo_lets_a_job_that_would_fit_wait_behind_one_that_does_not() -> None:
    assert ends_and_waits("fifo", 2, *ALL_THEN_ALL_THEN_ONE) == [(100, 0), (150, 99), (155, 148)]
    assert ends_and_waits("fifo", 2, (0, 100, 8), (1, 50, 16), (2, 5, 1)) == [(100, 0), (150, 99), (155, 148)]


def test_sjf_starts_the_shortest_first_and_stops_none() -> None:
    assert ends_and_waits("sjf", 2, *ALL_THEN_ALL_THEN_ONE) == [(100, 0), (155, 104), (105, 98)]


def test_sjf_lets_longer_jobs_wait_behind_the_shortest_that_does_not_fit() -> None:
    assert ends_and_waits("sjf", 2, (0, 100, 8), (1, 50, 16), (2, 60, 8)) == [(100, 0), (150, 99), (210, 148)]


def test_srtf_stops_longer_jobs_and_each_stop_adds_a_minute() -> None:
    """Stopping a job adds one second to its duration, plus 60 seconds if it uses two nodes.

    The first job runs from second 0 to 1, has 100 + 60 seconds left, and resumes at 118. The second job runs from
    1 to 2, has 50 + 60 seconds left, and resumes at 8.
    """
    assert ends_and_waits("srtf", 2, *ALL_THEN_ALL_THEN_ONE) == [(278, 117), (118, 6), (8, 0)]


@pytest.mark.parametrize(("gpus", "seconds"), [(1, 7), (2, 30), (8, 30), (9, 60)])
def test_a_stop_makes_a_job_longer_by_its_gpus(gpus: int, seconds: int) -> None:
    """The first job runs from second 0 to 1. It runs again from second 12, for its remaining 100 seconds and the
    restart time.
    """
    assert ends_and_waits("srtf", 2, (0, 100, gpus), (1, 10, 16)) == [(112 + seconds, 11), (12, 0)]


def test_srtf_runs_a_longer_job_if_a_shorter_one_does_not_fit() -> None:
    assert ends_and_waits("srtf", 2, (0, 100, 8), (1, 200, 16), (2, 250, 8)) == [(101, 0), (454, 252), (253, 0)]


def test_srtf_keeps_gpus_free_for_a_job_that_finds_them_scattered() -> None:
    """Three GPUs are free on each node. The third job waits for six GPUs on one node. Until it starts, the fourth
    job gets no GPUs.
    """
    rows: tuple[Row, ...] = ((0, 100, 5), (0, 200, 5), (1, 50, 6), (2, 300, 3))
    assert ends_and_waits("srtf", 2, *rows) == [(101, 0), (201, 0), (152, 100), (402, 99)]


@pytest.mark.parametrize("order", ["fifo", "sjf"])
def test_jobs_that_are_equal_to_an_order_start_as_they_arrived(order: str) -> None:
    assert ends_and_waits(order, 1, (0, 10, 8), (1, 7, 8), (1, 7, 8)) == [(10, 0), (17, 9), (24, 16)]


def test_virtual_clusters_do_not_share_nodes() -> None:
    trace = [*jobs((0, 100, 8), (1, 10, 8), vc="one"), *jobs((1, 10, 8), vc="two")]
    recorded = replay(trace, {"one": 1, "two": 1}, 8, "fifo")
    found = means(recorded, {"one": 1, "two": 1}, 8)
    assert [(name, one.jobs, one.completion, one.queue) for name, one in found.items()] == [
        ("one", 2, (100 + 109) / 2, 99 / 2),
        ("two", 1, 10, 0),
        ("all", 3, (100 + 109 + 10) / 3, 33),
    ]


# -- placement ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([8, 3, 4, 3], 3, {1: 3}),
        ([8, 2, 4, 2], 3, {2: 3}),
        ([2, 2, 2, 2], 3, None),
        ([7, 8, 8, 8], 16, {1: 8, 2: 8}),
        ([7, 8, 7, 7], 16, None),
        ([8, 6, 5, 8], 12, {0: 8, 3: 4}),
        ([8, 4, 5, 3], 12, {0: 8, 2: 4}),
        ([8, 3, 3, 3], 12, None),
        ([7, 7, 7, 7], 9, None),
    ],
)
def test_gpus_are_consolidated(free: Sequence[int], gpus: int, expected: dict[int, int] | None) -> None:
    cluster = PoolNodes(0, platform_of({"vc": len(free)}, 8).pools[0])
    for node, left in enumerate(free):
        if left < 8:
            shape = Shape(resource="gpu", units=1, pods=8 - left, pool="vc")
            cluster.take(
                Job(TraceJob(name="", team="vc", arrival=0, duration=1, shape=shape), node, 0), node, 8 - left
            )
    assert consolidated(cluster, gpus) == expected


# -- second by second ---------------------------------------------------------------------------------------


class Naive:
    """Simulates one virtual cluster second by second. Each job is a list: arrival, remaining time, GPUs, nodes,
    waiting times, end.
    """

    def __init__(self, rows: Sequence[Row], nodes: int) -> None:
        self.free = [8] * nodes
        self.left = [int(row[1]) for row in rows]
        self.rows = rows
        self.places: dict[int, dict[int, int]] = {}
        self.waits = [0] * len(rows)
        self.ends: dict[int, int] = {}
        self.queue: list[int] = []

    def place(self, job: int) -> bool:
        gpus = self.rows[job][2]
        by_least = sorted(range(len(self.free)), key=lambda node: self.free[node])
        if gpus <= 8:
            taken = {node: gpus for node in by_least if self.free[node] >= gpus}
            taken = dict(list(taken.items())[:1])
        else:
            by_most = sorted(range(len(self.free)), key=lambda node: -self.free[node])
            parts = [8] * (gpus // 8) + ([gpus % 8] if gpus % 8 else [])
            pairs = list(zip(by_most, parts, strict=False))
            enough = len(pairs) == len(parts) and all(self.free[node] >= part for node, part in pairs)
            taken = dict(pairs) if enough else {}
        for node, part in taken.items():
            self.free[node] -= part
        if taken:
            self.places[job] = taken
            self.queue.remove(job)
        return bool(taken)

    def leave(self, job: int) -> None:
        for node, part in self.places.pop(job).items():
            self.free[node] += part

    def run(self, order: str) -> list[tuple[float, float]]:
        longer = 1 if order == "srtf" else 0
        self.left = [left + longer for left in self.left]
        now = 0
        while len(self.ends) < len(self.rows):
            for job in [one for one in self.places if not self.left[one]]:
                self.leave(job)
                self.ends[job] = now
            self.queue += [job for job, row in enumerate(self.rows) if row[0] == now]
            if order == "srtf":
                self.by_remaining()
            else:
                key = {"fifo": lambda job: self.rows[job][0], "sjf": lambda job: self.rows[job][1]}[order]
                for job in sorted(self.queue, key=key):
                    if not self.place(job):
                        break
            for job in self.queue:
                self.waits[job] += 1
            for job in self.places:
                self.left[job] -= 1
            assert all(0 <= free <= 8 for free in self.free)
            now += 1
        return [(self.ends[job], self.waits[job]) for job in range(len(self.rows))]

    def by_remaining(self) -> None:
        gpus = 8 * len(self.free)
        starting: list[int] = []
        for job in sorted([*self.queue, *self.places], key=lambda one: self.left[one]):
            if self.rows[job][2] <= gpus:
                gpus -= self.rows[job][2]
                starting += [job] if job in self.queue else []
            elif job in self.places:
                self.leave(job)
                self.left[job] += 7 if self.rows[job][2] == 1 else 30 if self.rows[job][2] <= 8 else 60
                self.queue.append(job)
        for job in starting:
            self.place(job)


ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(1, 16)), min_size=1, max_size=25)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=size(60, 2000))
@given(rows=ROWS)
def test_random_jobs_end_and_wait_as_in_a_simulation_of_each_second(order: str, rows: list[Row]) -> None:
    rows.sort(key=lambda row: row[0])
    expected = Naive(rows, 2).run(order)
    assert ends_and_waits(order, 2, *rows) == expected


@settings(max_examples=size(60, 2000))
@given(rows=ROWS)
def test_shortest_first_has_the_lowest_mean_wait_on_one_gpu(rows: list[Row]) -> None:
    """All jobs arrive at once and run on one GPU, where shortest-first is optimal. No job is ever stopped."""
    same = [(0.0, row[1], 1) for row in rows]
    waited = {
        order: sum(one.waited for one in replay(jobs(*same), {"vc": 1}, 1, order).jobs)
        for order in ("fifo", "sjf")
    }
    assert waited["sjf"] <= waited["fifo"]


# -- traces -------------------------------------------------------------------------------------------------

HEAD = "vc,jobname,gpu_num,submit_time,duration\n"


def files(folder: Path, text: str, clusters: str = "vc,nodes\na,1\n") -> tuple[str, ...]:
    (folder / "trace").write_text(text, "utf-8")
    (folder / "clusters.csv").write_text(clusters, "utf-8")
    return "--trace", str(folder / "trace"), "--clusters", str(folder / "clusters.csv")


def table(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[list[str]], str]:
    """Run the benchmark. Return the cells of the printed table, and the lines about jobs that are left out."""
    main(arguments)
    out, err = capsys.readouterr()
    return [line.replace("+", " +").split() for line in out.splitlines()[1:]], err


def test_the_table_has_each_cluster_by_each_order_and_names_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + "a,x,8,1970-01-02 00:00:00,60\na,y,8,1970-01-02 00:00:10,40\n"
    text += "b,x,8,1970-01-02 00:00:00,60\na,z,9,1970-01-02 00:00:00,60\na,c,0,1970-01-02 00:00:00,60\n"
    text += "a,n,1,1970-01-02 00:00:00,0\na,e,1,1970-01-01 00:00:00,60\na,l,1,1970-01-02 00:02:00,60\n"
    found, err = table(
        capsys, *files(tmp_path, text), "--from", "1970-01-02", "--seconds", "119", "--orders", "fifo,srtf"
    )
    assert found == [
        ["a", "2", "fifo", "75", "-", "-", "25", "-", "-", "50", "-", "0"],
        ["a", "2", "srtf", "86", "-", "-", "20", "-", "-", "66", "-", "1"],
        ["all", "2", "fifo", "75", "-", "-", "25", "-", "-", "50", "-", "0"],
        ["all", "2", "srtf", "86", "-", "-", "20", "-", "-", "66", "-", "1"],
    ]
    for line in (
        "1 job of other virtual clusters", "1 job larger than the virtual cluster", "1 job without a duration",
        "2 jobs outside the window", "1 job without GPUs",
    ):  # fmt: skip
        assert f"left out: {line}\n" in err


# `FIRST_SORT` is the result of `numpy.argsort` in NumPy 1.23.5 for 18 equal values, without index 17.
# `SECOND_SORT` is the result of `numpy.argsort` in NumPy 1.23.5 for 17 equal values.
FIRST_SORT = [0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 16]
SECOND_SORT = [0, 14, 13, 12, 11, 10, 9, 15, 8, 6, 5, 4, 3, 2, 1, 7, 16]


def test_jobs_that_arrive_together_keep_the_order_of_the_file() -> None:
    entries = [TraceEntry(row=at + 2, name=f"{at}", team="a", arrival=5, duration=1, gpus=1) for at in range(40)]
    found = jobs_of(Trace(form="helios", entries=entries), {"a": 1}, 8, Window())
    assert [one.name for one in found.jobs] == [f"{at}" for at in range(40)]


def test_simultaneous_jobs_have_the_order_of_two_numpy_sorts(
    tmp_path: Path,
) -> None:
    lines = "".join(f"{'a' if at < 17 else 'b'},{at},1,1970-01-01 00:00:05,1\n" for at in range(18))
    files(tmp_path, HEAD + lines)
    found = jobs_of(
        read_trace(tmp_path / "trace"), {"a": 1}, 8, Window(), queue_replay.sorted_lines(tmp_path / "trace")
    )
    assert [one.name for one in found.jobs] == [f"{FIRST_SORT[at]}" for at in SECOND_SORT]


def test_equal_values_have_the_same_order_as_in_numpy() -> None:
    """The expected order is the result of `numpy.argsort` in NumPy 1.23.5."""
    values = [int(digit) for digit in "3740681241586834497869073662585178128657"]
    expected = [
        3, 22, 9, 31, 6, 34, 27, 35, 7, 14, 0, 24, 8, 2, 15, 16, 30, 28, 10, 38,
        26, 25, 12, 4, 37, 20, 32, 39, 18, 1, 23, 29, 13, 33, 11, 5, 36, 19, 21, 17,
    ]  # fmt: skip
    assert argsort(values) == expected


@given(st.lists(st.integers(0, 9), max_size=200))
@settings(max_examples=size(30, 1000))
def test_values_are_sorted(values: list[int]) -> None:
    found = argsort(values)
    assert sorted(found) == list(range(len(values)))
    assert [values[at] for at in found] == sorted(values)


def publish(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the published figures of a table, with one node in the virtual cluster `a`, and return the table."""
    content = text.encode()
    found = {
        "gpus_per_node": 8,
        "seconds": 100,
        "table": {"blob": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(), "from": "1970-01-02"},
        "log": {"from": "1970-01-02"},
        "nodes": {"a": 1},
        "means": {name: {"fifo": [100, 25]} for name in ("a", "all")},
    }
    published = folder / "published.yaml"
    published.write_text(yaml.safe_dump(found), "utf-8")
    monkeypatch.setattr(queue_replay, "PUBLISHED", published)
    return text


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    text = HEAD + "a,w,8,1970-01-01 00:00:00,60\na,x,8,1970-01-02 00:00:00,60\na,y,8,1970-01-02 00:00:10,40\n"
    return publish(text, tmp_path, monkeypatch)


def test_the_published_table_is_replayed_in_the_order_of_its_sorts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"{'a' if at < 17 else 'b'},j,8,1970-01-02 00:00:05,{10 * at + 10}\n" for at in range(18))
    text = publish(HEAD + lines, tmp_path, monkeypatch)
    found, _ = table(capsys, *files(tmp_path, text), "--orders", "fifo")
    durations = [10 * FIRST_SORT[at] + 10 for at in SECOND_SORT]
    completion = sum((17 - at) * one for at, one in enumerate(durations)) / 17
    assert found[0][3] == f"{completion:.0f}"
    assert completion != sum((17 - at) * one for at, one in enumerate(sorted(durations))) / 17


def test_published_figures_are_printed_next_to_their_trace_for_their_window(
    known: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = table(capsys, *files(tmp_path, known), "--orders", "fifo")
    assert found[0] == ["a", "2", "fifo", "75", "100", "-25.0", "%", "25", "25", "+0.0", "%", "50", "75", "0"]


@pytest.mark.parametrize(
    ("more", "clusters", "arguments"),
    [
        ("a,z,8,1970-01-02 00:00:20,5\n", "vc,nodes\na,1\n", ()),
        ("", "vc,nodes\na,2\n", ()),
        ("", "vc,nodes\na,1\n", ("--from", "1970-01-01")),
        ("", "vc,nodes\na,1\n", ("--gpus-per-node", "16")),
    ],
    ids=["another trace", "other clusters", "another window", "other nodes"],
)
def test_published_figures_are_not_printed_next_to_other_traces(
    known: str,
    more: str,
    clusters: str,
    arguments: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, _ = table(capsys, *files(tmp_path, known + more, clusters), "--orders", "fifo", *arguments)
    assert [row[4] for row in found] == ["-", "-"]


@pytest.mark.usefixtures("known")
def test_published_figures_are_printed_next_to_the_job_log_of_philly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt = {
        "start_time": "1970-01-02 00:00:05",
        "end_time": "1970-01-02 00:01:45",
        "detail": [{"gpus": ["gpu0"]}],
    }
    job = {"vc": "a", "jobid": "x", "submitted_time": "1970-01-02 00:00:00", "attempts": [attempt]}
    found, _ = table(capsys, *files(tmp_path, json.dumps([job])), "--orders", "fifo")
    assert found[0][:6] == ["a", "1", "fifo", "100", "100", "+0.0"]


def test_the_published_means_of_an_order_have_the_same_durations() -> None:
    """A job's running time is the same in every order, except for the seconds and restarts that SRTF adds."""
    known = yaml.safe_load(queue_replay.PUBLISHED.read_text("utf-8"))
    assert [*known["means"]] == [*known["nodes"], "all"]
    for found in known["means"].values():
        fifo, sjf, srtf = (found[order][0] - found[order][1] for order in ("fifo", "sjf", "srtf"))
        assert abs(fifo - sjf) <= 1
        assert 0 <= srtf - fifo <= 30


@pytest.mark.parametrize(
    ("text", "clusters", "message"),
    [
        (HEAD, "vc,nodes\na,1\n", "no rows"),
        (HEAD + "a,x,8,soon,60\n", "vc,nodes\na,1\n", "row 2, column submit_time"),
        (HEAD + "b,x,8,1,60\n", "vc,nodes\na,1\n", "no jobs are left"),
        (HEAD + "a,x,8,1,60\n", "vc,nodes\na,0\n", "needs a node"),
        (HEAD + "a,x,8,1,60\n", "cluster\na\n", "clusters.csv"),
        ("team,arrival,duration,gpus\na,0,1,1\n", "vc,nodes\na,1\n", "in the table format"),
    ],
)
def test_what_cannot_be_replayed_is_one_error(
    text: str, clusters: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(files(tmp_path, text, clusters))
    assert stop.value.code == 2
    assert message in capsys.readouterr().err

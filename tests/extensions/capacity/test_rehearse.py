"""`gpu-platform rehearse` as a user calls it, without a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import Run

JOBS = """\
name,team,arrival,duration,gpus,pods,cpu,memory,priority
pretrain,vision,2026-03-02 09:00,6h,4,2,32,128Gi,
sweep-1,vision,2026-03-02 09:20,2h,4,1,32,128Gi,
sweep-2,vision,2026-03-02 09:20,2h,4,1,32,128Gi,
labs,vision,2026-03-02 10:00,3h,0.1,6,,,
ranker,search,2026-03-02 10:30,90m,4,1,32,128Gi,inference
"""
TWO_NODES = """\
config:
  gpu-platform:platform:
    kind: environment
    cluster: {provider: sandbox}
    pools: [{name: train, machine_type: p4de.24xlarge, count: {desired: 2}, workload: training}]
    queueing: {}
    teams:
      - {name: vision, quota: {gpus: 8}, priority: training, members: ["group:vision"]}
      - {name: search, quota: {gpus: 8}, priority: training, members: ["group:search"]}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "jobs.csv") -> str:
        Path(name).write_text(text, "utf-8")
        return name

    return write


def test_the_report_is_the_one_that_was_reviewed(
    run: Run, write: Callable[..., str], snapshot: SnapshotAssertion
) -> None:
    ran = run("rehearse", "local", "--trace", write(JOBS))
    assert ran.code == 0
    assert ran.out == snapshot
    assert max(map(len, ran.out.partition("\n\n")[2].splitlines()[:10])) <= 80


def test_the_jobs_of_the_document_start_and_end_when_a_hand_computes_it(
    run: Run, write: Callable[..., str]
) -> None:
    """Team vision has a quota of 12 GPUs and `pretrain` uses 8 of them, so the sweeps run one after the other."""
    ran = run("rehearse", "local", "--trace", write(JOBS), "--format", "json")
    assert ran.code == 0, ran.err
    (found,) = ran.json["stacks"]
    assert [(job["name"], job["start"], job["end"], job["waited_for"]) for job in found["jobs"]] == [
        ("pretrain", 0, 21_600, None),
        ("sweep-1", 1_200, 8_400, None),
        ("sweep-2", 8_400, 15_600, "quota"),
        ("labs", 3_600, 14_400, None),
        ("ranker", 5_400, 10_800, None),
    ]
    assert found["teams"][0]["wait"] == {"median": 0, "p95": 7_200, "worst": 7_200, "mean": 1_800}
    assert ran.json["trace"] == {"file": "jobs.csv", "form": "table", "jobs": 5, "left_out": {}}


def test_another_stack_is_rehearsed_with_the_same_jobs(run: Run, write: Callable[..., str]) -> None:
    """In the second stack, queues let team vision borrow the unused quota of team search. So no sweep waits, and
    `ranker` stops one of the sweeps.
    """
    write(TWO_NODES, "Pulumi.queued.yaml")
    jobs = "".join(line for line in JOBS.splitlines(keepends=True) if "labs" not in line)
    arguments = ("rehearse", "local", "--trace", write(jobs.replace(",inference", ",")))
    ran = run(*arguments, "--against", "Pulumi.queued.yaml", "--format", "json")
    assert ran.code == 0, ran.err
    first, second = ran.json["stacks"]
    assert (first["stack"], second["stack"]) == ("local", "queued")
    assert [job["waited"] for job in first["jobs"]] == [0, 0, 7_200, 0]
    assert [job["start"] for job in second["jobs"]] == [0, 1_200, 1_200, 5_400]
    assert (second["total"]["preemptions"], first["total"]["preemptions"]) == (1, 0)
    text = run(*arguments, "--against", "Pulumi.queued.yaml")
    assert re.search(r"^vision +queued +3 ", text.out, re.MULTILINE)


def test_teams_of_a_trace_are_mapped_to_teams_of_the_stack(run: Run, write: Callable[..., str]) -> None:
    jobs = JOBS.replace("vision", "vc1").replace(",inference", ",")
    ran = run("rehearse", "local", "--trace", write(jobs))
    assert ran.code == 2
    assert "row 2, column team: found 'vc1' (of 4 jobs); allowed: one of vision, search" in ran.err
    ran = run("rehearse", "local", "--trace", "jobs.csv", "--team", "*=vision", "--format", "json")
    assert [team["jobs"] for team in ran.json["stacks"][0]["teams"]] == [4, 1]


def test_jobs_that_can_never_run_are_a_finding_and_named(run: Run, write: Callable[..., str]) -> None:
    ran = run("rehearse", "local", "--trace", write("team,arrival,duration,gpus,pods\nvision,0,60,8,3\n"))
    assert ran.code == 1
    assert "impossible: 1 job of vision with 3 pods of 8 nvidia.com/gpu" in ran.out


def test_a_job_on_a_scaled_pool_starts_when_its_node_is_ready(run: Run, write: Callable[..., str]) -> None:
    trace = write("team,arrival,duration,gpus,cpu,memory\nvision,0,1h,1,1,1Gi\nvision,0,1h,8,1,1Gi\n")
    write(SCALED, "Pulumi.scaled.yaml")
    starts: list[list[float]] = []
    for minutes in ("5m", "20m"):
        ran = run("rehearse", "Pulumi.scaled.yaml", "--trace", trace, "--node-start", minutes, "--format", "json")
        assert ran.code == 1, ran.err  # the second job is impossible
        starts.append([job["start"] for job in ran.json["stacks"][0]["jobs"]])
    assert starts == [[300, None], [1200, None]]


SCALED = """\
config:
  gpu-platform:platform:
    kind: environment
    cluster: {provider: gke, name: ml, project: my-project-123, location: us-central1, create: {}}
    pools:
      - name: develop
        machine_type: g2-standard-8
        count: {min: 0, desired: 0, max: 4}
        workload: development
    teams: [{name: vision, quota: {gpus: 4}, priority: training, members: ["group:vision@example.com"]}]
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--team", "vision"), "TEAM_OF_TRACE=TEAM_OF_STACK"),
        (("--team", "a=vision", "--team", "a=search"), "'a' twice"),
        (("--team", "a=visoin"), "did you mean 'vision'?"),
        (("--node-start", "soon"), "--node-start: found 'soon'"),
        (("--checkpoint", "10"), "--checkpoint: found '10'"),
        (("--against", "speech"), "a stack of kind environment"),
        (("--against", "lokal"), "did you mean 'local'?"),
    ],
)
def test_options_with_mistakes_are_refused(
    run: Run, write: Callable[..., str], arguments: tuple[str, ...], said: str
) -> None:
    ran = run("rehearse", "local", "--trace", write(JOBS), *arguments)
    assert ran.code == 2
    assert said in ran.err


class _Page(HTMLParser):
    """Records the tags that are opened, and every address that the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "line", "polyline", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_has_a_time_line_of_each_stack_and_needs_nothing_from_outside(
    run: Run, write: Callable[..., str]
) -> None:
    write(TWO_NODES, "Pulumi.queued.yaml")
    jobs = write("name,team,arrival,duration,gpus\n<b>,vision,0,1h,4\n", "<i>.csv")
    ran = run("rehearse", "local", "--trace", jobs, "--against", "Pulumi.queued.yaml", "--format", "html")
    assert ran.code == 0, ran.err
    page = _Page()
    page.feed(ran.out)
    assert (page.open, page.fetched) == ([], [])
    assert page.tags.count("svg") == 2
    # Each time line has a polygon for the running jobs. It has no polygon for waiting jobs, because no job waits.
    assert page.tags.count("polygon") == 2
    assert "&lt;i&gt;.csv" in ran.out
    assert "<i>" not in ran.out

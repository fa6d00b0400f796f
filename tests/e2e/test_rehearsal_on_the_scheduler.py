"""In a rehearsal, jobs run and wait in the same way as with the real kube-scheduler and Kueue.

The rehearsal sets the times. The test creates a job in the sandbox when it arrives in the rehearsal, and ends the
job when it ends in the rehearsal. After each of these events, the same jobs must run in the rehearsal and in the
sandbox, where only the scheduler and Kueue decide which jobs run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from extensions.capacity.rehearsal import Assumptions, RehearsalStack, Trace, TraceEntry, fit, rehearse, stack_of
from extensions.capacity.rehearsal.simulator import Recorded
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.loaded import plan_platform
from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.e2e.queues import Team, bring, job, stack
from tests.support.eventually import eventually

# test_rehearsal.py and test_team_queues.py cover single cases. This slow test compares whole rehearsals.
pytestmark = [pytest.mark.sandbox, pytest.mark.thorough, pytest.mark.xdist_group("e2e-queues")]

SEEDS = (1, 4, 6)
JOBS = 12
TEAMS = ("vision", "search")


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


def unaligned(status: Status) -> dict[str, Any]:
    """Return a stack whose kubelets refuse no pods, because a Job replaces a refused pod only after a back-off."""
    found = stack(status)
    found["pools"][0]["topology"] = {"policy": "none"}
    return found


@pytest.fixture
def queues(platform: Platform, kueue_sandbox: Status) -> Platform:
    bring(platform, unaligned(kueue_sandbox))
    return platform


@pytest.fixture
def teams(queues: Platform) -> Iterator[dict[str, Team]]:
    found = {name: Team(queues.kubeconfig, name) for name in TEAMS}
    yield found
    for team in found.values():
        team.remove()


def sampled(seed: int) -> list[TraceEntry]:
    """Return jobs that request about twice the GPUs of the stack, on one node or as gangs on two."""
    draw = random.Random(seed)
    arrival = 0.0
    entries: list[TraceEntry] = []
    for index in range(JOBS):
        arrival += draw.uniform(1, 120)
        pods = draw.choice([1, 1, 1, 2])
        entries.append(
            TraceEntry(
                row=index + 2,
                name=f"s{seed}-{index}",
                team=draw.choice(TEAMS),
                arrival=arrival,
                duration=draw.uniform(200, 900),
                gpus=draw.choice([1, 2, 4, 5, 8]),
                pods=pods,
                cpu=1000,
                memory=2**30,
            )
        )
    return entries


def rehearsed(on: dict[str, Any], entries: list[TraceEntry]) -> Recorded:
    plan = plan_platform(on, "shop")
    assert plan.kind == "environment"
    planned: RehearsalStack = stack_of(plan, load_catalog())
    jobs = fit(Trace(form="table", entries=tuple(entries)), planned, {}).jobs
    assert len(jobs) == len(entries)
    return rehearse(planned.platform, jobs, Assumptions())


def running_at(recorded: Recorded, at: float) -> set[str]:
    return {one.job.name for one, start, end in recorded.runs if start <= at < end}


def events(recorded: Recorded) -> list[tuple[float, str, bool]]:
    """Return the time and job of each arrival and each end, in order. The boolean is True for an end."""
    found = [(one.job.arrival, one.job.name, False) for one in recorded.jobs]
    found += [(one.ended, one.job.name, True) for one in recorded.jobs if one.ended is not None]
    assert len({at for at, _, _ in found}) == len(found) == 2 * JOBS
    return sorted(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_each_arrival_and_end_the_jobs_run_that_run_in_the_rehearsal(
    queues: Platform, kueue_sandbox: Status, teams: dict[str, Team], seed: int
) -> None:
    entries = {one.name: one for one in sampled(seed)}
    recorded = rehearsed(unaligned(kueue_sandbox), list(entries.values()))
    assert any(one.waited for one in recorded.jobs)
    assert any(one.preemptions for one in recorded.jobs)
    there: set[str] = set()
    for at, name, ends in events(recorded):
        # Kueue orders jobs by timestamps in whole seconds, so two jobs must not arrive in the same second.
        last = int(time.time())
        eventually(lambda last=last: int(time.time()) > last)
        one = entries[name]
        team = teams[one.team]
        if ends:
            team.end(name)
            there.remove(name)
        else:
            team.create(job(one.team, name, int(one.gpus), one.pods or 1))
            there.add(name)
        expected = running_at(recorded, at)
        eventually(lambda: _running(teams, entries, there), expected)
        # Kueue tries only the first of several jobs with the same requests.
        shapes = {(entries[one].team, entries[one].gpus, entries[one].pods) for one in there - expected}
        for shape in shapes:
            alike = [
                one
                for one in there - expected
                if (entries[one].team, entries[one].gpus, entries[one].pods) == shape
            ]
            eventually(lambda alike=alike: any(_tried(teams[entries[one].team], one) for one in alike))
        # Kueue has now tried all waiting jobs and has started none of them.
        assert _running(teams, entries, there) == expected, (at, name)


def _running(teams: dict[str, Team], entries: dict[str, TraceEntry], there: set[str]) -> set[str]:
    return {name for name in there if teams[entries[name].team].running(name) == entries[name].pods}


def _tried(team: Team, name: str) -> bool:
    """Return whether Kueue has tried to start a job but found too little free quota."""
    conditions = (team.workload(name) or {}).get("status", {}).get("conditions", ())
    return any(one["type"] == "QuotaReserved" and one["status"] == "False" for one in conditions)

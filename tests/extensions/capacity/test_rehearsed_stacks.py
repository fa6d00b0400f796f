"""The pods that jobs from a trace get on planned stacks, and rehearsals of traces compared with results computed
by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from extensions.capacity.rehearsal import (
    Assumptions,
    RehearsalStack,
    Report,
    Trace,
    TraceEntry,
    fit,
    rehearse,
    report,
    stack_of,
)
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.loaded import load_stack, plan_platform

GPU, SHARE, SLICE = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def local() -> RehearsalStack:
    plan = load_stack("local").plan
    assert plan.kind == "environment"
    return stack_of(plan, load_catalog())


def stack(**changed: Any) -> RehearsalStack:
    """Return a stack with two nodes of eight A100s at 10 USD/h. Each team has a quota of eight GPUs."""
    pool = {
        "name": "train",
        "machine_type": "p4de.24xlarge",
        "count": {"desired": 2},
        "workload": "training",
        "usd_per_hour": 10,
    }
    teams = [
        {"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["group:vision"]},
        {"name": "search", "quota": {"gpus": 8}, "priority": "inference", "members": ["group:search"]},
    ]
    platform = {
        "kind": "environment",
        "cluster": {"provider": "sandbox"},
        "pools": [pool],
        "teams": teams,
        **changed,
    }
    plan = plan_platform(platform, "shop")
    assert plan.kind == "environment"
    return stack_of(plan, load_catalog())


def entry(**changed: Any) -> TraceEntry:
    base: dict[str, Any] = {
        "row": 2, "name": "a", "team": "vision", "arrival": 0, "duration": 3600, "gpus": 1, "pods": 1,
    }  # fmt: skip
    return TraceEntry(**{**base, **changed})


def trace(*entries: TraceEntry) -> Trace:
    return Trace(form="table", entries=entries)


def shape_of(one: TraceEntry, on: RehearsalStack) -> tuple[str, int, int]:
    (job,) = fit(trace(one), on, {}).jobs
    return job.shape.resource, job.shape.units, job.shape.pods


def rehearsed(on: RehearsalStack, *entries: TraceEntry, checkpoint: float | None = None) -> Report:
    jobs = fit(trace(*entries), on, {}).jobs
    return report(on.platform, rehearse(on.platform, jobs, Assumptions(checkpoint=checkpoint)), steps=4)


def test_a_gpu_fraction_becomes_the_smallest_sufficient_share() -> None:
    """In the stack `local`, one pool offers quarters of GPUs and another pool offers sevenths of GPUs."""
    assert shape_of(entry(gpus=0.1, team="search"), local()) == (SLICE, 1, 1)
    assert shape_of(entry(gpus=0.2, team="search"), local()) == (SHARE, 1, 1)
    assert shape_of(entry(gpus=0.5, team="search"), local()) == (GPU, 1, 1)


def test_a_team_without_quota_of_shares_gets_what_it_has_quota_for() -> None:
    """Team vision has no quota for shares."""
    assert shape_of(entry(gpus=0.2), local()) == (GPU, 1, 1)


@pytest.mark.parametrize(("gpus", "units", "pods"), [(8, 8, 1), (16, 8, 2), (12, 6, 2), (27, 3, 9), (1, 1, 1)])
def test_gpus_of_a_whole_job_become_the_fewest_equal_pods_that_a_node_has_room_for(
    gpus: int, units: int, pods: int
) -> None:
    assert shape_of(entry(gpus=gpus, pods=None), stack()) == (GPU, units, pods)


def test_a_job_has_the_priority_of_its_team_or_the_one_that_it_names() -> None:
    jobs = fit(trace(entry(team="search"), entry(team="search", priority="training")), local(), {}).jobs
    assert [job.shape.priority for job in jobs] == [1000, 100]


def test_jobs_without_requests_get_the_defaults_of_their_kubernetes() -> None:
    """Since Kubernetes 1.36, admission sets each GPU's share of the CPUs. In older versions, the LimitRange sets
    500m CPU and 1 GiB of memory.
    """
    new = local()
    (job,) = fit(trace(entry()), new, {}).jobs
    assert (job.shape.cpu, job.shape.memory) == (None, None)
    # Eight GPUs share 95,690m CPU of the node, minus 50m for the node agent.
    assert new.platform.pools[0].parts[GPU][0] == 11_955
    plan = load_stack("eks-training").plan
    assert plan.kind == "environment"
    (job,) = fit(trace(entry()), stack_of(plan, load_catalog()), {}).jobs
    assert (job.shape.cpu, job.shape.memory) == (500, 2**30)


def test_queued_stacks_have_quotas_per_pool_and_the_clouds_autoscaler() -> None:
    plan = load_stack("eks-training").plan
    assert plan.kind == "environment"
    found = stack_of(plan, load_catalog()).platform
    assert [(pool.name, pool.scaled, pool.min, pool.max) for pool in found.pools] == [
        ("train", False, 0, 4),
        ("serve", True, 1, 10),
        ("develop", True, 0, 8),
    ]
    vision = found.queues[0]
    gpus = vision.flavors["train"][GPU]
    assert (vision.team, gpus.nominal, gpus.borrow, gpus.lend) == ("vision", 32, 0, 32)
    # Each of the four nodes has 191,450m CPU, minus the 350m that DaemonSets request.
    assert vision.flavors["train"]["cpu"].nominal == 764_400
    assert (found.topology, found.fair_sharing, found.pods_ready_timeout) == (False, True, 7200)


def test_trace_teams_are_mapped_and_unknown_teams_are_errors() -> None:
    jobs = trace(entry(team="vc1"), entry(team="vc2", row=7), entry(team="vc2", row=8))
    assert [one.team for one in fit(jobs, stack(), {"vc1": "search", "*": "vision"}).jobs] == [
        "search", "vision", "vision",
    ]  # fmt: skip
    (problem,) = fit(jobs, stack(), {"vc1": "search"}).problems
    assert (problem.path, problem.found) == ("row 7, column team", "'vc2' (of 2 jobs)")
    assert "--team vc2=vision" in problem.fix
    (problem,) = fit(jobs, stack(), {"*": "visoin"}).problems
    assert problem.fix == "did you mean 'vision'?"


def test_priorities_pools_and_resources_that_the_stack_does_not_have_are_errors() -> None:
    jobs = trace(entry(priority="inference", pool="trian", resource="nvidia.com/gpus"))
    assert [(one.path, one.found) for one in fit(jobs, stack(), {}).problems] == [
        ("row 2, column priority", "'inference'"),
        ("row 2, column pool", "'trian'"),
        ("row 2, column resource", "'nvidia.com/gpus'"),
    ]


def test_waits_use_and_cost_of_a_rehearsal_are_those_computed_by_hand() -> None:
    """Team vision has a quota of eight GPUs. Its second job waits for an hour. During that job, one of the two
    nodes is empty.
    """
    found = rehearsed(
        stack(),
        entry(gpus=8),
        entry(gpus=8, arrival=0),
        entry(team="search", gpus=4, arrival=1800, duration=1800),
    )
    vision, search = found.teams
    assert found.seconds == 7200
    assert vision.wait is not None
    assert (vision.wait.median, vision.wait.p95, vision.wait.worst, vision.wait.mean) == (1800, 3600, 3600, 1800)
    assert (vision.gpu_hours, search.gpu_hours, found.total.gpu_hours) == (16, 2, 18)
    assert vision.utilisation == 0.5
    assert vision.waited_for == {"quota": 1}
    # Two nodes for two hours cost 40 USD. A GPU hour costs 1.25 USD.
    assert (found.usd, vision.usd, search.usd) == (40, 20, 2.5)
    # While the job waits, eight other GPUs are idle in the first half hour, and four GPUs are idle in the second.
    assert found.idle_while_waiting == (8 * 0.5 + 4 * 0.5) / 32
    # For half an hour, the job of team search uses half of a node, and the other four GPUs of the node are free.
    assert found.fragmented == 2 / 32
    assert found.line.step == 1800
    assert found.line.capacity == [16, 16, 16, 16]
    assert found.line.used == {"vision": [8, 8, 8, 8], "search": [0, 4, 0, 0]}
    assert found.line.waiting == {"vision": [8, 8, 0, 0], "search": [0, 0, 0, 0]}


def test_work_that_a_stopped_job_does_again_is_counted_less_with_checkpoints() -> None:
    """Team search takes its quota back after 50 minutes. The job of team vision restarts at minute 80. It then
    runs for 60 minutes, or for 40 minutes with checkpoints.
    """
    with_queues = stack(queueing={})
    jobs = (
        entry(gpus=8, duration=7200),
        entry(gpus=8, arrival=60, name="borrows"),
        entry(team="search", gpus=8, arrival=3000, duration=1800),
    )
    found = rehearsed(with_queues, *jobs)
    assert (found.total.preemptions, found.teams[0].lost_gpu_hours) == (1, pytest.approx(8 * 2940 / 3600))
    assert found.seconds == 4800 + 3600
    saved = rehearsed(with_queues, *jobs, checkpoint=1200)
    assert (saved.total.preemptions, saved.teams[0].lost_gpu_hours) == (1, pytest.approx(8 * 540 / 3600))
    assert saved.seconds == 7200


def test_a_job_that_fits_no_node_is_impossible_and_does_not_wait() -> None:
    found = rehearsed(stack(), entry(gpus=9), entry(gpus=1, duration=60))
    assert (found.total.impossible, found.total.ended, found.total.unfinished) == (1, 1, 0)
    assert found.total.wait is not None
    assert found.total.wait.worst == 0


def test_trace_jobs_without_a_team_belong_to_the_only_team() -> None:
    asked = trace(entry(team=""))
    one = stack(teams=[{"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["group:v"]}])
    assert [job.team for job in fit(asked, one, {}).jobs] == ["vision"]
    assert fit(asked, stack(), {}).problems


def test_a_rehearsal_in_which_nothing_runs_takes_no_time() -> None:
    found = rehearsed(stack(), entry(arrival=1_772_442_000, gpus=9))
    assert (found.total.impossible, found.seconds, found.line.step) == (1, 0, 1)

"""Rehearsals of jobs whose starts are computed by hand."""

from __future__ import annotations

from dataclasses import replace

from gpu_platform.planning.rehearsal import Platform, TraceJob, rehearse
from gpu_platform.planning.rehearsal.model import QuotaLimits, RehearsalPool, RehearsalQueue, Shape

GPU = "nvidia.com/gpu"
NODE = {GPU: 8, "cpu": 80_000, "memory": 800}


def platform(*, nodes: int = 2, queues: bool = True, topology: bool = True) -> Platform:
    """Two teams; each has the quota of half of the nodes and may borrow the other half."""
    pool = RehearsalPool(
        name="train", desired=nodes, min=nodes, max=nodes, scaled=False, gpus_per_node=8, cpu=80_000, memory=800,
        pods=110, offers={GPU: 8}, gpus={GPU: 1.0}, parts={GPU: (10_000, 100)}, usd_per_hour=None,
    )  # fmt: skip
    half = {
        name: QuotaLimits(nominal=n * nodes // 2, borrow=n * nodes // 2, lend=n * nodes // 2)
        for name, n in NODE.items()
    }
    declared = tuple(
        RehearsalQueue(
            team=team,
            cohort="all",
            weight=1.0,
            within_queue="LowerPriority",
            reclaim="Any",
            flavors={"train": half},
        )
        for team in ("a", "b")
    )
    return Platform(pools=(pool,), teams=("a", "b"), queues=declared if queues else (), topology=topology)


def job(
    name: str, team: str, arrival: float, duration: float, units: int, pods: int = 1, priority: int = 0
) -> TraceJob:
    shape = Shape(resource=GPU, units=units, pods=pods, priority=priority)
    return TraceJob(name=name, team=team, arrival=arrival, duration=duration, shape=shape)


def ends(found: Platform, *trace: TraceJob) -> dict[str, float | None]:
    return {one.job.name: one.ended for one in rehearse(found, trace).jobs}


def test_a_job_waits_until_enough_gpus_end() -> None:
    found = ends(platform(), job("one", "a", 0, 100, 8, pods=2), job("two", "a", 10, 50, 8))
    assert found == {"one": 100, "two": 150}


def test_a_smaller_job_starts_before_a_larger_one_that_does_not_fit() -> None:
    found = ends(
        platform(), job("one", "a", 0, 100, 8), job("gang", "a", 1, 10, 8, pods=2), job("two", "a", 2, 5, 4)
    )
    assert found == {"one": 100, "gang": 110, "two": 7}


def test_a_team_takes_its_quota_back_and_the_stopped_job_starts_over() -> None:
    """The job that borrows started last, so it is stopped at 30 and starts again at 80, when `own` of b ends."""
    trace = (job("own", "a", 0, 200, 8), job("borrows", "a", 10, 100, 8), job("claims", "b", 30, 50, 8))
    assert ends(platform(), *trace) == {"own": 200, "borrows": 180, "claims": 80}
    assert [one.preemptions for one in rehearse(platform(), trace).jobs] == [0, 1, 0]


def test_a_higher_priority_stops_a_lower_one_of_the_same_team() -> None:
    trace = (job("low", "a", 0, 100, 8, pods=2), job("high", "a", 40, 10, 8, pods=2, priority=5))
    assert ends(platform(), *trace) == {"low": 150, "high": 50}


def test_a_job_on_fragments_waits_for_a_whole_node_with_a_topology() -> None:
    trace = (job("one", "a", 0, 100, 5), job("two", "b", 0, 60, 5), job("four", "a", 1, 10, 4))
    assert ends(platform(), *trace) == {"one": 100, "two": 60, "four": 70}


def test_without_queues_a_gang_holds_gpus_while_it_waits_for_the_rest() -> None:
    trace = (job("one", "a", 0, 5, 8), job("left", "a", 1, 10, 6, pods=2), job("right", "b", 1, 10, 6, pods=2))
    found = ends(platform(queues=False), *trace)
    assert found["one"] == 5
    assert found["left"] == 15
    assert found["right"] == 25


def test_without_queues_the_scheduler_stops_a_lower_priority_for_a_higher_one() -> None:
    trace = (job("low", "a", 0, 100, 8, pods=2), job("high", "a", 40, 10, 8, priority=5))
    assert ends(platform(queues=False), *trace) == {"low": 150, "high": 50}


def test_a_job_larger_than_all_nodes_is_impossible() -> None:
    (found,) = rehearse(platform(), [job("huge", "a", 0, 10, 8, pods=3)]).jobs
    assert (found.state, found.ended) == ("impossible", None)


def test_a_job_goes_to_the_first_of_pools_that_are_equally_good() -> None:
    one = platform(nodes=1, queues=False)
    two = replace(one, pools=(one.pools[0], replace(one.pools[0], name="serve")))
    assert rehearse(two, [job("one", "b", 0, 100, 8)]).team_seconds == {(1, 0): 800.0}

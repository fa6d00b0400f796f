"""Rehearsals of jobs, compared with start and end times that were computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extensions.capacity.rehearsal import Assumptions, Platform, TraceJob, rehearse, stack_of
from extensions.capacity.rehearsal.model import Job, QuotaLimits, RehearsalPool, RehearsalQueue, Shape
from extensions.capacity.rehearsal.numa import NumaUnits
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from sandbox.simulator.admission import Rejection
from sandbox.simulator.resource_managers import AlignedNode, Held, admit
from tests.support.size import size

GPU = "nvidia.com/gpu"
NODE = {GPU: 8, "cpu": 80_000, "memory": 800}


def platform(*, nodes: int = 2, queues: bool = True, topology: bool = True) -> Platform:
    """Return a platform with two teams. Each team has a quota of half the GPUs and can borrow the other half."""
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
    """The borrowing job started last, so it is preempted at second 30. It restarts at second 80, when the job
    `claims` ends.
    """
    trace = (job("own", "a", 0, 200, 8), job("borrows", "a", 10, 100, 8), job("claims", "b", 30, 50, 8))
    assert ends(platform(), *trace) == {"own": 200, "borrows": 180, "claims": 80}
    assert [one.preemptions for one in rehearse(platform(), trace).jobs] == [0, 1, 0]


def borrowing() -> Platform:
    """Return a platform with two nodes and two teams. Each team has a quota of 4 GPUs and may borrow 8 more."""
    amounts = {GPU: 8, "cpu": 80_000, "memory": 800}
    quarter = {
        name: QuotaLimits(nominal=amount // 2, borrow=amount, lend=amount // 2) for name, amount in amounts.items()
    }
    found = platform(topology=False)
    queues = tuple(replace(one, flavors={"train": quarter}) for one in found.queues)
    return replace(found, queues=queues, cohorts={"all": {"train": amounts}})


def test_a_borrowed_job_is_stopped_only_if_its_team_keeps_as_much_as_the_other() -> None:
    large, claims = job("large", "a", 0, 100, 6, pods=2), job("claims", "b", 10, 50, 4, pods=2)
    assert ends(borrowing(), large, claims) == {"large": 100, "claims": 150}
    halves = [job(name, "a", at, 100, 6) for at, name in enumerate(("first", "second"))]
    small = job("small", "b", 10, 50, 6)
    assert ends(borrowing(), *halves, small) == {"first": 100, "second": 160, "small": 60}


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


# -- NUMA nodes ---------------------------------------------------------------------------------------------


def aligned(*, single: bool = False, **rest: bool) -> Platform:
    """Return a platform with one node. Its kubelet aligns pods to two NUMA nodes with four GPUs each."""
    found = platform(nodes=1, **rest)
    return replace(found, pools=(replace(found.pools[0], numa={GPU: (4, 4)}, single_numa=single),))


WAYS = pytest.mark.parametrize(
    "rest", [{"topology": True}, {"topology": False}, {"queues": False}], ids=lambda one: "-".join(one)
)


@WAYS
def test_gpus_that_are_free_on_two_numa_nodes_do_for_no_pod_that_needs_one(rest: dict[str, bool]) -> None:
    """Two pods use three GPUs each, on separate NUMA nodes. So one GPU is free on each of the two NUMA nodes."""
    trace = (job("one", "a", 0, 100, 3), job("two", "b", 1, 200, 3), job("pair", "a", 2, 10, 2))
    assert ends(platform(nodes=1, **rest), *trace)["pair"] == 12
    assert ends(aligned(**rest), *trace) == {"one": 100, "two": 201, "pair": 110}


@WAYS
def test_pods_larger_than_a_numa_node_run_only_under_restricted(
    rest: dict[str, bool],
) -> None:
    trace = (job("five", "a", 0, 10, 5), job("four", "a", 0, 10, 4))
    assert ends(aligned(**rest), *trace) == {"five": 10, "four": 20}
    found = rehearse(aligned(single=True, **rest), trace).jobs
    assert [(one.state, one.ended) for one in found] == [("impossible", None), ("ended", 10)]


def test_pods_that_fit_a_node_only_in_total_are_impossible() -> None:
    """Two pods with three GPUs fit, one on each NUMA node. A NUMA node has room for two pods with two GPUs."""
    assert ends(aligned(), job("two", "a", 0, 10, 3, pods=2)) == {"two": 10}
    (three,) = rehearse(aligned(), (job("three", "a", 0, 10, 2, pods=5),)).jobs
    assert three.state == "impossible"
    found = replace(aligned().pools[0], numa={GPU: (5, 3)})
    (uneven,) = rehearse(replace(aligned(), pools=(found,)), (job("uneven", "a", 0, 10, 4, pods=2),)).jobs
    assert uneven.state == "impossible"


def test_a_higher_priority_stops_the_job_on_a_numa_node_that_it_needs() -> None:
    """The job needs all four GPUs of a NUMA node. The running job that was created last is stopped and
    restarted.
    """
    lower = [job("first", "a", 0, 100, 3), job("second", "a", 1, 100, 3)]
    found = ends(aligned(queues=False), *lower, job("high", "a", 2, 10, 4, priority=1), job("one", "a", 3, 5, 1))
    assert found == {"first": 100, "second": 112, "high": 12, "one": 8}


def test_a_job_that_a_search_for_victims_spares_keeps_its_numa_node() -> None:
    units = NumaUnits((4, 3), 1, single=False)
    gone, kept = (Job(job(name, "a", 0, 1, 3), 0, 0) for name in ("gone", "kept"))
    for one in (gone, kept):
        units.take(one, 0, 3, 1)
    units.give_back(gone, 0)
    assert (units.fits(0, 4), units.room(0, 1)) == (True, 4)  # the job `gone` uses no GPUs any more
    units.give_back(kept, 0)
    units.take(kept, 0, 3, 1)
    assert (units.fits(0, 4), units.room(0, 1)) == (True, 4)
    units.take(gone, 0, 3, 1)
    assert (units.fits(0, 2), units.room(0, 1)) == (False, 1)


def test_the_autoscaler_removes_idle_nodes_and_keeps_busy_ones() -> None:
    fixed = platform(nodes=1, queues=False)
    found = replace(fixed, pools=(replace(fixed.pools[0], scaled=True, desired=0, min=0),))
    start, idle = Assumptions().node_start, Assumptions().node_idle
    busy, after = start + 10 * idle, start + 20 * idle
    trace = (
        job("long", "a", 0, 10 * idle + 10, 4),
        job("beside", "a", busy, 10, 4),
        job("later", "a", after, 10, 4),
    )
    assert ends(found, *trace) == {"long": busy + 10, "beside": busy + 10, "later": after + start + 10}


def test_a_pool_that_can_align_no_pod_of_a_job_is_not_scaled_for_it() -> None:
    single = aligned(single=True, queues=False)
    scaled = replace(single.pools[0], name="scaled", scaled=True, desired=0, min=0, max=3)
    found = rehearse(
        replace(single, pools=(scaled, replace(scaled, name="free", numa={}, single_numa=False))),
        (job("five", "a", 0, 10, 5),),
    )
    assert [one.ended for one in found.jobs] == [610]
    assert found.node_seconds[0] == 0


def test_the_numa_nodes_of_a_planned_pool_are_those_of_its_machine() -> None:
    pools = [
        {
            "name": policy,
            "machine_type": "p4de.24xlarge",
            "count": {"desired": 1},
            "workload": "inference",
            "topology": {"policy": policy},
        }
        for policy in ("restricted", "single-numa-node", "best-effort")
    ]
    plan = plan_platform(
        {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": pools, "teams": []}, "test"
    )
    assert isinstance(plan, EnvironmentPlan)
    found = stack_of(plan, load_catalog())
    assert [(one.numa, one.single_numa) for one in found.platform.pools] == [
        ({GPU: (4, 4)}, False),
        ({GPU: (4, 4)}, True),
        ({}, False),
    ]
    assert "the kubelets of pools restricted, single-numa-node align GPUs" in "\n".join(found.assumptions)


@settings(max_examples=size(60, 2000), deadline=None)
@given(
    st.sampled_from([(4, 4), (2, 2, 2, 2), (1, 3)]),
    st.booleans(),
    st.lists(st.one_of(st.integers(1, 6), st.integers(-6, -1)), max_size=14),
)
def test_units_are_given_as_the_simulated_kubelet_gives_them(
    whole: tuple[int, ...], single: bool, steps: list[int]
) -> None:
    """The rehearsal assigns GPUs to NUMA nodes in the same way as the simulated kubelet. The rehearsal and the
    kubelet do not share code.

    A positive number in `steps` starts a pod that requests this number of GPUs. A negative number ends a pod.
    """
    by_node = dict(enumerate(whole))
    node = AlignedNode(
        policy="single-numa-node" if single else "restricted",
        scope="container",
        present={"cpu": dict.fromkeys(by_node, 8), GPU: by_node},
        usable={"cpu": dict.fromkeys(by_node, 8), GPU: by_node},
    )
    units, running = NumaUnits(whole, 1, single=single), dict[Job, Held]()
    for number, step in enumerate(steps):
        if step < 0:
            if running:
                ended = list(running)[step % len(running)]
                units.give_back(ended, 0)
                del running[ended]
            continue
        pod = {"spec": {"containers": [{"resources": {"limits": {GPU: str(step)}}}]}, "status": {}}
        got = admit(pod, node, running.values())
        assert units.fits(0, step) is not isinstance(got, Rejection)
        if not isinstance(got, Rejection):
            one = Job(job(f"j{number}", "a", 0, 1, step), number, 0)
            units.take(one, 0, step, 1)
            running[one] = got

"""Every placement proves that the pods fit, and every conflict is minimal. A search through all placements
confirms both.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings

from gpu_platform.planning.capacity import NodeCapacity, PodGroup, prove
from gpu_platform.planning.capacity.conflict import smallest_conflict
from tests.planning.capacity_cases import CASES, assert_placed_within, fits_by_trying_all, pods, room
from tests.support.size import size

Case = tuple[list[NodeCapacity], list[PodGroup]]


@settings(max_examples=size(25, 750))
@given(CASES)
def test_a_proof_agrees_with_trying_every_placement_and_never_overfills_a_node(case: Case) -> None:
    rooms, groups = case
    found = prove(rooms, groups)
    assert found.verdict == ("placed" if fits_by_trying_all(rooms, groups) else "impossible")
    if found.verdict == "placed":
        assert_placed_within(rooms, groups, found.pods)


@settings(max_examples=size(20, 500))
@given(CASES)
def test_a_conflict_is_real_minimal_and_the_smallest(case: Case) -> None:
    rooms, groups = case
    found = smallest_conflict(rooms, groups)
    if fits_by_trying_all(rooms, groups):
        assert found is None
        return
    assert found is not None
    assert found.minimal
    assert found.smallest
    assert not fits_by_trying_all(rooms, _of(groups, found.owners))
    for left_out in found.owners:
        part = [owner for owner in found.owners if owner != left_out]
        assert fits_by_trying_all(rooms, _of(groups, part))
    for few in combinations([group.owner for group in groups], len(found.owners) - 1):
        assert fits_by_trying_all(rooms, _of(groups, few))


def _of(groups: list[PodGroup], owners: object) -> list[PodGroup]:
    assert isinstance(owners, list | tuple)
    return [group for group in groups if group.owner in owners]


def test_fragmented_gpus_are_a_conflict_even_if_the_sum_suffices() -> None:
    rooms = [room(count=2, gpus=8)]
    groups = [pods("five", 2, units=5), pods("six", 1, units=6), pods("bystander", 1, units=1)]
    found = smallest_conflict(rooms, groups)
    assert found is not None
    assert found.owners == ("five", "six")
    assert found.lacking == (
        "GPUs on one node: the nodes have enough GPUs in total, but pods that request several GPUs do not fit",
    )


def test_a_conflict_names_the_resource_of_which_there_is_too_little_in_all() -> None:
    found = smallest_conflict([room(gpus=8)], [pods("a", 5), pods("b", 2), pods("c", 6)])
    assert found is not None
    assert set(found.owners) == {"a", "c"}
    assert found.lacking == ("gpu of a: 11 requested, 8 available",)


def test_a_conflict_over_cpu_or_memory_says_which() -> None:
    cpu = smallest_conflict([room(gpus=8, cpu=8000)], [pods("a", 1, cpu=6000), pods("b", 1, cpu=3000)])
    memory = smallest_conflict([room(gpus=8)], [pods("a", 1, memory=6000), pods("b", 1, memory=3000)])
    both = smallest_conflict(
        [room(gpus=8, cpu=8000)],
        [pods("a", 1, cpu=6000, memory=6000), pods("b", 1, cpu=3000, memory=3000)],
    )
    assert both is not None
    assert both.lacking == ("CPU and memory on the nodes that have the GPUs",)
    assert cpu is not None
    assert memory is not None
    assert cpu.lacking == ("CPU on the nodes that have the GPUs",)
    assert memory.lacking == ("memory on the nodes that have the GPUs",)


def test_the_smallest_conflict_is_found_where_deletion_fails() -> None:
    """If the owners with the smallest requests were removed first, the conflict would be x and y, although `large`
    by itself does not fit.
    """
    rooms = [room("a", gpus=4), room("b", gpus=8)]
    groups = [
        pods("large", 5, pools=("a",)),
        pods("x", 6, pools=("b",)),
        pods("y", 6, pools=("b",)),
    ]
    found = smallest_conflict(rooms, groups)
    assert found is not None
    assert found.owners == ("large",)
    assert found.smallest


def test_single_gpu_teams_conflict_with_one_team_more_than_gpus() -> None:
    found = smallest_conflict([room(count=4, gpus=8)], [pods(f"t{index}", 1) for index in range(40)])
    assert found is not None
    assert len(found.owners) == 33
    assert found.minimal


def test_a_packing_that_a_plain_one_misses_is_found() -> None:
    rooms = [room(gpus=100, count=2, cpu=12_000)]
    # Pods of 5 + 4 + 3 CPUs fit on each node. Packing the largest pods first leaves no room for the last pod.
    groups = [pods(f"t{index}", 1, cpu=size) for index, size in enumerate((5000, 5000, 4000, 4000, 3000, 3000))]
    found = prove(rooms, groups)
    assert found.verdict == "placed"
    assert_placed_within(rooms, groups, found.pods)


def test_a_thousand_nodes_and_twenty_teams_are_proven_in_a_second_or_two() -> None:
    rooms = [room(count=1000, gpus=8, cpu=96_000, memory=1_000_000)]
    groups = [pods(f"t{index}", 400, cpu=11_000, memory=100_000) for index in range(20)]
    assert prove(rooms, groups).verdict == "placed"


def test_the_smallest_conflict_of_a_hundred_teams_is_found() -> None:
    """A search through every set of 81 teams would take minutes, because there are more than 10^12 such sets."""
    names = [f"pool-{index}" for index in range(50)]
    rooms = [room(name, count=10, gpus=8, cpu=100_000) for name in names]
    groups = [pods(f"t{index}", 50, cpu=12_000 - index, pools=names) for index in range(100)]
    found = smallest_conflict(rooms, groups, seconds=600)
    assert found is not None
    assert (len(found.owners), found.minimal, found.smallest) == (81, True, True)


def test_a_hundred_equal_teams_that_leave_cpu_unused_are_decided() -> None:
    """Only seven pods with 13 CPUs fit on a node with 100 CPUs. So only 1190 of 1200 pods fit, although the nodes
    have enough CPUs in total.
    """
    rooms = [room(f"pool-{index}", count=10, gpus=8, cpu=100_000) for index in range(17)]
    names = [each.pool for each in rooms]
    too_many = [pods(f"t{index}", 12, cpu=13_000, pools=names) for index in range(100)]
    assert prove(rooms, too_many, seconds=5).verdict == "impossible"


def test_places_shared_by_equal_teams_overfill_no_node() -> None:
    # Pods of 5 + 4 + 4 CPUs fit on each node, but packing the largest pods first begins with 5 + 5.
    rooms = [room(gpus=100, count=6, cpu=13_000)]
    groups = [
        pods(f"t{size}-{count}", count, cpu=size)
        for size, counts in ((5000, (2, 4)), (4000, (5, 7)))
        for count in counts
    ]
    found = prove(rooms, groups)
    assert found.verdict == "placed"
    assert_placed_within(rooms, groups, found.pods)


def test_large_requests_for_a_sufficient_resource_do_not_conflict() -> None:
    """The teams request 60 GPUs, but the node has only 40. All requested shares fit on the other node. If teams
    were ordered by the sum of their GPUs and shares, teams with many shares would stay in the conflict, although
    they request few GPUs.
    """
    rooms = [room(gpus=40), room_of_shares()]
    gpus = [pods(f"t{index}", 1 + index % 2) for index in range(40)]
    shares = [
        replace(pods(f"t{index}", 50 - 40 * (index % 2), pools=("b",)), resource="share") for index in range(40)
    ]
    found = smallest_conflict(rooms, [*shares, *gpus])
    assert found is not None
    assert (len(found.owners), found.minimal, found.smallest) == (21, True, True)


def room_of_shares() -> NodeCapacity:
    return replace(room("b", pods=2000), units={"share": 2000}, gpus_each={"share": 0.01})

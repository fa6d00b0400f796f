"""MIG geometry, compared with an enumeration that is independent of the planner's search."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.catalog import Gpu, Mig, load_catalog
from gpu_platform.planning.mig import check_layout
from gpu_platform.planning.mig.layouts import blocked_by, maximal_multisets, maximal_placements
from gpu_platform.planning.mig.solve import mig_parted_document, solve_mig
from tests.support.size import size

GPUS = [gpu for gpu in load_catalog().gpus.values() if gpu.mig is not None]
A100 = load_catalog().gpus["a100-40gb"]


def _mig(gpu: Gpu) -> Mig:
    assert gpu.mig is not None
    return gpu.mig


def _all_placeable(mig: Mig) -> set[tuple[str, ...]]:
    """Return every multiset of profiles that fits a GPU, found by brute force over masks of occupied slices."""
    profiles = {profile.name: profile for profile in mig.profiles}
    reached: set[tuple[tuple[str, ...], int]] = {((), 0)}
    frontier = set(reached)
    while frontier:
        grown: set[tuple[tuple[str, ...], int]] = set()
        for chosen, mask in frontier:
            for name, profile in profiles.items():
                for start in profile.starts:
                    run = ((1 << profile.memory_slices) - 1) << start
                    if not mask & run:
                        grown.add((tuple(sorted((*chosen, name))), mask | run))
        frontier = grown - reached
        reached |= frontier
    legal: set[tuple[str, ...]] = set()
    for chosen, _ in reached:
        counts = Counter(chosen)
        if (
            sum(profiles[name].compute_slices for name in chosen) <= mig.compute_slices
            and all(count <= profiles[name].max_instances for name, count in counts.items())
            and sum(profiles[name].media_engines for name in chosen) <= 1
            and (mig.decoders is None or sum(profiles[name].decoders for name in chosen) <= mig.decoders)
        ):
            legal.add(chosen)
    return legal


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.model)
def test_all_small_layouts_have_the_verdict_of_brute_force(gpu: Gpu):
    legal = _all_placeable(_mig(gpu))
    names = [profile.name for profile in _mig(gpu).profiles]
    wrong = [
        chosen
        for size in range(1, 8)
        for chosen in combinations_with_replacement(names, size)
        if (check_layout(gpu, Counter(chosen)) is None) != (tuple(sorted(chosen)) in legal)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("profiles", "placements", "multisets"),
    [
        (("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"), 19, 14),
        (("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"), 78, 38),
    ],
    ids=["without the double-memory profile", "with it"],
)
def test_an_a100_has_the_published_number_of_maximal_layouts(
    profiles: tuple[str, ...], placements: int, multisets: int
):
    assert len(maximal_placements(_mig(A100), profiles=profiles)) == placements
    assert len(maximal_multisets(_mig(A100), profiles=profiles)) == multisets


def test_two_3g_instances_leave_no_room_and_the_message_says_why():
    found = blocked_by(_mig(A100), {"3g.20gb": 2, "1g.5gb": 1})
    assert found is not None
    placed, blocked = found
    assert [(one.profile, one.start) for one in placed] == [("3g.20gb", 0), ("3g.20gb", 4)]
    assert blocked.profile == "1g.5gb"
    assert {start: held[0].start for start, held in blocked.by_start} == {0: 0, 1: 0, 2: 0, 3: 0, 4: 4, 5: 4, 6: 4}
    assert blocked_by(_mig(A100), {"4g.20gb": 1, "3g.20gb": 1}) is None


@cache
def _legal_on_an_a100_80gb() -> tuple[Counter[str], ...]:
    return tuple(Counter(chosen) for chosen in _all_placeable(_mig(load_catalog().gpus["a100-80gb"])) if chosen)


def _fewest_by_brute_force(demand: dict[str, int]) -> int:
    """Return the minimum number of GPUs. A breadth-first search tries every legal layout for each GPU."""
    legal = _legal_on_an_a100_80gb()
    useful = {tuple((name, min(one[name], demand[name])) for name in demand) for one in legal}
    wanted = tuple(demand.items())
    seen, frontier, gpus = {wanted}, {wanted}, 0
    while not any(all(count == 0 for _, count in left) for left in frontier):
        gpus += 1
        frontier = {
            tuple((name, max(0, count - dict(layout)[name])) for name, count in left)
            for left in frontier
            for layout in useful
        } - seen
        seen |= frontier
    return gpus


@settings(max_examples=size(10, 200))
@given(
    st.dictionaries(st.sampled_from(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb"]), st.integers(1, 4))
)
def test_a_solution_has_as_few_gpus_as_brute_force_finds_and_proves_it(demand: dict[str, int]):
    mig = _mig(load_catalog().gpus["a100-80gb"])
    solution = solve_mig(mig, demand)
    assert len(solution.gpus) == _fewest_by_brute_force(demand)
    assert solution.optimal
    assert Counter(one.profile for gpu in solution.gpus for one in gpu) == Counter(demand)
    for gpu in solution.gpus:
        taken = [place for one in gpu for place in one.slices]
        assert len(taken) == len(set(taken))


@pytest.mark.parametrize("model", ["a100-80gb", "h100-80gb", "a30"])
def test_five_hundred_instances_are_placed_and_the_bound_is_shown(model: str):
    mig = _mig(load_catalog().gpus[model])
    profiles = [profile.name for profile in mig.profiles if not profile.media_engines]
    demand = {name: 500 // len(profiles) + 1 for name in profiles}
    solution = solve_mig(mig, demand)
    assert sum(map(len, solution.gpus)) == sum(demand.values()) >= 500
    assert solution.optimal


def test_gpus_beyond_the_demand_stay_whole_in_the_mig_parted_config():
    solution = solve_mig(_mig(load_catalog().gpus["a100-80gb"]), {"1g.10gb": 14, "3g.40gb": 3})
    configs = mig_parted_document(solution.gpus, 8, "pool")["mig-configs"]
    assert configs["pool-0"] == [
        {"devices": [0, 1], "mig-enabled": True, "mig-devices": {"1g.10gb": 7}},
        {"devices": [2], "mig-enabled": True, "mig-devices": {"3g.40gb": 2}},
        {"devices": [3], "mig-enabled": True, "mig-devices": {"3g.40gb": 1}},
        {"devices": [4, 5, 6, 7], "mig-enabled": False},
    ]

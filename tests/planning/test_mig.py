from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_platform.catalog import Mig, load_catalog
from gpu_platform.planning.mig.geometry import check_layout, place

CATALOG = load_catalog()
MIG_GPUS = [gpu for gpu in CATALOG.gpus.values() if gpu.mig is not None]


def brute_force(mig: Mig, layout: dict[str, int]) -> bool:
    """Return whether a layout fits a GPU. Try every combination of start positions, without any optimisation."""
    named = [mig.profile(name) for name, count in layout.items() for _ in range(count)]
    profiles = [profile for profile in named if profile is not None]
    assert len(profiles) == len(named)
    if sum(p.compute_slices for p in profiles) > mig.compute_slices or sum(p.media_engines for p in profiles) > 1:
        return False
    if mig.decoders is not None and sum(p.decoders for p in profiles) > mig.decoders:
        return False
    for starts in product(*(p.starts for p in profiles)):
        slices = [
            s for p, start in zip(profiles, starts, strict=True) for s in range(start, start + p.memory_slices)
        ]
        if len(slices) == len(set(slices)):
            return True
    return False


@given(st.data())
def test_a_layout_is_legal_exactly_where_brute_force_finds_a_placement(data: st.DataObject) -> None:
    gpu = data.draw(st.sampled_from(MIG_GPUS))
    assert gpu.mig is not None
    names = data.draw(st.lists(st.sampled_from([p.name for p in gpu.mig.profiles]), min_size=1, max_size=5))
    layout = dict(Counter(names))
    assert (place(gpu.mig, layout) is not None) == brute_force(gpu.mig, layout)


@given(st.data())
def test_placed_instances_take_disjoint_slices_at_starts_of_their_profile(data: st.DataObject) -> None:
    gpu = data.draw(st.sampled_from(MIG_GPUS))
    assert gpu.mig is not None
    names = data.draw(st.lists(st.sampled_from([p.name for p in gpu.mig.profiles]), min_size=1, max_size=7))
    placed = place(gpu.mig, dict(Counter(names)))
    if placed is None:
        return
    assert Counter(instance.profile for instance in placed) == Counter(names)
    slices = [s for instance in placed for s in instance.slices]
    assert len(slices) == len(set(slices))
    for instance in placed:
        profile = gpu.mig.profile(instance.profile)
        assert profile is not None
        assert instance.start in profile.starts


@pytest.mark.parametrize(
    ("layout", "legal"),
    [
        ({"1g.10gb": 7}, True),
        ({"4g.40gb": 1, "3g.40gb": 1}, True),
        ({"3g.40gb": 2}, True),
        ({"3g.40gb": 2, "1g.10gb": 1}, False),  # the two 3g instances use all the memory
        ({"1g.10gb": 8}, False),
        ({"2g.20gb": 3, "1g.10gb": 1}, True),
        ({"7g.80gb": 1, "1g.10gb": 1}, False),
        ({"1g.10gb+me": 2}, False),
    ],
)
def test_known_layouts_of_an_a100_80gb(layout: dict[str, int], legal: bool) -> None:
    illegal = check_layout(CATALOG.gpus["a100-80gb"], layout)
    assert (illegal is None) == legal


def test_an_illegal_layout_comes_with_the_nearest_legal_one() -> None:
    illegal = check_layout(CATALOG.gpus["a100-80gb"], {"3g.40gb": 2, "1g.10gb": 1})
    assert illegal is not None
    assert illegal.fix == "3g.40gb x2 is legal"


def test_a_profile_of_another_memory_size_is_named_with_those_that_fit() -> None:
    illegal = check_layout(CATALOG.gpus["a100-80gb"], {"1g.5gb": 7})
    assert illegal is not None
    assert "1g.10gb" in illegal.allowed


def test_a_gpu_without_mig_says_so() -> None:
    illegal = check_layout(CATALOG.gpus["t4"], {"1g.5gb": 1})
    assert illegal is not None
    assert "Tesla T4" in illegal.found

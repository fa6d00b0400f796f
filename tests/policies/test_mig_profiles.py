"""The tables and the placement method of the MIG rules, compared with the catalogue and with the planner."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

import pytest

from gpu_platform.catalog import Gpu, load_catalog
from gpu_platform.planning.mig import place
from policies._mig_profiles import layout_error, mig_tables

MIG_GPUS = [gpu for gpu in load_catalog().gpus.values() if gpu.mig is not None]
each_mig_gpu = pytest.mark.parametrize("gpu", MIG_GPUS, ids=[gpu.model for gpu in MIG_GPUS])


def test_the_guide_and_the_catalogue_know_mig_on_the_same_gpus():
    assert set(mig_tables()) == {gpu.model for gpu in MIG_GPUS}


@each_mig_gpu
def test_the_places_that_follow_from_the_guides_fractions_are_the_catalogues_starts(gpu: Gpu):
    assert gpu.mig is not None
    table = mig_tables()[gpu.model]
    # For RTX PRO 6000, the catalogue has 12 memory slices, and NVIDIA's guide has 4.
    unit = gpu.mig.memory_slices // table.memory_slices
    derived = {
        profile.name: (profile.instances, tuple(_start(mask) * unit for mask in table.places(profile)))
        for profile in table.profiles
    }
    assert derived == {profile.name: (profile.max_instances, profile.starts) for profile in gpu.mig.profiles}


def _start(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


@each_mig_gpu
def test_the_rules_and_the_planner_take_the_same_layouts(gpu: Gpu):
    assert gpu.mig is not None
    table = mig_tables()[gpu.model]
    names = [profile.name for profile in table.profiles]
    held = 0
    for instances in range(1, 5):
        for chosen in combinations_with_replacement(names, instances):
            layout = dict(Counter(chosen))
            assert table.holds(layout) is (place(gpu.mig, layout) is not None), layout
            held += table.holds(layout)
    assert held > len(names)


@pytest.mark.parametrize(
    ("model", "layout", "found", "allowed", "fix"),
    [
        ("a100-80gb", {"1g.5gb": 7}, "profile '1g.5gb' on GPU", "one of 1g.10gb, 1g.10gb+me", "did you mean"),
        (
            "a100-80gb",
            {"1g.20gb": 5},
            "1g.20gb x5 on GPU",
            "at most 4 of 1g.20gb on one GPU",
            "lower the count to 4",
        ),
        (
            "a100-80gb",
            {"3g.40gb": 2, "1g.10gb": 1},
            "3g.40gb x2 + 1g.10gb x1 on GPU",
            "the GPU has 8 memory slices; 1g.10gb takes 1, 3g.40gb takes 4; each starts at a multiple of its size",
            "3g.40gb x2 is legal",
        ),
        ("rtx-pro-6000", {"1g.24gb+me.all": 1, "2g.48gb": 1}, "on GPU", "side by side", "2g.48gb x1 is legal"),
        ("a30", {"4g.24gb": 1, "2g.12gb": 1}, "on GPU", "4 memory slices", "4g.24gb x1 is legal"),
    ],
)
def test_an_illegal_layout_is_explained(model: str, layout: dict[str, int], found: str, allowed: str, fix: str):
    error = layout_error(mig_tables()[model], layout, "GPU")
    assert error is not None
    assert (found in error.found, allowed in error.allowed, fix in error.fix) == (True, True, True), error


@each_mig_gpu
def test_every_layout_that_a_fix_calls_legal_is_legal(gpu: Gpu):
    table = mig_tables()[gpu.model]
    named = 0
    for some in combinations_with_replacement([profile.name for profile in table.profiles], 3):
        error = layout_error(table, Counter(some), gpu.model)
        if error is not None and (fix := error.fix).endswith(" is legal"):
            instances = (one.rpartition(" x") for one in fix.removesuffix(" is legal").split(" + "))
            assert table.holds({name: int(count) for name, _, count in instances}), (some, fix)
            named += 1
    assert named


def test_a_legal_layout_has_no_error():
    assert layout_error(mig_tables()["h100-80gb"], {"4g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}, "GPU") is None

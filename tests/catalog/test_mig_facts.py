"""The MIG facts, compared with a brute-force search over placements that is independent of the planner."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest

from gpu_platform.catalog import Gpu, Mig, MigProfile, load_catalog

MIG_GPUS = [gpu for gpu in load_catalog().gpus.values() if gpu.mig is not None]
Placement = tuple[str, int]
Layout = frozenset[Placement]

each_mig_gpu = pytest.mark.parametrize("gpu", MIG_GPUS, ids=[gpu.model for gpu in MIG_GPUS])


def mig_of(gpu: Gpu) -> Mig:
    assert gpu.mig is not None
    return gpu.mig


def layouts(mig: Mig, profiles: Sequence[MigProfile]) -> Iterator[Layout]:
    """Yield every set of placements of these profiles that fits on one GPU."""
    options = [(profile, start) for profile in profiles for start in profile.starts]

    def grow(
        at: int, taken: frozenset[int], compute: int, engines: int, decoders: int, placed: Layout
    ) -> Iterator[Layout]:
        yield placed
        for index, (profile, start) in enumerate(options[at:], at):
            slices = frozenset(range(start, start + profile.memory_slices))
            compute_now = compute + profile.compute_slices
            engines_now = engines + profile.media_engines
            decoders_now = decoders + profile.decoders
            enough = mig.decoders is None or decoders_now <= mig.decoders
            if not slices & taken and compute_now <= mig.compute_slices and engines_now <= 1 and enough:
                layout = placed | {(profile.name, start)}
                yield from grow(index + 1, taken | slices, compute_now, engines_now, decoders_now, layout)

    return grow(0, frozenset(), 0, 0, 0, frozenset())


def maximal_layouts(mig: Mig, names: Iterable[str]) -> list[Layout]:
    """Return the layouts of the named profiles to which no other instance can be added."""
    profiles = [profile for profile in mig.profiles if profile.name in set(names)]
    fitting = set(layouts(mig, profiles))
    placements = {(profile.name, start) for profile in profiles for start in profile.starts}
    return [
        layout
        for layout in fitting
        if not any(layout | {placement} in fitting for placement in placements - layout)
    ]


def multisets(found: Iterable[Layout]) -> set[frozenset[tuple[str, int]]]:
    return {frozenset(Counter(name for name, _ in layout).items()) for layout in found}


@each_mig_gpu
def test_every_instance_lies_within_the_gpu(gpu: Gpu):
    mig = mig_of(gpu)
    for profile in mig.profiles:
        assert profile.starts == tuple(sorted(set(profile.starts)))
        assert profile.starts[0] == 0
        assert profile.starts[-1] + profile.memory_slices <= mig.memory_slices, profile.name
        assert profile.compute_slices <= mig.compute_slices, profile.name


@each_mig_gpu
def test_most_instances_of_a_profile_is_what_fits_by_placement(gpu: Gpu):
    mig = mig_of(gpu)
    for profile in mig.profiles:
        assert profile.max_instances == max(map(len, layouts(mig, [profile]))), profile.name


@each_mig_gpu
def test_a_media_engine_profile_exists_once_and_copies_its_plain_profile(gpu: Gpu):
    mig = mig_of(gpu)
    for profile in mig.profiles:
        assert profile.media_engines == profile.name.endswith(("+me", "+me.all"))
        if profile.media_engines:
            plain = mig.profile(profile.name.partition("+")[0])
            changes = {
                "name": profile.name,
                "max_instances": 1,
                "media_engines": True,
                "decoders": profile.decoders,
            }
            assert plain is not None
            assert plain.model_copy(update=changes) == profile


@each_mig_gpu
def test_a_profile_name_has_its_compute_slices_and_its_memory(gpu: Gpu):
    mig = mig_of(gpu)
    for profile in mig.profiles:
        name = re.match(r"(\d+)g\.(\d+)gb", profile.name)
        assert name is not None
        share_gib = gpu.memory_mib * profile.memory_slices / mig.memory_slices / 1024
        assert int(name[1]) == profile.compute_slices
        assert abs(int(name[2]) - share_gib) < 1, profile.name


@each_mig_gpu
def test_an_instance_has_no_more_memory_than_its_share_and_not_much_less(gpu: Gpu):
    mig = mig_of(gpu)
    for profile in mig.profiles:
        share = gpu.memory_mib * profile.memory_slices / mig.memory_slices
        assert 0.9 * share <= profile.memory_mib <= share, profile.name


@each_mig_gpu
def test_profile_names_are_unique_and_the_largest_one_takes_the_whole_gpu(gpu: Gpu):
    mig = mig_of(gpu)
    names = [profile.name for profile in mig.profiles]
    largest = max(mig.profiles, key=lambda profile: profile.memory_slices)
    assert len(names) == len(set(names))
    assert (largest.compute_slices, largest.memory_slices) == (mig.compute_slices, mig.memory_slices)


@pytest.mark.parametrize("model", [gpu.model for gpu in MIG_GPUS if mig_of(gpu).compute_slices == 7])
def test_every_seven_slice_gpu_has_the_shapes_of_the_a100(model: str):
    def shapes(of: str) -> list[tuple[object, ...]]:
        mig = mig_of(load_catalog().gpus[of])
        return [(p.compute_slices, p.memory_slices, p.starts, p.max_instances) for p in mig.profiles]

    assert shapes(model) == shapes("a100-40gb")


@pytest.mark.parametrize(
    ("names", "placements", "distinct"),
    [
        (["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"], 19, 14),
        (["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"], 78, 38),
    ],
    ids=["without the profile 1g.10gb", "with it"],
)
def test_the_a100_has_the_published_number_of_maximal_layouts(names: list[str], placements: int, distinct: int):
    found = maximal_layouts(mig_of(load_catalog().gpus["a100-40gb"]), names)
    assert (len(found), len(multisets(found))) == (placements, distinct)


def test_the_rtx_pro_6000_splits_into_quarters_and_halves():
    found = maximal_layouts(mig_of(load_catalog().gpus["rtx-pro-6000"]), ["1g.24gb", "2g.48gb", "4g.96gb"])
    assert multisets(found) == {
        frozenset({("4g.96gb", 1)}),
        frozenset({("2g.48gb", 2)}),
        frozenset({("2g.48gb", 1), ("1g.24gb", 2)}),
        frozenset({("1g.24gb", 4)}),
    }


def test_an_instance_with_all_media_engines_excludes_others_with_any():
    mig = mig_of(load_catalog().gpus["rtx-pro-6000"])
    everything = [
        layout
        for layout in maximal_layouts(mig, [profile.name for profile in mig.profiles])
        if any(name.endswith("+me.all") for name, _ in layout)
    ]
    assert multisets(everything) == {
        frozenset({("1g.24gb+me.all", 1), ("1g.24gb-me", 3)}),
        frozenset({("1g.24gb+me.all", 1), ("1g.24gb-me", 1), ("2g.48gb-me", 1)}),
        frozenset({("2g.48gb+me.all", 1), ("1g.24gb-me", 2)}),
        frozenset({("2g.48gb+me.all", 1), ("2g.48gb-me", 1)}),
    }


@pytest.mark.parametrize("model", ["v100-16gb", "v100-32gb", "t4", "t4g", "a10", "a10g", "l4", "l40s"])
def test_gpus_without_mig_have_no_mig_facts(model: str):
    assert load_catalog().gpus[model].mig is None

"""The contents of the simulated driver's MIG tables, and where the tables differ from the catalogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement

import pytest

from gpu_platform.catalog import Gpu, load_catalog
from gpu_platform.planning.mig import place
from sandbox.nvml import MigTable, mig_table, mig_tables, read_profiles

MIG_GPUS = [gpu for gpu in load_catalog().gpus.values() if gpu.mig is not None]
each_mig_gpu = pytest.mark.parametrize("gpu", MIG_GPUS, ids=[gpu.model for gpu in MIG_GPUS])


def table_of(gpu: Gpu) -> MigTable:
    table = mig_table(gpu.product)
    assert table is not None, gpu.product
    return table


def small_layouts(table: MigTable) -> Iterator[dict[str, int]]:
    """Yield every MIG layout with up to four instances."""
    names = [profile.name for profile in table.profiles]
    for instances in range(1, 5):
        for chosen in combinations_with_replacement(names, instances):
            yield dict(Counter(chosen))


# -- comparison with the catalogue ------------------------------------------------------------------------


def test_the_driver_and_the_catalogue_know_mig_on_the_same_gpus() -> None:
    assert set(mig_tables()) == {gpu.product for gpu in MIG_GPUS}


@each_mig_gpu
def test_the_driver_and_the_catalogue_have_the_same_profiles(gpu: Gpu) -> None:
    assert gpu.mig is not None
    table = table_of(gpu)
    printed = {
        each.name: (
            each.instances,
            each.compute_slices,
            each.size,
            each.starts,
            table.memory_mib(each, gpu.memory_mib),
        )
        for each in table.profiles
    }
    facts = {
        each.name: (each.max_instances, each.compute_slices, each.memory_slices, each.starts, each.memory_mib)
        for each in gpu.mig.profiles
    }
    assert printed.keys() == facts.keys()
    differences = {name: (printed[name], facts[name]) for name in facts if printed[name] != facts[name]}
    assert differences == {}


@each_mig_gpu
def test_the_driver_and_the_planner_take_the_same_layouts(gpu: Gpu) -> None:
    assert gpu.mig is not None
    table = table_of(gpu)
    taken = 0
    for layout in small_layouts(table):
        placed = table.place(layout) is not None
        assert placed is (place(gpu.mig, layout) is not None), layout
        taken += placed
    assert taken > len(table.profiles)


def test_device_filters_find_the_gpus_by_the_same_pci_ids() -> None:
    printed = {product: table.device_id for product, table in mig_tables().items()}
    assert printed == {gpu.product: int(gpu.pci_id, 16) if gpu.pci_id else None for gpu in MIG_GPUS}


# -- the driver's decisions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "starts"),
    [
        ({"4g.40gb": 1, "3g.40gb": 1}, {"4g.40gb": [0], "3g.40gb": [4]}),
        ({"1g.20gb": 1, "3g.40gb": 1}, {"3g.40gb": [0], "1g.20gb": [4]}),
        ({"1g.10gb": 3, "4g.40gb": 1}, {"4g.40gb": [0], "1g.10gb": [4, 5, 6]}),
        ({"7g.80gb": 1}, {"7g.80gb": [0]}),
    ],
)
def test_instances_are_placed_where_the_profile_may_begin(
    layout: dict[str, int], starts: dict[str, list[int]]
) -> None:
    table = mig_table("NVIDIA A100-SXM4-80GB")
    assert table is not None
    placed = table.place(layout)
    assert placed is not None
    found: dict[str, list[int]] = {}
    for instance in placed:
        found.setdefault(instance.profile.name, []).append(instance.start)
    assert found == starts


@pytest.mark.parametrize(
    ("product", "layout", "why"),
    [
        ("NVIDIA A100-SXM4-80GB", {"1g.5gb": 1}, "no profile '1g.5gb' on NVIDIA A100-SXM4-80GB"),
        ("NVIDIA A100-SXM4-80GB", {"1g.10gb": 8}, "1g.10gb x8, at most 7"),
        ("NVIDIA A100-SXM4-80GB", {"4g.40gb": 1, "2g.20gb": 2}, "needs 8 compute slices, but the GPU has 7"),
        ("NVIDIA A100-SXM4-80GB", {"3g.40gb": 2, "1g.10gb": 1}, "no placement on NVIDIA A100-SXM4-80GB"),
        ("NVIDIA A30", {"1g.6gb+me": 1, "2g.12gb+me": 1}, "needs 2 jpeg-engines, but the GPU has 1"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            {"1g.24gb+me.all": 1, "1g.24gb": 1},
            "needs 5 decoders, but the GPU has 4",
        ),
        (
            "NVIDIA RTX PRO 4500 Blackwell Server Edition",
            {"1g.16gb+me.all": 1, "1g.16gb": 1},
            "needs 4 decoders, but the GPU has 3",
        ),
    ],
)
def test_the_driver_says_why_it_refuses_a_layout(product: str, layout: dict[str, int], why: str) -> None:
    table = mig_table(product)
    assert table is not None
    assert why in table.refusal(layout)
    assert table.place(layout) is None


def test_memory_is_what_nvidia_smi_prints_rounded_to_the_drivers_steps() -> None:
    [profile] = read_profiles("1g.24gb  14 4  23.62  1 1 1 0  {0,3,6,9}:3")
    assert (profile.memory_mib, profile.starts, profile.size) == (24192, (0, 3, 6, 9), 3)


@pytest.mark.parametrize("row", ["1g.10gb 19 7 9.50 0 0 0 {0}:1", "1g.10gb 19 7 9.50 0 0 0 0 0:1", "19 7"])
def test_a_row_that_is_not_in_the_printed_form_is_an_error(row: str) -> None:
    with pytest.raises(ValueError, match="not a row of a MIG table"):
        read_profiles(row)


def test_a_gpu_without_mig_has_no_table() -> None:
    assert mig_table("Tesla T4") is None

"""Pods with several GPUs on nodes whose kubelet aligns pods to NUMA nodes, compared with a kubelet model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.capacity import NodeCapacity, PodGroup, prove
from gpu_platform.planning.capacity.conflict import smallest_conflict
from gpu_platform.planning.pools.numa import NumaNodes, Policy
from gpu_platform.planning.teams.alignment_rule import aligned_pools
from tests.planning.capacity_cases import assert_placed_within, pods, room
from tests.planning.conftest import PlanMaker, pool
from tests.support.size import size


def numa_room(gpus: tuple[int, ...], policy: Policy = "restricted", count: int = 1) -> NodeCapacity:
    numa = NumaNodes(policy=policy, gpus=gpus, count=len(gpus), cpus=48, memory_mib=100_000)
    return replace(room(count=count, gpus=sum(gpus), cpu=96_000), numa=numa)


def masks(nodes: int) -> list[frozenset[int]]:
    return [frozenset(mask) for many in range(1, nodes + 1) for mask in combinations(range(nodes), many)]


def after_one(room: NodeCapacity, free: tuple[int, ...], units: int) -> Iterator[tuple[int, ...]]:
    """Yield the free GPUs of each NUMA node after a pod starts, for each choice that the kubelet can make.

    Like the kubelet's source, the model compares masks of NUMA nodes.
    """
    assert room.numa is not None
    all_gpus = room.numa.gpus
    every = masks(len(all_gpus))
    least = min(len(mask) for mask in every if sum(all_gpus[node] for node in mask) >= units)
    if room.numa.policy == "single-numa-node" and least > 1:
        return
    for mask in every:
        if len(mask) == least:
            of_mask = [range((gpus if node in mask else 0) + 1) for node, gpus in enumerate(free)]
            for left in product(*of_mask):
                taken = sum(free[node] - left[node] for node in mask)
                if taken == units:
                    yield tuple(left[node] if node in mask else gpus for node, gpus in enumerate(free))


def fit_one_by_one(room: NodeCapacity, wanted: Sequence[int]) -> bool:
    """Return whether the kubelets of identical nodes can admit all pods, for some choice of GPUs for each pod."""
    assert room.numa is not None
    states = {(room.numa.gpus,) * room.count}
    for units in wanted:
        states = {
            tuple(sorted((*nodes[:index], left, *nodes[index + 1 :])))
            for nodes in states
            for index, free in enumerate(nodes)
            for left in after_one(room, free, units)
        }
    return bool(states)


@settings(max_examples=size(40, 1500), deadline=None)
@given(
    st.sampled_from([(2, 2), (1, 1, 1), (3, 3), (2, 2, 2), (1, 3)]),
    st.sampled_from(["restricted", "single-numa-node"]),
    st.integers(1, 2),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
)
def test_a_proof_agrees_with_kubelets_that_align_gpus_by_numa_nodes(
    gpus: tuple[int, ...], policy: Policy, count: int, drawn: list[tuple[int, int]]
) -> None:
    node = numa_room(gpus, policy, count)
    groups = [pods(f"team-{index}", number, min(units, sum(gpus))) for index, (units, number) in enumerate(drawn)]
    wanted = [group.units for group in groups for _ in range(group.count)]
    if sum(wanted) > sum(gpus) * count:
        wanted, groups = wanted[:1], [replace(groups[0], count=1)]
    found = prove([node], groups)
    assert found.verdict == ("placed" if fit_one_by_one(node, wanted) else "impossible")
    if found.verdict == "placed":
        assert_placed_within([node], groups, found.pods)


def test_three_and_three_and_two_gpus_fit_eight_but_not_four_and_four() -> None:
    groups = [pods("three", 2, units=3), pods("two", 1, units=2)]
    assert prove([room(gpus=8)], groups).verdict == "placed"
    assert prove([numa_room((4, 4))], groups).verdict == "impossible"
    assert prove([numa_room((4, 4), count=2)], groups).verdict == "placed"


def test_a_conflict_over_numa_nodes_says_so() -> None:
    groups: list[PodGroup] = [pods("three", 2, units=3), pods("two", 1, units=2)]
    found = smallest_conflict([numa_room((4, 4))], groups)
    assert found is not None
    assert found.owners == ("three", "two")
    (lacking,) = found.lacking
    assert lacking.startswith("GPUs of one NUMA node: the nodes have enough GPUs, but the kubelet refuses")


def test_pods_larger_than_a_numa_node_start_only_under_restricted() -> None:
    assert prove([numa_room((4, 4))], [pods("five", 1, units=5), pods("three", 1, units=3)]).verdict == "placed"
    five = [pods("five", 1, units=5)]
    assert prove([numa_room((4, 4), "single-numa-node")], five).verdict == "impossible"


def test_units_of_which_gpus_have_different_numbers_are_on_no_numa_node() -> None:
    node = numa_room((4, 4)).numa
    assert node is not None
    assert (node.units(8), node.units(56)) == ((4, 4), (28, 28))
    assert (node.units(7), node.units(12), node.units(0)) == ((), (), ())


def test_admission_refuses_only_for_configured_kubelets_and_whole_gpus(
    make_plan: PlanMaker,
) -> None:
    catalog = load_catalog()
    aligned: dict[str, Any] = {"topology": {"policy": "restricted"}}
    slices = {"mode": "time-slicing", "replicas": 2, "rename": False}
    created = make_plan(pool(**aligned), pool("shared", workload="inference", sharing=slices, **aligned))
    assert list(aligned_pools(created.pools, catalog)) == ["train"]
    existing = make_plan(pool(nodes={"names": ["a"]}, **aligned), cluster={"provider": "existing", "name": "dc"})
    assert existing.pools[0].kubelet is not None
    assert aligned_pools(existing.pools, catalog) == {}

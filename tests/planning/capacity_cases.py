"""Nodes and pods for tests of the capacity planner, and the rules that every placement must satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from hypothesis import strategies as st

from gpu_platform.planning.capacity import NodeCapacity, PodGroup, PodsOnNode
from gpu_platform.planning.nodes.allocatable import NodeResources


def room(
    pool: str = "a", count: int = 1, gpus: int = 4, cpu: int = 8000, memory: int = 8000, pods: int = 110
) -> NodeCapacity:
    return NodeCapacity(
        pool=pool,
        count=count,
        units={"gpu": gpus},
        gpus_each={"gpu": 1.0},
        cpu_millicores=cpu,
        memory_mib=memory,
        pods=pods,
    )


def pods(
    owner: str, count: int, units: int = 1, cpu: int = 0, memory: int = 0, pools: Sequence[str] = ("a",)
) -> PodGroup:
    needs = {pool: NodeResources(cpu, memory) for pool in pools}
    return PodGroup(owner=owner, name="pods", resource="gpu", units=units, count=count, needs=needs)


def assert_placed_within(
    rooms: Sequence[NodeCapacity], groups: Sequence[PodGroup], found: Sequence[PodsOnNode]
) -> None:
    """Check that every pod is placed once, on an existing node, and that no node is overfilled."""
    assert Counter({group: group.count for group in map(_key, groups) if group.count}) == _placed(found)
    by_pool = {each.pool: each for each in rooms}
    for place in {(one.pool, one.node) for one in found}:
        here = [one for one in found if (one.pool, one.node) == place]
        node = by_pool[place[0]]
        assert 0 <= place[1] < node.count
        for name in {one.group.resource for one in here}:
            used = sum(one.pods * one.group.units for one in here if one.group.resource == name)
            assert used <= node.units[name]
        assert sum(one.pods * one.need.cpu_millicores for one in here) <= node.cpu_millicores
        assert sum(one.pods * one.need.memory_mib for one in here) <= node.memory_mib
        assert sum(one.pods for one in here) <= node.pods


@dataclass(frozen=True)
class _Key:
    of: tuple[object, ...]
    count: int = field(compare=False)


def _key(group: PodGroup) -> _Key:
    return _Key((group.owner, group.name, group.resource, group.units), group.count)


def _placed(found: Sequence[PodsOnNode]) -> Counter[_Key]:
    counts: Counter[_Key] = Counter()
    for one in found:
        counts[_key(one.group)] += one.pods
    return counts


def fits_by_trying_all(rooms: Sequence[NodeCapacity], groups: Sequence[PodGroup]) -> bool:
    """Return whether all pods fit, by trying every pod on every node. This is slow but always correct, so the
    tests compare the planner's search with it.
    """
    nodes = [each.pool for each in rooms for _ in range(each.count)]
    by_pool = {each.pool: each for each in rooms}
    single = [group for group in groups for _ in range(group.count)]
    for choice in product(range(len(nodes)), repeat=len(single)):
        if _all_within(nodes, by_pool, single, choice):
            return True
    return False


def _all_within(
    nodes: Sequence[str], by_pool: dict[str, NodeCapacity], single: Sequence[PodGroup], choice: tuple[int, ...]
) -> bool:
    for index, pool in enumerate(nodes):
        here = [group for group, node in zip(single, choice, strict=True) if node == index]
        if any(pool not in group.needs for group in here):
            return False
        limits = by_pool[pool]
        if (
            sum(group.units for group in here) > limits.units["gpu"]
            or len(here) > limits.pods
            or sum(group.needs[pool].cpu_millicores for group in here) > limits.cpu_millicores
            or sum(group.needs[pool].memory_mib for group in here) > limits.memory_mib
        ):
            return False
    return True


_ROOMS = st.lists(
    st.builds(
        room,
        count=st.integers(0, 2),
        gpus=st.integers(1, 4),
        cpu=st.integers(1, 6).map(lambda cores: cores * 1000),
        memory=st.integers(2, 6).map(lambda gib: gib * 1000),
        pods=st.integers(0, 5),
    ),
    min_size=1,
    max_size=2,
).map(lambda rooms: [_renamed(each, "ab"[index]) for index, each in enumerate(rooms)])

_GROUPS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(1, 3),
        st.integers(0, 4).map(lambda cores: cores * 1000),
        st.integers(0, 4).map(lambda gib: gib * 1000),
        st.sampled_from([("a",), ("b",), ("a", "b")]),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda drawn: [
        pods(f"team-{index}", count, units, cpu, memory, pools)
        for index, (count, units, cpu, memory, pools) in enumerate(drawn)
    ]
)

CASES = st.tuples(_ROOMS, _GROUPS)


def _renamed(each: NodeCapacity, pool: str) -> NodeCapacity:
    return room(pool, each.count, each.units["gpu"], each.cpu_millicores, each.memory_mib, each.pods)

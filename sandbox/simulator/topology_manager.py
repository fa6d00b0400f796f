"""The kubelet's Topology Manager: it merges hints about the NUMA nodes of each resource and checks them against a
policy.

This is a second implementation, based on the kubelet's source. The sandbox checks the verdicts of
gpu_platform.planning and therefore does not use them. Source: kubernetes v1.36.3, pkg/kubelet/cm:
topologymanager/policy.go (filterProvidersHints, mergePermutation, HintMerger.compare), policy_restricted.go,
policy_single_numa_node.go, devicemanager/topology_hints.go (generateDeviceTopologyHints),
cpumanager/policy_static.go (generateCPUTopologyHints); read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final, Literal

Policy = Literal["best-effort", "restricted", "single-numa-node"]
POLICIES: Final[Mapping[str, Policy]] = {
    "best-effort": "best-effort",
    "restricted": "restricted",
    "single-numa-node": "single-numa-node",
}
"""Policies that use hints. With the policy `none`, the kubelet requests no hints."""


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes that can meet a request, as a bit mask, or None for any nodes. A `preferred` hint has the minimum
    number of nodes.
    """

    mask: int | None
    preferred: bool


_ANY: Final = Hint(None, preferred=True)
_NONE_POSSIBLE: Final = Hint(None, preferred=False)


def hints_of(
    amount: int, present: Mapping[int, int], free: Mapping[int, int], reusable: Mapping[int, int]
) -> Sequence[Hint]:
    """Return the hints for a request of one resource.

    `present` contains all units by NUMA node, and `free` only the units that are not allocated to any pod.
    `reusable` contains the units that init containers of the same pod used. All reusable units have to be used
    again.
    """
    fewest = len(present)
    possible: list[int] = []
    for nodes in _combinations(present):
        if sum(present[node] for node in nodes) >= amount:
            fewest = min(fewest, len(nodes))
        if any(units and node not in nodes for node, units in reusable.items() if node in present):
            continue
        if sum(free.get(node, 0) + reusable.get(node, 0) for node in nodes) >= amount:
            possible.append(sum(1 << node for node in nodes))
    return [Hint(mask, mask.bit_count() == fewest) for mask in possible]


def merge(policy: Policy, numa_nodes: int, provided: Sequence[Sequence[Hint] | None]) -> tuple[Hint, bool]:
    """Return the best hint for all resources together, and whether the policy admits the container or pod.

    `provided` contains the hints for each resource. None means that the resource has no preference. An empty list
    means that no NUMA nodes can meet the request.
    """
    everywhere = (1 << numa_nodes) - 1
    hints = [[_ANY] if one is None else [*one] or [_NONE_POSSIBLE] for one in provided]
    if policy == "single-numa-node":
        hints = [[hint for hint in one if hint.preferred and _on_one(hint)] for one in hints]
    widest = max((_narrowest(one) for one in hints), default=0)
    merged = [_merged(everywhere, permutation) for permutation in product(*hints)]
    best = min(
        (hint for hint in merged if hint.mask),
        key=lambda hint: _rank(hint, widest),
        default=Hint(everywhere, preferred=False),
    )
    if policy == "single-numa-node" and best.mask == everywhere:
        best = Hint(None, best.preferred)
    return best, best.preferred or policy == "best-effort"


def _combinations(nodes: Collection[int]) -> Iterator[tuple[int, ...]]:
    for number in range(1, len(nodes) + 1):
        yield from combinations(sorted(nodes), number)


def _on_one(hint: Hint) -> bool:
    return hint.mask is None or hint.mask.bit_count() == 1


def _narrowest(hints: Sequence[Hint]) -> int:
    return min((hint.mask.bit_count() for hint in hints if hint.mask is not None), default=0)


def _merged(everywhere: int, permutation: Sequence[Hint]) -> Hint:
    masks = [hint.mask for hint in permutation if hint.mask is not None]
    merged = everywhere
    for mask in masks:
        merged &= mask
    return Hint(merged, all(hint.preferred for hint in permutation) and len(set(masks)) <= 1)


def _rank(hint: Hint, widest: int) -> tuple[bool, bool, int, int]:
    """Return the sort key of a hint. Preferred hints come first, ordered from narrow to wide.

    The other hints follow: first the hints of at most the width `widest`, ordered from wide to narrow, then wider
    hints, ordered from narrow to wide. Among equally wide hints, lower NUMA nodes come first. `widest` is the
    maximum width of the resources' narrowest hints.
    """
    mask = hint.mask or 0
    count = mask.bit_count()
    if hint.preferred:
        return (False, False, count, mask)
    return (True, count > widest, -count if count <= widest else count, mask)

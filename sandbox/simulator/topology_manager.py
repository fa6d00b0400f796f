"""The kubelet's Topology Manager: hints on which NUMA nodes a resource can be, merged and judged by a policy.

A second implementation, after the kubelet's source: the sandbox checks the verdicts of gpu_platform.planning and
takes none from it. Source: kubernetes v1.36.3, pkg/kubelet/cm: topologymanager/policy.go (filterProvidersHints,
mergePermutation, HintMerger.compare), policy_restricted.go, policy_single_numa_node.go,
devicemanager/topology_hints.go (generateDeviceTopologyHints), cpumanager/policy_static.go
(generateCPUTopologyHints); read 2026-11-26.
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
"""Policies that ask for hints; with `none` the kubelet asks nobody."""


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes on which a request can be met, as a bit mask; None: on any. `preferred`: it needs no fewer."""

    mask: int | None
    preferred: bool


_ANY: Final = Hint(None, preferred=True)
_NONE_POSSIBLE: Final = Hint(None, preferred=False)


def hints_of(
    amount: int, present: Mapping[int, int], free: Mapping[int, int], reusable: Mapping[int, int]
) -> Sequence[Hint]:
    """Return the hints for a request of one resource.

    `present`: units by NUMA node, used or not; `free`: those that nobody has; `reusable`: those that init
    containers of the same pod had, all of which are to be used.
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
    """Return the best hint for all resources together, and whether the policy admits what asks for them.

    `provided`: the hints for each resource; None: it has no preference; none at all: it is nowhere possible.
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
    """Return the place of a hint: preferred first, the narrowest of these, then lower NUMA nodes.

    Of hints that are not preferred, the widest of those that are no wider than the resource with the widest
    narrowest hint comes first; then the narrowest.
    """
    mask = hint.mask or 0
    count = mask.bit_count()
    if hint.preferred:
        return (False, False, count, mask)
    return (True, count > widest, -count if count <= widest else count, mask)

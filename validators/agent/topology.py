"""The connections between the GPUs of a node, as in `nvidia-smi topo -m`, and the best-connected sets of GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from validators.agent.snapshot import Snapshot
from validators.agent.together import P2P_OK

SELF = "X"
UNREAD = "?"
LEGEND = """X    this GPU
NV#  over # NVLinks
PIX  over one PCIe bridge
PXB  over several PCIe bridges, not over the CPU's
PHB  over the PCIe bridge of a CPU
NODE over the PCIe bridges of one NUMA node
SYS  over the connection between NUMA nodes
?    not reported"""
# values of nvmlGpuTopologyLevel_t
_LEVELS: Mapping[int, str] = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_RANKS = [UNREAD, "SYS", "NODE", "PHB", "PXB", "PIX"]
_MOST_SETS = 8

Matrix = list[list[str]]


def matrix(snapshot: Snapshot) -> Matrix:
    """Return the connection of each pair of GPUs.

    NVML does not report the number of links in `NV#`. It is computed as the smaller number of active links of the
    two GPUs, if peer access over NVLink works. This is correct if the links lead to switches. GPUs that are
    connected in pairs have fewer links to each other.
    """
    size = len(snapshot.gpus)
    found = [[SELF if row == column else UNREAD for column in range(size)] for row in range(size)]
    links = [sum(gpu.nvlinks.value or ()) for gpu in snapshot.gpus]
    places = {gpu.index: place for place, gpu in enumerate(snapshot.gpus)}
    for one, gpu in enumerate(snapshot.gpus):
        for index, (ancestor, access) in (gpu.peers.value or {}).items():
            two = places[index]
            active = min(links[one], links[two])
            label = f"NV{active}" if active and access == P2P_OK else _LEVELS.get(ancestor, UNREAD)
            found[one][two] = found[two][one] = label
    return found


def best_sets(found: Matrix, size: int) -> list[tuple[int, ...]]:
    """Return the sets of `size` GPUs whose slowest connection is the fastest. If several are equal, their other
    connections decide.
    """
    scores = {
        members: sorted(_rank(found[one][two]) for one, two in combinations(members, 2))
        for members in combinations(range(len(found)), size)
    }
    best = max(scores.values(), default=list[int]())
    return [members for members, score in scores.items() if score == best]


def _rank(label: str) -> int:
    return len(_RANKS) + int(label[2:]) if label.startswith("NV") else _RANKS.index(label)


def as_text(snapshot: Snapshot, expected: Sequence[Sequence[str]] | None = None) -> str:
    """Return the matrix with NUMA nodes, the best sets of 2 and 4 GPUs, and differences from `expected`."""
    found = matrix(snapshot)
    names = [f"GPU{gpu.index}" for gpu in snapshot.gpus]
    rows = [["", *names, "NUMA"]]
    for name, row, gpu in zip(names, found, snapshot.gpus):
        node = gpu.numa_node.value
        rows.append([name, *row, UNREAD if node is None or node < 0 else str(node)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    for size in (2, 4):
        sets = best_sets(found, size) if size <= len(names) else []
        if len(sets) == 1 or (sets and len(sets) < len(list(combinations(names, size)))):
            listed = ", ".join("+".join(map(str, members)) for members in sets[:_MOST_SETS])
            more = f" and {len(sets) - _MOST_SETS} more" if len(sets) > _MOST_SETS else ""
            lines.append(f"best sets of {size} GPUs: {listed}{more}")
        elif sets:
            lines.append(f"best sets of {size} GPUs: all sets are equal")
    return "\n".join([*lines, *_differences(found, expected)])


def _differences(found: Matrix, expected: Sequence[Sequence[str]] | None) -> list[str]:
    if expected is None:
        return []
    if len(expected) != len(found):
        return [f"expected: {len(expected)} GPUs"]
    odd = [
        f"expected: GPU{one} to GPU{two} {expected[one][two]}, not {found[one][two]}"
        for one, two in combinations(range(len(found)), 2)
        if not _agree(expected[one][two], found[one][two])
    ]
    return odd or ["as expected for the machine type"]


def _agree(expected: str, found: str) -> bool:
    """Return whether a label matches the expected label.

    `NODE` matches any connection within a NUMA node, and `?` matches everything.
    """
    near = {"NODE": ("NODE", "PHB", "PXB", "PIX")}
    return expected == UNREAD or found == UNREAD or found in near.get(expected, (expected,))

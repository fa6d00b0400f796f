"""The HTML page of `gpu-platform validate`: nodes by check, findings, differences, topology and earlier runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_platform.base.pages import render_page
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.expectations import expected_matrix
from validators.agent.outcome import FAIL, NOT_APPLICABLE, PASS, UNKNOWN
from validators.report import NodeReport, ValidationReport
from validators.result import CheckResult

_MARKS: Final = {PASS: "✓", FAIL: "✗", UNKNOWN: "?", NOT_APPLICABLE: "·"}
_WORST_FIRST: Final = (FAIL, UNKNOWN, PASS, NOT_APPLICABLE)
# Checks whose observed value should be the same on all nodes of a machine type, whatever the expected value is.
_COMPARED: Final = (
    "driver-version",
    "gpu-product",
    "gpu-memory",
    "gpu-count",
    "firmware",
    "ecc",
    "mig-mode",
    "nvlink-count",
    "pcie-width",
    "pcie-generation",
    "numa-nodes",
)


def validation_page(
    report: ValidationReport, stack: str, catalog: Catalog, earlier: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return the report as one HTML page without external links.

    `earlier` contains JSON reports of earlier runs, oldest first.
    """
    return render_page(
        "gpu_platform.cli",
        "validate_page.html",
        title=f"Validation of stack {stack}",
        report=report,
        marks=_MARKS,
        maps=[_heat_map(report, pool) for pool in dict.fromkeys(node.pool for node in report.nodes)],
        findings=_findings(report),
        odd_ones=odd_ones(report),
        topologies=list(_topologies(report, catalog)),
        runs=list(_runs([*earlier, report.to_json()])) if earlier else [],
    )


def _heat_map(report: ValidationReport, pool: str) -> dict[str, Any]:
    """Return a row for each node of a pool and a column for each check. The worst nodes and checks come first."""
    nodes = [node for node in report.nodes if node.pool == pool]
    nodes.sort(key=lambda node: (_WORST_FIRST.index(node.verdict), node.title))
    checks = list(dict.fromkeys(check.id for node in nodes for check in node.checks))
    used = [check for check in checks if any(_of(node, check)[0] != NOT_APPLICABLE for node in nodes)]
    used.sort(key=lambda check: min(_WORST_FIRST.index(_of(node, check)[0]) for node in nodes))
    rows = {node.title: [_cell(node, check) for check in used] for node in nodes}
    return {"pool": pool, "machine_type": nodes[0].machine_type, "checks": used, "rows": rows}


def _of(node: NodeReport, check: str) -> tuple[str, list[CheckResult]]:
    """Return the worst verdict of a check on a node, and all results of the check."""
    found = [each for each in node.checks if each.id == check]
    verdicts = [each.verdict for each in found]
    return next((verdict for verdict in _WORST_FIRST if verdict in verdicts), NOT_APPLICABLE), found


def _cell(node: NodeReport, check: str) -> tuple[str, str]:
    """Return the worst verdict of a check on a node, and the values that were observed with this verdict."""
    verdict, found = _of(node, check)
    shown = [each for each in found if each.verdict == verdict]
    text = "; ".join(f"{each.device or check}: {each.observed or 'nothing'}" for each in shown)
    return verdict, f"{check}, {text or 'no such check'}"


def _findings(report: ValidationReport) -> Mapping[CheckResult, list[str]]:
    """Return every failed and unknown check result, with the nodes that have it."""
    rows: dict[CheckResult, list[str]] = {}
    for verdict in (FAIL, UNKNOWN):
        for node in report.nodes:
            for check in node.checks:
                if check.verdict == verdict:
                    rows.setdefault(check, []).append(node.title)
    return rows


def odd_ones(report: ValidationReport) -> list[tuple[str, str, str, str, list[str]]]:
    """Return the observed values that differ from the usual value for their machine type.

    Each tuple contains machine type, check, usual value, other value, and the nodes with the other value.
    """
    found: list[tuple[str, str, str, str, list[str]]] = []
    for machine in dict.fromkeys(node.machine_type for node in report.nodes):
        nodes = [node for node in report.nodes if node.machine_type == machine and node.node]
        for check in _COMPARED:
            values = {node.title: text for node in nodes if (text := _observed(node, check))}
            counts = Counter(values.values())
            usual, most = counts.most_common(1)[0] if counts else ("", 0)
            if len(counts) < 2 or most * 2 <= len(values):
                continue
            for value in counts:
                if value != usual:
                    has = [title for title, text in values.items() if text == value]
                    found.append((machine, check, usual, value, has))
    return found


def _observed(node: NodeReport, check: str) -> str:
    parts = [
        f"{each.device}: {each.observed}" if each.device else each.observed
        for each in node.checks
        if each.id == check and each.observed
    ]
    return "; ".join(parts)


def _topologies(report: ValidationReport, catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Yield the data for the topology drawing of each machine type."""
    for name in dict.fromkeys(node.machine_type for node in report.nodes):
        machine = catalog.machine_types.get(name)
        if machine is not None and machine.has_gpus:
            nodes = [node for node in report.nodes if node.machine_type == name and node.node]
            yield {"machine_type": name, "nodes": len(nodes), **_topology(machine, catalog, broken_gpus(nodes))}


def broken_gpus(nodes: Sequence[NodeReport]) -> Counter[int]:
    """Return, for each GPU index, the number of nodes on which a check of that GPU fails."""
    found: Counter[int] = Counter()
    for node in nodes:
        gpus = {gpu for check in node.checks if check.verdict == FAIL for gpu in _gpus(check.device or "")}
        found.update(gpus)
    return found


def _gpus(device: str) -> list[int]:
    """Parse the GPU indexes in a device name such as `GPU 3` or `GPUs 0-2, 4`."""
    if not re.match(r"GPUs? \d", device):
        return []
    runs = [(int(first), int(last or first)) for first, last in re.findall(r"(\d+)(?:-(\d+))?", device)]
    return [gpu for first, last in runs for gpu in range(first, last + 1)]


def _topology(machine: MachineType, catalog: Catalog, broken: Mapping[int, int]) -> dict[str, Any]:
    gpu, matrix = catalog.gpu_of(machine), expected_matrix(machine, catalog)
    count = machine.gpu_count
    switched = count > 1 and matrix[0][1].startswith("NV")
    numa = machine.numa_nodes if machine.numa_nodes is not None else (None,) * count
    link = f"{machine.nvlinks_per_gpu} NVLinks each" if switched else "no NVLink between GPUs"
    return {
        "label": f"{count} {gpu.product}; {link}; PCIe generation {gpu.pcie_generation} x{gpu.pcie_width}",
        "switched": switched,
        "broken": [broken.get(index, 0) for index in range(count)],
        "numa": {node: [index for index, each in enumerate(numa) if each == node] for node in numa},
    }


def _runs(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
    """Yield each run with the nodes whose verdict differs from the verdict in the previous run."""
    before: dict[str, str] | None = None
    for run in runs:
        verdicts = {node["node"]: node["verdict"] for node in run["nodes"] if node["node"]}
        changed = [
            f"{name}: {before.get(name, 'new')} → {verdict}"
            for name, verdict in verdicts.items()
            if before is not None and before.get(name) != verdict
        ]
        yield run, changed + [f"{name}: gone" for name in before or {} if name not in verdicts]
        before = verdicts

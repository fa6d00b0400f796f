"""The HTML page of `gpu-platform validate`: nodes by checks, what is wrong, what differs, topology, runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from gpu_platform.base.html_page import html_page
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.expectations import expected_matrix
from validators.agent.outcome import FAIL, NOT_APPLICABLE, PASS, UNKNOWN
from validators.report import NodeReport, ValidationReport
from validators.result import CheckResult

_MARKS: Final = {PASS: "✓", FAIL: "✗", UNKNOWN: "?", NOT_APPLICABLE: "·"}
_WORST_FIRST: Final = (FAIL, UNKNOWN, PASS, NOT_APPLICABLE)
# Of the checks whose observed value should be the same on all nodes of a machine type, whatever is expected.
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
_STYLE: Final = (
    "body{max-width:90rem}.scroll{overflow-x:auto}.wide{min-width:52rem;width:100%}"
    ".wide td:first-child{white-space:nowrap}"
    "h1,h2,h3,td{overflow-wrap:anywhere}"
    ".map td,.map th{padding:0;border:1px solid rgba(128,128,128,.3)}.map td{width:1.9rem;min-width:1.9rem;"
    "height:1.7rem;text-align:center;font-weight:600}.map th.node{padding:0 .6rem;white-space:nowrap;"
    "position:sticky;left:0;background:Canvas;color:CanvasText;font-weight:400}"
    ".map th.check{height:11rem;vertical-align:bottom;"
    "font-weight:400}.map th.check span{writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap;"
    "padding:.3rem 0}.pass{background:#1b7f4b;color:#fff}.fail{background:#c62f3b;color:#fff}"
    ".unknown{background:#e5b94b;color:#222}.not-applicable{background:rgba(128,128,128,.16)}"
    ".key span{display:inline-block;min-width:1.6em;text-align:center;margin-right:.3em;font-weight:600}"
    ".key{display:inline-block;margin-right:1.2em}.verdict{padding:.1em .6em;font-weight:600;white-space:nowrap}"
    "svg{max-width:100%;height:auto;display:block}svg text{font:13px system-ui,sans-serif;fill:currentColor}"
    "svg .box{fill:rgba(128,128,128,.12);stroke:currentColor;stroke-opacity:.5}svg .bad{fill:#c62f3b}"
    "svg .bad+text{fill:#fff}svg .nvlink{stroke:#4477aa;stroke-width:3}svg .pcie{stroke:currentColor;"
    "stroke-opacity:.4;stroke-width:1.5}:root{color-scheme:light dark}"
)
_BOX: Final = 76  # width of a GPU in the drawing
_GAP: Final = 14
_TOP: Final = 28
_LEAST_WIDTH: Final = 620  # of a drawing: its caption is that long


def validation_page(
    report: ValidationReport, stack: str, catalog: Catalog, earlier: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return the report as one HTML page without links to anything outside.

    `earlier`: JSON reports of earlier runs, oldest first.
    """
    title = f"Validation of stack {stack}"
    body = "\n".join(
        (
            f"<h1>{escape(title)}</h1>",
            f"<p>{_badge(report.verdict)} {escape(report.time)}</p>",
            "<h2>Nodes and checks</h2>",
            *_legend(),
            *_heat_map(report),
            *_findings(report),
            *_odd_ones(report),
            *_topologies(report, catalog),
            *_history(report, earlier),
        )
    )
    return html_page(title, body + "\n", _STYLE)


def _badge(verdict: str) -> str:
    return f'<span class="verdict {verdict}">{escape(verdict)}</span>'


def _legend() -> Iterator[str]:
    keys = (
        f'<span class="key"><span class="{verdict}">{_MARKS[verdict]}</span>{verdict.replace("-", " ")}</span>'
        for verdict in _MARKS
    )
    yield f"<p>{''.join(keys)}</p>"


def _heat_map(report: ValidationReport) -> Iterator[str]:
    """Yield a table for each pool with a row for each node and a column for each check, the worst first."""
    for pool in dict.fromkeys(node.pool for node in report.nodes):
        nodes = [node for node in report.nodes if node.pool == pool]
        nodes.sort(key=lambda node: (_WORST_FIRST.index(node.verdict), node.title))
        checks = list(dict.fromkeys(check.id for node in nodes for check in node.checks))
        used = [check for check in checks if any(_of(node, check)[0] != NOT_APPLICABLE for node in nodes)]
        used.sort(key=lambda check: min(_WORST_FIRST.index(_of(node, check)[0]) for node in nodes))
        heads = "".join(f'<th class="check"><span>{escape(check)}</span></th>' for check in used)
        yield f"<h3>Pool {escape(pool)}, {escape(nodes[0].machine_type)}</h3>"
        yield f'<div class="scroll" tabindex="0"><table class="map"><tr><th class="node">node</th>{heads}</tr>'
        for node in nodes:
            cells = "".join(_cell(node, check) for check in used)
            yield f'<tr><th class="node">{escape(node.title)}</th>{cells}</tr>'
        yield "</table></div>"


def _of(node: NodeReport, check: str) -> tuple[str, list[CheckResult]]:
    """Return the worst verdict of a check's results on a node, and the results."""
    found = [each for each in node.checks if each.id == check]
    verdicts = [each.verdict for each in found]
    return next((verdict for verdict in _WORST_FIRST if verdict in verdicts), NOT_APPLICABLE), found


def _cell(node: NodeReport, check: str) -> str:
    verdict, found = _of(node, check)
    shown = [each for each in found if each.verdict == verdict]
    text = "; ".join(f"{each.device or check}: {each.observed or 'nothing'}" for each in shown) or "no such check"
    return f'<td class="{verdict}" title="{escape(f"{check}, {text}")}">{_MARKS[verdict]}</td>'


def _findings(report: ValidationReport) -> Iterator[str]:
    """Yield declared and observed values of everything that needs attention, one row for equal results."""
    rows: dict[CheckResult, list[str]] = {}
    for verdict in (FAIL, UNKNOWN):
        for node in report.nodes:
            for check in node.checks:
                if check.verdict == verdict:
                    rows.setdefault(check, []).append(node.title)
    if not rows:
        return
    yield "<h2>Declared and observed</h2>"
    yield _table_head("Node", "Check", "Declared", "Observed", "Remedy")
    for check, nodes in rows.items():
        source = f"<br><small>{escape(check.source)}</small>" if check.source else ""
        yield (
            f"<tr><td>{escape(', '.join(nodes))}</td><td>{_badge(check.verdict)} {escape(check.name)}</td>"
            f"<td>{escape(check.expected)}{source}</td><td>{escape(check.observed)}</td>"
            f"<td>{escape(check.remediation)}{_replacement(check)}</td></tr>"
        )
    yield "</table></div>"


def _replacement(check: CheckResult) -> str:
    """Return what creates the node anew, as a line of its own."""
    return f"<br><small>To replace the node: {escape(check.replacement)}</small>" if check.replacement else ""


def _table_head(*titles: str) -> str:
    heads = "".join(f"<th>{title}</th>" for title in titles)
    return f'<div class="scroll" tabindex="0"><table class="wide"><tr>{heads}</tr>'


def odd_ones(report: ValidationReport) -> list[tuple[str, str, str, str, list[str]]]:
    """Return machine type, check, usual value, other value and the nodes that have it, where most nodes agree."""
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


def _odd_ones(report: ValidationReport) -> Iterator[str]:
    found = odd_ones(report)
    if not found:
        return
    yield "<h2>Nodes that differ from most of their machine type</h2>"
    yield _table_head("Machine type", "Check", "Most nodes", "Nodes that differ")
    for machine, check, usual, value, nodes in found:
        yield (
            f"<tr><td>{escape(machine)}</td><td>{escape(check)}</td><td>{escape(usual)}</td>"
            f"<td>{escape(', '.join(nodes))}: {escape(value)}</td></tr>"
        )
    yield "</table></div>"


def _topologies(report: ValidationReport, catalog: Catalog) -> Iterator[str]:
    names = dict.fromkeys(node.machine_type for node in report.nodes)
    machines = [catalog.machine_types[name] for name in names if name in catalog.machine_types]
    drawn = [machine for machine in machines if machine.has_gpus]
    if drawn:
        yield "<h2>Topology by machine type</h2>"
    for machine in drawn:
        nodes = [node for node in report.nodes if node.machine_type == machine.name and node.node]
        yield f"<h3>{escape(machine.name)}, {counted(len(nodes), 'node')}</h3>"
        yield from _drawing(machine, catalog, broken_gpus(nodes))


def broken_gpus(nodes: Sequence[NodeReport]) -> Counter[int]:
    """Return for each GPU on how many nodes a check of it fails."""
    found: Counter[int] = Counter()
    for node in nodes:
        gpus = {gpu for check in node.checks if check.verdict == FAIL for gpu in _gpus(check.device or "")}
        found.update(gpus)
    return found


def _gpus(device: str) -> list[int]:
    """Return the GPUs of `GPU 3` or `GPUs 0-2, 4`."""
    if not re.match(r"GPUs? \d", device):
        return []
    runs = [(int(first), int(last or first)) for first, last in re.findall(r"(\d+)(?:-(\d+))?", device)]
    return [gpu for first, last in runs for gpu in range(first, last + 1)]


def _drawing(machine: MachineType, catalog: Catalog, broken: Mapping[int, int]) -> Iterator[str]:
    """Yield a drawing: NVLink switches above the GPUs, NUMA nodes of the CPUs below them."""
    gpu, matrix = catalog.gpu_of(machine), expected_matrix(machine, catalog)
    count = machine.gpu_count
    switched = count > 1 and matrix[0][1].startswith("NV")
    numa = machine.numa_nodes if machine.numa_nodes is not None else (None,) * count
    width = max(count * (_BOX + _GAP) + _GAP, _LEAST_WIDTH)
    height = 232 if switched else 172
    top = _TOP + 60 if switched else _TOP
    link = f"{machine.nvlinks_per_gpu} NVLinks each" if switched else "no NVLink between GPUs"
    label = f"{count} {gpu.product}; {link}; PCIe generation {gpu.pcie_generation} x{gpu.pcie_width}"
    yield f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(label)}">'
    yield f'<text x="{_GAP}" y="16">{escape(label)}</text>'
    if switched:
        span = count * (_BOX + _GAP) - _GAP
        yield f'<rect class="box" x="{_GAP}" y="{_TOP}" width="{span}" height="28"/>'
        yield f'<text x="{_GAP + span / 2}" y="{_TOP + 19}" text-anchor="middle">NVLink switches</text>'
    for index in range(count):
        left = _GAP + index * (_BOX + _GAP)
        middle = left + _BOX / 2
        if switched:
            yield f'<line class="nvlink" x1="{middle}" y1="{_TOP + 28}" x2="{middle}" y2="{top}"/>'
        yield f'<line class="pcie" x1="{middle}" y1="{top + 48}" x2="{middle}" y2="{top + 92}"/>'
        bad = broken.get(index, 0)
        yield f'<rect class="box{" bad" if bad else ""}" x="{left}" y="{top}" width="{_BOX}" height="48"/>'
        yield (
            f'<text x="{middle}" y="{top + (22 if bad else 29)}" text-anchor="middle">GPU {index}'
            + (f'<tspan x="{middle}" dy="16">{counted(bad, "node")}</tspan>' if bad else "")
            + "</text>"
        )
    for node in dict.fromkeys(numa):
        members = [index for index, each in enumerate(numa) if each == node]
        left = _GAP + members[0] * (_BOX + _GAP)
        span = (members[-1] - members[0] + 1) * (_BOX + _GAP) - _GAP
        name = "CPU, NUMA node not known" if node is None else f"NUMA node {node}"
        yield f'<rect class="box" x="{left}" y="{top + 92}" width="{span}" height="34"/>'
        yield f'<text x="{left + span / 2}" y="{top + 114}" text-anchor="middle">{escape(name)}</text>'
    yield "</svg>"


def _history(report: ValidationReport, earlier: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row for each run, with the nodes whose verdict it changed."""
    if not earlier:
        return
    yield "<h2>Runs</h2>"
    yield _table_head("Time", "Verdict", "Pass", "Fail", "Unknown", "Changed nodes")
    before: dict[str, str] | None = None
    for run in [*earlier, report.to_json()]:
        verdicts = {node["node"]: node["verdict"] for node in run["nodes"] if node["node"]}
        changed = [
            f"{name}: {before.get(name, 'new')} → {verdict}"
            for name, verdict in verdicts.items()
            if before is not None and before.get(name) != verdict
        ]
        changed += [f"{name}: gone" for name in before or {} if name not in verdicts]
        counts = "".join(f"<td>{run['summary'][verdict]}</td>" for verdict in (PASS, FAIL, UNKNOWN))
        yield (
            f"<tr><td>{escape(str(run.get('time', '')))}</td><td>{_badge(run['verdict'])}</td>{counts}"
            f"<td>{escape(', '.join(changed)) or 'none'}</td></tr>"
        )
        before = verdicts
    yield "</table></div>"

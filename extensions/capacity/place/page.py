"""The HTML page of `gpu-platform place`: nodes and GPUs as a picture, then what is pending and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from gpu_platform.base.html_page import COLOURS, html_page
from gpu_platform.base.quantity import counted, parse_quantity

_STYLE: Final = (
    "body{max-width:100rem}.nodes{display:flex;flex-wrap:wrap;gap:1rem}"
    ".node{flex:1 1 18rem;max-width:28rem;min-width:0;margin:0;padding:.6rem;border:1px solid #8888}"
    ".node svg{width:100%;height:auto;display:block}.node figcaption{overflow-wrap:anywhere}"
    ".scroll{overflow-x:auto}.key{display:inline-block;min-width:1.6em;text-align:center;color:#000}"
    "svg text{font:11px system-ui,sans-serif}.label{fill:currentColor}.on{fill:#000}"
    ".free{fill:none;stroke:currentColor;stroke-opacity:.5}.bar{fill:currentColor;fill-opacity:.55}"
    "li{overflow-wrap:anywhere}"
)
_CELL: Final = 40
_GAP: Final = 4
_IN_ROW: Final = 8
_WIDTH: Final = _IN_ROW * (_CELL + _GAP) - _GAP


def place_page(document: Mapping[str, Any]) -> str:
    """Return the report as one HTML page without links to anything outside."""
    keys = _keys(document)
    body = "\n".join(
        (
            f"<h1>{escape(_title(document))}</h1>",
            *_summary(document),
            *_picture(document, keys),
            *_legend(document, keys),
            *_pending(document),
            *_moves(document),
            *_figures(document),
            *_notes(document),
        )
    )
    return html_page(_title(document), body + "\n", _STYLE)


def _title(document: Mapping[str, Any]) -> str:
    return f"Placement on stack {document['stack']}"


def _keys(document: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return a short key and a colour for each owner of pods."""
    owners = dict.fromkeys(f"{one['team']}/{one['name']}" for one in document["groups"])
    owners |= dict.fromkeys(pod["owner"] for node in document["nodes"] for pod in node["pods"])
    return {owner: (_letters(index), COLOURS[index % len(COLOURS)]) for index, owner in enumerate(owners)}


def _letters(index: int) -> str:
    return (_letters(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def _summary(document: Mapping[str, Any]) -> Iterator[str]:
    summary = document["summary"]
    start = "the nodes of the plan" if document["start"] == "plan" else "what runs on the cluster now"
    yield (
        f"<p>{summary['placed']} of {counted(summary['pods'], 'pod')} placed, {summary['pending']} pending; "
        f"{counted(summary['nodes'], 'node')}, {counted(summary['gpus'], 'GPU')}, starting from {start}.</p>"
    )


# -- the picture -----------------------------------------------------------------------------------------


def _picture(document: Mapping[str, Any], keys: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    yield "<h2>Nodes and GPUs</h2>"
    for pool in dict.fromkeys(node["pool"] for node in document["nodes"]):
        yield f"<h3>{escape(f'Pool {pool}' if pool else 'Nodes of no pool')}</h3>"
        yield '<div class="nodes">'
        same: dict[str, list[Mapping[str, Any]]] = {}
        for node in document["nodes"]:
            if node["pool"] == pool:
                content = {key: value for key, value in node.items() if key != "name"}
                same.setdefault(json.dumps(content, sort_keys=True), []).append(node)
        for nodes in same.values():
            yield from _node(nodes, keys)
        yield "</div>"


def _node(nodes: Sequence[Mapping[str, Any]], keys: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    node = nodes[0]
    names: str = (
        node["name"] if len(nodes) == 1 else f"{len(nodes)} equal nodes: " + ", ".join(n["name"] for n in nodes)
    )
    rows = -(-len(node["gpus"]) // _IN_ROW)
    height = rows * (_CELL + _GAP) + 2 * 18
    described = f"{names}: {counted(len(node['gpus']), 'GPU')}"
    yield f'<figure class="node"><figcaption>{escape(names)}</figcaption>'
    yield f'<svg viewBox="-1 -1 {_WIDTH + 2} {height + 2}" role="img" aria-label="{escape(described)}">'
    for index, gpu in enumerate(node["gpus"]):
        left, top = index % _IN_ROW * (_CELL + _GAP), index // _IN_ROW * (_CELL + _GAP)
        yield from _gpu(index, gpu, left, top, keys)
    for row, resource in enumerate(("cpu", "memory")):
        yield from _bar(node, resource, rows * (_CELL + _GAP) + row * 18)
    yield "</svg></figure>"


def _gpu(
    index: int, gpu: Mapping[str, Any], left: int, top: int, keys: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """Yield a square of one GPU: a stripe for each unit that it offers, in the colour of its pod."""
    units = max(1, sum(gpu["offered"].values()))
    width = _CELL / units
    title = "; ".join(f"{pod['units']} x {pod['owner']}" for pod in gpu["pods"]) or "free"
    yield f"<g><title>{escape(f'GPU {index}: {title}')}</title>"
    at = 0
    for pod in gpu["pods"]:
        key, colour = keys[pod["owner"]]
        x, wide = left + at * width, pod["units"] * width
        yield f'<rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="{_CELL}" fill="{colour}"/>'
        if wide >= 9 * len(key):
            middle = x + wide / 2
            yield f'<text class="on" x="{middle:.1f}" y="{top + 24}" text-anchor="middle">{escape(key)}</text>'
        at += pod["units"]
    yield f'<rect class="free" x="{left}" y="{top}" width="{_CELL}" height="{_CELL}"/>'
    for unit in range(1, units):
        x = left + unit * width
        yield f'<line class="free" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + _CELL}"/>'
    yield "</g>"


def _bar(node: Mapping[str, Any], resource: str, top: int) -> Iterator[str]:
    """Yield a bar of the requested part of a resource."""
    total = parse_quantity(node["allocatable"].get(resource, "0"))
    free = parse_quantity(node["free"].get(resource, "0"))
    part = float((total - free) / total) if total else 0.0
    wide = _WIDTH - 110
    yield f'<text class="label" x="0" y="{top + 12}">{resource} {part:.0%}</text>'
    yield f'<rect class="bar" x="110" y="{top + 3}" width="{max(0.0, min(1.0, part)) * wide:.1f}" height="10"/>'
    yield f'<rect class="free" x="110" y="{top + 3}" width="{wide}" height="10"/>'


def _legend(document: Mapping[str, Any], keys: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    groups = {f"{one['team']}/{one['name']}": one for one in document["groups"]}
    rows: list[Sequence[str]] = []
    for owner, (key, colour) in keys.items():
        one = groups.get(owner)
        requests = "" if one is None else ", ".join(f"{amount} {name}" for name, amount in one["requests"].items())
        placed = "runs" if one is None else f"{one['placed']} of {one['count']}"
        cells = (escape(owner), escape(requests), placed)
        rows.append((f'<span class="key" style="background:{colour}">{key}</span>', *cells))
    yield from _table(("", "pods", "a pod requests", "placed"), rows)


# -- the rest --------------------------------------------------------------------------------------------


def _pending(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["pending"]:
        return
    yield "<h2>Pending</h2>"
    for one in document["pending"]:
        yield f"<h3>{escape(one['team'])}/{escape(one['name'])}: {counted(one['count'], 'pod')}</h3><ul>"
        yield from (f"<li>{escape(reason['text'])}</li>" for reason in one["reasons"])
        for advice in one["advice"]:
            displaced = ", ".join(f"{count} of {name}" for name, count in advice["displaces"].items())
            but = f"; but then pending: {displaced}" if displaced else ""
            yield f"<li><strong>Helps:</strong> {escape(advice['text'] + but)}</li>"
        if not one["advice"]:
            yield "<li>No single change was found that helps.</li>"
        yield "</ul>"


def _moves(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["moves"]:
        return
    yield "<h2>Moves</h2>"
    yield "<p>Nothing was moved. Cordon the node, then evict the pods; the scheduler chooses their new nodes.</p>"
    yield "<ul>"
    for plan in document["moves"]:
        purpose = f"one more pod of {plan['for']} fits on" if plan["purpose"] == "pod" else "frees all GPUs of"
        moved = "; ".join(f"{one['pod']} ({one['controller']}) to {one['to']}" for one in plan["moves"])
        yield f"<li>{escape(f'{moved}: {purpose} ' + plan['node'])}</li>"
    yield "</ul>"


def _figures(document: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Fragmentation</h2>"
    columns = {
        "free": "free GPUs",
        "unusable": "unusable for these pods",
        "idle": "without any pod",
        "empty_nodes": "empty nodes",
        "largest_pod": "largest pod, GPUs",
        "largest_with_part": "with its CPU and memory",
    }
    rows = [
        (
            escape(one["pool"] or "all"),
            *(f"{round(one['before'][key], 1):g} &rarr; {round(one['after'][key], 1):g}" for key in columns),
        )
        for one in document["fragmentation"]
        if one["before"]["gpus"]
    ]
    yield from _table(("pool", *columns.values()), rows)


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Assumptions</h2><ul>"
    yield from (f"<li>{escape(one)}</li>" for one in document["assumptions"])
    yield from (f"<li>Not placed: {escape(one['name'])}: {escape(one['why'])}</li>" for one in document["skipped"])
    for group in document["groups"]:
        if group["not_simulated"]:
            name = f"{group['team']}/{group['name']}"
            fields: str = ", ".join(group["not_simulated"])
            yield f"<li>Not simulated for {escape(name)}: {escape(fields)}</li>"
    yield "</ul>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield '<div class="scroll"><table><tr>' + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"
        yield from ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
        yield "</table></div>"

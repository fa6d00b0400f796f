"""The HTML page of `gpu-platform place`: a picture of nodes and GPUs, then the pending pods with reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.base.pages import colours_of, render_page
from gpu_platform.base.quantity import parse_quantity

_FIGURES: Final = {
    "free": "free GPUs",
    "unusable": "unusable for these pods",
    "idle": "without any pod",
    "empty_nodes": "empty nodes",
    "largest_pod": "largest pod, GPUs",
    "largest_with_part": "with proportional CPU and memory",
}


def place_page(document: Mapping[str, Any]) -> str:
    """Return the report as a single HTML page without external links."""
    groups = {f"{one['team']}/{one['name']}": one for one in document["groups"]}
    colours = colours_of([*groups, *(pod["owner"] for node in document["nodes"] for pod in node["pods"])])
    return render_page(
        "extensions.capacity.place",
        "page.html",
        title=f"Placement on stack {document['stack']}",
        placement=document,
        groups=groups,
        keys={owner: (_letters(index), colour) for index, (owner, colour) in enumerate(colours.items())},
        pools={pool: _equal_nodes(document, pool) for pool in (node["pool"] for node in document["nodes"])},
        requested=_requested,
        figures=list(_FIGURES.values()),
        fragmentation=[
            (
                one["pool"] or "all",
                *(f"{round(one['before'][key], 1):g} → {round(one['after'][key], 1):g}" for key in _FIGURES),
            )
            for one in document["fragmentation"]
            if one["before"]["gpus"]
        ],
    )


def _letters(index: int) -> str:
    return (_letters(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def _equal_nodes(document: Mapping[str, Any], pool: str) -> list[list[Mapping[str, Any]]]:
    """Return the nodes of a pool, grouped by equal content."""
    same: dict[str, list[Mapping[str, Any]]] = {}
    for node in document["nodes"]:
        if node["pool"] == pool:
            content = {key: value for key, value in node.items() if key != "name"}
            same.setdefault(json.dumps(content, sort_keys=True), []).append(node)
    return list(same.values())


def _requested(node: Mapping[str, Any], resource: str) -> float:
    """Return the fraction of a node's resource that pods request."""
    total = parse_quantity(node["allocatable"].get(resource, "0"))
    free = parse_quantity(node["free"].get(resource, "0"))
    return float((total - free) / total) if total else 0.0

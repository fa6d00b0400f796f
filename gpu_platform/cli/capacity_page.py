"""The HTML page of `gpu-platform capacity`: allocation to teams, pools, cost and waste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_platform.base.pages import COLOURS, HATCHED, render_page
from gpu_platform.cli import capacity_lines

_VERDICTS: Final = {"placed": "pass", "impossible": "fail", "unknown": "unknown"}
_COLOURS: Final = {
    "allocated to teams": COLOURS[0],
    "more than the nodes have": COLOURS[1],
    "not allocated": HATCHED,
}


def capacity_page(document: Mapping[str, Any]) -> str:
    """Return the document of `capacity_document` as one HTML page without external links."""
    return render_page(
        "gpu_platform.cli",
        "capacity_page.html",
        title=f"Capacity of stack {document['stack']}",
        capacity=document,
        lines=capacity_lines,
        verdict=_VERDICTS[document["quotas"]["verdict"]],
        colours=_COLOURS,
        bars=list(_bars(document)),
    )


def _bars(document: Mapping[str, Any]) -> Iterator[tuple[str, str, list[tuple[str, float, str]]]]:
    """Yield the name, the bar label and the bar segments of each resource."""
    for one in (*document["resources"], *document["compute"]):
        allocated, offered = one["allocated"], one["offered"]
        amounts = (min(allocated, offered), max(0, allocated - offered), max(0, offered - allocated))
        parts = [
            (colour, amount / max(allocated, offered), f"{what}: {amount:g}")
            for (what, colour), amount in zip(_COLOURS.items(), amounts, strict=True)
            if amount
        ]
        unit = f" {one['unit']}" if "unit" in one else ""
        yield one["name"], f"{allocated:g} of {offered:g}{unit}", parts

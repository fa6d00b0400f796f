"""The frame of the HTML pages that commands print: one file without links to anything outside."""

from __future__ import annotations

import html
from typing import Final

COLOURS: Final = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#99ddff", "#bbcc33",
)  # fmt: skip
"""Colours that people with colour blindness can tell apart (Paul Tol's bright and light schemes)."""
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.3rem .6rem;text-align:left;"
    "vertical-align:top}pre{background:#f5f5f5;padding:.8rem;overflow-x:auto}code{background:#f5f5f5}"
    ".scroll{overflow-x:auto}a{color:#0b57d0}"
    ":focus-visible{outline:3px solid #e08a00;outline-offset:2px}"
    ":root{color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#eee}pre,code{background:#222}td,th{border-color:#444}"
    "a{color:#8ab4f8}}"
    "@media(max-width:45rem){.scroll::before{content:'scroll sideways \u2194';position:sticky;left:0;"
    "font-size:.8rem}}"
    "@media print{.scroll::before{content:none}}"
    "@media print{:root{color-scheme:light}body{max-width:none;margin:0;background:#fff;color:#000;font-size:11pt}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}pre,code{background:#f5f5f5;white-space:pre-wrap}"
    "figure,tr,pre,svg{break-inside:avoid}h1,h2,h3{break-after:avoid}.scroll{overflow:visible}"
    "td,th{border-color:#999;padding:3pt 4pt;font-size:9.5pt}}"
)


def html_page(title: str, body: str, style: str = "") -> str:
    """Return a page. `title`: text; `body`: HTML, escaped by the caller; `style`: CSS after that of all pages."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}{style}</style>\n'
        f"</head>\n<body>\n<main>\n{_reachable(body)}</main>\n</body>\n</html>\n"
    )


def _reachable(body: str) -> str:
    """Return HTML whose parts that scroll sideways can be reached and scrolled by the keyboard."""
    return body.replace('<div class="scroll">', '<div class="scroll" tabindex="0">').replace(
        "<pre>", '<pre tabindex="0">'
    )

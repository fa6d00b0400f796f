"""Draws the output that a page quotes as an SVG picture of a terminal, for the README."""

from __future__ import annotations

import io
import re
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_BY_HAND = "<!-- output by hand: {command} -->\n```text\n(?P<text>.*?)^```$"
_STYLES: Final = {
    r"(?m)^\$ .*$": "bold",
    r"(?m)^pool .*$": "bold",
    r"\bpass\b(?!ed| )": "bold green",
    r"(?m)^(stack|resources|GPUs|GPU pods|nodes|cost|waste|kubeconfig)(?= )": "cyan",
    r"\b(\d+) of \1\b": "green",
}
# Rich's SVG frame of a terminal without its web font, because a picture must not load anything from other hosts.
_FRAME: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def quoted(page: str, command: str) -> str:
    """Return the output that a page quotes for a command. Raises LookupError if the page has none."""
    match = re.search(_BY_HAND.format(command=re.escape(command)), page, re.DOTALL | re.MULTILINE)
    if match is None:
        raise LookupError(f"no output of {command}")
    return match["text"].rstrip("\n")


def picture(command: str, output: str) -> str:
    """Return an SVG of a terminal that shows a command and its output."""
    text = Text(f"$ {command}\n{output}")
    for pattern, style in _STYLES.items():
        text.highlight_regex(pattern, style)
    width = max(map(len, text.plain.splitlines()))
    console = Console(record=True, width=width, file=io.StringIO(), highlight=False, force_terminal=True)
    console.print(text, soft_wrap=True)
    return console.export_svg(title=command, theme=MONOKAI, code_format=_FRAME, unique_id="terminal")

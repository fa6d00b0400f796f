"""Tables that fit the terminal without breaking words. The least important columns are left out first."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_GAP: Final = 2
_WRAPPED: Final = 24  # minimum width of a column with text of several words


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    A column with `leaves` 0 is shown at every width. The other columns are left out in descending order of
    `leaves`. `wrap` marks text of several words, which may be wrapped to several lines.
    """

    head: str
    leaves: int = 0
    right: bool = False
    wrap: bool = False


def show_text(out: Console, text: str, indent: int = 0) -> None:
    """Print text wrapped to the width of the console, without breaking words.

    `indent` applies after the first line.
    """
    for line in textwrap.wrap(
        text, out.width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    ):
        out.print(line, markup=False)


def show_table(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table with the columns that fit the console, and name the columns that do not fit.

    A column without any value is left out.
    """
    texts = [(column.head, *(row[i] for row in rows)) for i, column in enumerate(columns)]
    widths = [max(map(cell_len, column)) for column in texts]
    least = [min(width, _WRAPPED) if column.wrap else width for column, width in zip(columns, widths, strict=True)]
    shown = [i for i, column in enumerate(texts) if any(column[1:]) or not rows]
    while sum(least[i] + _GAP for i in shown) - _GAP > out.width:
        leaving = [i for i in shown if columns[i].leaves]
        if not leaving:
            break
        shown.remove(max(leaving, key=lambda i: columns[i].leaves))
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for i in shown:
        column = columns[i]
        table.add_column(
            column.head,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.wrap and sum(least[j] + _GAP for j in shown) - _GAP <= out.width,
            min_width=min(least[i], out.width),
        )
    for row in rows:
        table.add_row(*(escape(row[i]) for i in shown))
    out.print(table)
    if hidden := [column.head for i, column in enumerate(columns) if i not in shown and any(texts[i][1:])]:
        out.print(escape(f"(not shown at this width: {', '.join(hidden)}; --format json contains them)"))

"""A CSV table whose cells are read by column. Each mistake is reported with its place."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from extensions.capacity.trace_sources.problems import TraceProblems
from gpu_platform.base.errors import did_you_mean
from gpu_platform.base.quantity import parse_duration, parse_quantity

_MOST_SECONDS = 1e11  # seconds since 1970 until the year 5138


class Row:
    """One line of a table."""

    def __init__(self, number: int, cells: Mapping[str, str], problems: TraceProblems) -> None:
        self.number, self._cells, self._problems = number, cells, problems

    def text(self, column: str) -> str:
        """Return a cell without surrounding blanks, or an empty string if the table has no such column."""
        return self._cells.get(column, "").strip()

    def place(self, column: str) -> str:
        """Return the place of a cell for an error message."""
        return f"row {self.number}, column {column}"

    def add(self, column: str, allowed: str, fix: str = "") -> None:
        """Report an invalid cell."""
        self._problems.add(self.place(column), repr(self.text(column)) or "nothing", allowed, fix)

    def number_at_least(self, column: str, least: float, *, unit: str, whole: bool = False) -> float | None:
        """Return the cell as a number. If it is not an allowed number, record a problem and return None."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < least or (whole and value != int(value)):
            kind = "a whole number" if whole else "a number"
            self.add(column, f"{kind} of {unit}, at least {least:g}")
            return None
        return value

    def time(self, column: str) -> float | None:
        """Return a time in seconds, or None if the cell is invalid and a problem was recorded.

        The cell contains a number of seconds, or a date with a time. Without a time zone, the time is in UTC.
        """
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = seconds_of(text)
        if value is None or not math.isfinite(value) or not 0 <= value <= _MOST_SECONDS:
            self.add(
                column, "a number of seconds, or a date and time such as 2026-03-01 08:30:00", "write one of them"
            )
            return None
        return value

    def seconds(self, column: str) -> float | None:
        """Return a duration in seconds, or None if the cell is invalid and a problem was recorded.

        The cell contains a number of seconds, or a duration such as 1h30m.
        """
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            try:
                value = float(parse_duration(text))
            except ValueError:
                value = math.nan
        if not math.isfinite(value) or value < 0:
            self.add(column, "seconds, at least 0, or a duration such as 1h30m", "write one of them")
            return None
        return value

    def amount(self, column: str, factor: int) -> int | None:
        """Return a Kubernetes quantity times `factor`, rounded up, or None if the cell is empty or invalid."""
        text = self.text(column)
        if not text:
            return None
        try:
            value = int(-(-parse_quantity(text) * factor // 1))
        except ValueError:
            value = -1
        if value < 0:
            self.add(column, "a quantity such as 500m, 8 or 64Gi", "write the request of one pod")
            return None
        return value


def seconds_of(text: str) -> float | None:
    """Return a date and time as seconds since 1970, or None if the string is not a date.

    The default time zone is UTC.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


class Table:
    """A CSV table with a header row."""

    def __init__(self, text: str, problems: TraceProblems) -> None:
        self._reader = csv.reader(io.StringIO(text))
        self._problems = problems
        try:
            self.columns: list[str] = [name.strip() for name in next(self._reader, list[str]())]
        except csv.Error:
            self.columns = []

    def require(self, needed: Sequence[str], optional: Sequence[str], *, strict: bool) -> bool:
        """Report columns that are missing or repeated, and with `strict` also unknown columns. Return whether all
        columns are valid.
        """
        known = [*needed, *optional]
        well = True
        for name in needed:
            if name not in self.columns:
                well = False
                fix = f"add the column {name}"
                self._problems.add("row 1", f"columns {', '.join(self.columns)}", f"a column {name}", fix)
        for name in dict.fromkeys(self.columns):
            if self.columns.count(name) > 1:
                well = False
                self._problems.add("row 1", f"column {name!r} twice", "each column once", "remove one of them")
            elif strict and name not in known:
                well = False
                fix = did_you_mean(name, known) or "remove it"
                self._problems.add("row 1", f"column {name!r}", f"columns {', '.join(known)}", fix)
        return well

    def rows(self) -> Iterator[Row]:
        """Yield the rows that are not empty. A row with the wrong number of cells is reported."""
        try:
            for cells in self._reader:
                if not any(cell.strip() for cell in cells):
                    continue
                number = self._reader.line_num
                if len(cells) != len(self.columns):
                    found, allowed = f"{len(cells)} cells", f"{len(self.columns)}, one for each column"
                    self._problems.add(f"row {number}", found, allowed, "add or remove commas")
                    continue
                yield Row(number, dict(zip(self.columns, cells, strict=True)), self._problems)
        except csv.Error as error:
            self._problems.add(f"row {self._reader.line_num}", str(error), "a CSV table", "correct that row")

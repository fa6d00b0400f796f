"""The order that NumPy's default sort gives to equal values, without NumPy.

pandas sorts a table by a column with it. It is a quicksort, which exchanges equal values: the first, the middle
and the last one of a range are put in order, the middle one divides the range, and ranges of up to 16 are sorted
by insertion. Source: numpy/numpy, numpy/core/src/npysort/quicksort.c.src (aquicksort), before NumPy 1.25, with
which some processors have another one; read 2026-11-26. Left out: the heap sort of ranges divided too often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SMALL: Final = 15


def argsort(values: Sequence[float]) -> list[int]:
    """Return the places of the values in ascending order."""
    places = list(range(len(values)))
    ranges = [(0, len(places) - 1)]
    while ranges:
        first, last = ranges.pop()
        if last - first > _SMALL:
            middle = _divide(values, places, first, last)
            ranges += [(first, middle - 1), (middle + 1, last)]
        elif first < last:
            # Insertion keeps the order of equal values, as sorted() does.
            places[first : last + 1] = sorted(places[first : last + 1], key=values.__getitem__)
    return places


def _divide(values: Sequence[float], places: list[int], first: int, last: int) -> int:
    """Move what is less than a value before it and what is more behind it, and return where it is then."""
    middle = first + (last - first) // 2
    for left, right in ((first, middle), (middle, last), (first, middle)):
        if values[places[right]] < values[places[left]]:
            _exchange(places, left, right)
    value = values[places[middle]]
    low, high = first, last - 1
    _exchange(places, middle, high)
    while True:
        low += 1
        while values[places[low]] < value:
            low += 1
        high -= 1
        while value < values[places[high]]:
            high -= 1
        if low >= high:
            break
        _exchange(places, low, high)
    _exchange(places, low, last - 1)
    return low


def _exchange(places: list[int], left: int, right: int) -> None:
    places[left], places[right] = places[right], places[left]

"""NumPy's default sort, implemented without NumPy. It puts equal values in the same order as NumPy does.

pandas uses this sort to order a table by a column. It is a quicksort, which may change the order of equal values.
It puts the first, the middle and the last value of a range in order, partitions the range at the middle value, and
sorts ranges of up to 16 values by insertion. If a range is divided too often, NumPy uses a heap sort. The heap
sort is not implemented.

Source: numpy/numpy, numpy/core/src/npysort/quicksort.c.src (aquicksort), before NumPy 1.25; read 2026-11-26. Later
versions use another sort on some processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SMALL: Final = 15


def argsort(values: Sequence[float]) -> list[int]:
    """Return the indices of the values in ascending order of the values."""
    places = list(range(len(values)))
    ranges = [(0, len(places) - 1)]
    while ranges:
        first, last = ranges.pop()
        if last - first > _SMALL:
            middle = _divide(values, places, first, last)
            ranges += [(first, middle - 1), (middle + 1, last)]
        elif first < last:
            # Insertion preserves the order of equal values, as sorted() does.
            places[first : last + 1] = sorted(places[first : last + 1], key=values.__getitem__)
    return places


def _divide(values: Sequence[float], places: list[int], first: int, last: int) -> int:
    """Partition a range around the median of its first, middle and last value. Return the median's position."""
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

"""Comparison of versions such as v1.14.1, 580.173.02, 1.18.5-eksbuild.1 or 20260110."""

from __future__ import annotations

import re
from itertools import zip_longest


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version, such as (1, 18, 5) for v1.18.5-eksbuild.1.

    Return an empty tuple if the text does not start with a version.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in match[1].split(".")) if match is not None else ()


def is_older(version: str, other: str) -> bool:
    """Return whether the first version is older than the second. Missing numbers count as 0."""
    pairs = zip_longest(version_numbers(version), version_numbers(other), fillvalue=0)
    return next((first < second for first, second in pairs if first != second), False)

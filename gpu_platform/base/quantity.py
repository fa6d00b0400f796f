"""Parses Kubernetes quantities, memory sizes and durations without importing the Kubernetes client.

`kubernetes.utils.parse_quantity` does the same, but importing it loads the whole client, which takes a third of a
second. A preview does not need the client. Source of the grammar: apimachinery, pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:[eE]([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_quantity(value: str | int | float) -> Decimal:
    """Return the value of a quantity such as `200`, `500m` or `2Ti`. Raises ValueError for any other text."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"not a Kubernetes quantity: {value!r}")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        return Decimal(number).scaleb(int(exponent))
    if suffix is None:
        return Decimal(number)
    if suffix in _BINARY:
        return Decimal(number) * 1024 ** _BINARY[suffix]
    return Decimal(number).scaleb(_DECIMAL[suffix])


def canonical_quantity(text: str) -> str:
    """Return a quantity as Kubernetes writes it: `500m` for `0.5`, `2Gi` for `2048Mi`, `1k` for `1000`. Any other
    text, and a quantity with an exponent, are returned unchanged.

    Source: apimachinery v0.36.3, pkg/api/resource/quantity.go (CanonicalizeBytes), read 2026-11-30.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] is not None:
        return text
    value = parse_quantity(text)
    if match[3] in _BINARY and abs(value) >= 1024:
        units, base, amount = tuple(_BINARY), 1024, math.ceil(value)
    else:
        units, base, amount = tuple(_DECIMAL), 1000, math.ceil(value.scaleb(9))
    suffixes = ["", *units] if base == 1024 else [*units[:3], "", *units[3:]]
    place = 0
    while amount and amount % base == 0 and place < len(suffixes) - 1:
        amount, place = amount // base, place + 1
    return f"{amount}{suffixes[place]}" if amount else "0"


def amount_of(resource: str, quantity: str | int | float) -> int:
    """Return a quantity as a whole number, rounded up. CPU is in millicores, memory is in bytes, and other
    resources are counted.

    Raises ValueError if `quantity` is not a Kubernetes quantity.
    """
    amount = parse_quantity(quantity) * (1000 if resource == "cpu" else 1)
    return int(-(-amount // 1))


def amount_text(resource: str, amount: int) -> str:
    """Return a readable amount of a resource: `47.5` CPUs, `64Gi` of memory, `8` GPUs."""
    if resource == "cpu":
        return f"{amount / 1000:g}"
    return f"{math.ceil(amount / 2**30)}Gi" if resource == "memory" else str(amount)


def parse_memory_mib(value: str) -> int:
    """Return an amount of memory such as `10GB`, `10Gi` or `512MiB` in MiB, rounded up.

    Raises ValueError if the unit is missing.
    """
    text = value.removesuffix("B")
    if not text or text[-1].isdigit() or text[-1] in "num":
        raise ValueError(f"not an amount of memory with a unit: {value!r}")
    return math.ceil(parse_quantity(text) / 2**20)


def bytes_text(size: Decimal | int) -> str:
    """Return a readable number of bytes in the largest suitable binary unit: `2 TiB`, `1.5 GiB`, `512 B`."""
    amount = Decimal(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{round(amount, 1).normalize():f} {unit}"


def counted(count: float, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`, `0.5 GPUs`, `3 classes`."""
    number = str(count) if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" + ("" if count == 1 else "es" if noun.endswith(("s", "x")) else "s")


def duration_text(seconds: float) -> str:
    """Return a readable duration, rounded to seconds: `40 s`, `15 min`, `1 h 30 min`."""
    rest = round(seconds)
    parts: list[str] = []
    for size, unit in ((3600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def duration_value(seconds: int) -> str:
    """Return whole seconds in the format of stack files: `15m`, `1h30m` or `90s`."""
    return duration_text(seconds).replace("min", "m").replace(" ", "")


def parse_duration(value: str) -> int:
    """Return a duration such as `15m`, `1h30m` or `90s` in seconds. Raises ValueError for any other text."""
    match = _DURATION.fullmatch(value)
    if not value or match is None:
        raise ValueError(f"not a duration: {value!r}")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds

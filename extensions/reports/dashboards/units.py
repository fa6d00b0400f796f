"""Formats panel values as text, according to Grafana's unit names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def value_text(value: float, unit: str) -> str:
    """Format a value with its unit, such as `48 %`, `1.2 GB/s` or `3.50 USD`."""
    return UNITS[unit](value)


def _number(value: float) -> str:
    rounded = round(value, 2)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.2f}".rstrip("0")


def _scaled(unit: str) -> Callable[[float], str]:
    def text(value: float) -> str:
        for size, prefix in _PREFIXES:
            if abs(value) >= size:
                return f"{_number(value / size)} {prefix}{unit}"
        return f"{_number(value)} {unit}"

    return text


UNITS: Final[Mapping[str, Callable[[float], str]]] = {
    "short": _number,
    "percentunit": lambda value: f"{_number(value * 100) if abs(value) < 0.1 else f'{value * 100:.0f}'} %",
    "celsius": lambda value: f"{_number(value)} °C",
    "currencyUSD": lambda value: f"{value:,.2f} USD",
    "watt": _scaled("W"),
    "hertz": _scaled("Hz"),
    "Bps": _scaled("B/s"),
}

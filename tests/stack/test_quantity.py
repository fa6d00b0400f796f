from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity as clients_parse_quantity

from gpu_platform.base.quantity import counted, duration_text, parse_duration, parse_quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
NUMBERS = st.one_of(
    st.integers(0, 10**9).map(str), st.decimals(0, 10**6, places=3, allow_nan=False).map(lambda d: f"{d:f}")
)


@given(NUMBERS, st.sampled_from(SUFFIXES))
def test_quantities_mean_what_the_kubernetes_client_says(number: str, suffix: str) -> None:
    assert parse_quantity(number + suffix) == clients_parse_quantity(number + suffix)


@pytest.mark.parametrize("text", ["", "Gi", "2TT", "1 Gi", "0x10", "1.2.3", "ki", "1ki", "½"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("1h1m1s", 3661)])
def test_durations_are_read_in_seconds(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.3, "0 s"), (39.9999, "40 s"), (90, "1 min 30 s"), (900, "15 min"), (5400, "1 h 30 min")],
)
def test_durations_are_written_with_their_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize("text", ["", "15", "m", "15 m", "1m1h", "-5m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "node", "0 nodes"), (1, "node", "1 node"), (2, "GPU", "2 GPUs"), (3, "class", "3 classes")],
)
def test_a_number_has_its_noun_in_singular_or_plural(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text

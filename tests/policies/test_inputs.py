"""How rules read the values of resource inputs, which the Pulumi engine may pass as numbers or as strings."""

from __future__ import annotations

from decimal import Decimal

import pytest

from policies._inputs import Value


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (8, 8),
        (8.0, 8),
        ("8", 8),
        (8.5, None),
        ("8.5", None),
        ("-1", None),
        (True, None),
        ([8], None),
        (None, None),
    ],
)
def test_a_whole_number_is_read_as_number_or_digits(raw: object, number: int | None) -> None:
    assert Value("urn", "count", raw).whole() == number


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        ("1Gi", Decimal(1024**3)),
        ("500m", Decimal("0.5")),
        (2, Decimal(2)),
        ("two", None),
        (True, None),
        ([8], None),
        ({"a": 1}, None),
        (None, None),
    ],
)
def test_a_quantity_is_read_from_numbers_and_texts_alone(raw: object, number: Decimal | None) -> None:
    assert Value("urn", "requests", raw).quantity() == number

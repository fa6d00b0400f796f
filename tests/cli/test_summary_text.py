"""Text results contain whole words and correct plurals, and no empty columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gpu_platform.base.quantity import counted
from gpu_platform.cli.tables import Column, show_table, show_text


def _printed(width: int) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, width=width, soft_wrap=True, highlight=False), written


def test_a_text_is_wrapped_between_words_and_indented() -> None:
    out, written = _printed(30)
    show_text(out, "resources   ConfigMap 3, PodDisruptionBudget 2, [x] 1", 12)
    assert written.getvalue() == (
        "resources   ConfigMap 3,\n            PodDisruptionBudget\n            2, [x] 1\n"
    )


def test_a_column_without_anything_is_left_out() -> None:
    out, written = _printed(80)
    show_table(out, (Column("region"), Column("zones")), [("us-east-1", ""), ("us-east-2", "")])
    assert "zones" not in written.getvalue()


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 GPU"), (1.0, "1 GPU"), (0.5, "0.5 GPUs"), (1234567, "1234567 GPUs")]
)
def test_a_number_has_its_noun(count: float, text: str) -> None:
    assert counted(count, "GPU") == text

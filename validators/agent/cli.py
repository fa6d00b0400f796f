"""The agent's command line."""

from __future__ import annotations
from collections.abc import Sequence
from validators.agent.reading import write_snapshot


def main(arguments: Sequence[str]) -> int:
    write_snapshot()
    return 0

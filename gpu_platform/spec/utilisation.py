"""Reads a file of measured GPU utilisation: for each pool the share of time, 0 to 1."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from gpu_platform.errors import BadInput, Problem, did_you_mean
from gpu_platform.spec._types import DnsLabel
from gpu_platform.spec.load import parse_document, read_yaml_file

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
"""DCGM_FI_PROF_GR_ENGINE_ACTIVE, averaged over the pool's GPUs and several weeks; 0 to 1, not percent."""


@cache
def _adapter() -> TypeAdapter[dict[DnsLabel, Share]]:
    return TypeAdapter(dict[DnsLabel, Share])


def read_utilisation(path: Path, pools: Collection[str]) -> Mapping[str, float]:
    """Read a YAML or JSON file of measured utilisation by pool; raises BadInput with every problem."""
    measured = parse_document(read_yaml_file(path), str(path), _adapter())
    problems = [
        Problem(pool, f"{pool!r}", "a pool of the stack: " + ", ".join(pools), did_you_mean(pool, pools))
        for pool in measured
        if pool not in pools
    ]
    if problems:
        raise BadInput(str(path), problems)
    return measured

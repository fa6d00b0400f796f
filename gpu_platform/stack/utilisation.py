"""Reads a file of measured GPU utilisation. The file contains, for each pool, the share of time that its GPUs are
in use, from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, cast

from pydantic import Field, TypeAdapter

from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.stack._types import DnsLabel
from gpu_platform.stack.load import parse_document, read_yaml_file

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
"""DCGM_FI_PROF_GR_ENGINE_ACTIVE, averaged over the pool's GPUs and over several weeks. The value is from 0 to 1,
not in percent.
"""


@cache
def _adapter() -> TypeAdapter[dict[DnsLabel, Share]]:
    return TypeAdapter(dict[DnsLabel, Share])


def read_utilisation(path: Path, pools: Collection[str]) -> Mapping[str, float]:
    """Read a YAML or JSON file of measured utilisation by pool. Raises BadInput that lists every problem."""
    document = read_yaml_file(path)
    named = map(str, cast("Mapping[object, object]", document)) if isinstance(document, Mapping) else ()
    problems = [
        Problem(pool, f"{pool!r}", "a pool of the stack: " + ", ".join(pools), did_you_mean(pool, pools))
        for pool in named
        if pool not in pools
    ]
    try:
        measured = parse_document(document, str(path), _adapter())
    except BadInput as error:
        wrong = {problem.path for problem in error.problems}
        others = [problem for problem in problems if problem.path not in wrong]
        raise BadInput(str(path), [*error.problems, *others]) from None
    if problems:
        raise BadInput(str(path), problems)
    return measured

"""Questions and fields of `init` for the first stack file of an existing cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.planning.clouds.first_stack import Answers, FirstStack


def _pool(answers: Answers) -> Mapping[str, Any]:
    return {"nodes": {"names": [one.strip() for one in answers["node_names"].split(",") if one.strip()]}}


FIRST_STACK: Final = FirstStack(
    questions=("node_names",),
    machine_type="dgx-h100",
    cluster=lambda _name, _answers: {},
    pool=_pool,
)

"""Questions and fields of `init` for the first stack file of an existing or new GKE cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.planning.clouds.first_stack import Answers, FirstStack


def _cluster(name: str, answers: Answers) -> Mapping[str, Any]:
    create: Mapping[str, Any] = {"create": {}} if answers["cluster"] == "new" else {}
    return {"name": name, "project": answers["project"], "location": answers["region"], **create}


FIRST_STACK: Final = FirstStack(
    questions=("region", "zone", "project"),
    new_cluster=(),
    machine_type="a3-megagpu-8g",
    groups=False,  # GKE authenticates members by their e-mail addresses
    buys_nodes=True,
    cluster=_cluster,
    pool=lambda answers: {"zones": [answers["zone"]]},
)

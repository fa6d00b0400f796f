"""Template for the first stack file of an existing or new EKS cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.planning.clouds.first_stack import Answers, FirstStack


def _cluster(name: str, answers: Answers) -> Mapping[str, Any]:
    create = {"create": {"admins": [answers["admin"]]}} if answers["cluster"] == "new" else {}
    return {"name": name, "region": answers["region"], **create}


FIRST_STACK: Final = FirstStack(
    questions=("region", "zone"),
    new_cluster=("admin",),
    machine_type="p5.48xlarge",
    buys_nodes=True,
    cluster=_cluster,
    pool=lambda answers: {"zones": [answers["zone"]]},
)

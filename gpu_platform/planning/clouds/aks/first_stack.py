"""Questions and fields of `init` for the first stack file of an existing or new AKS cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.planning.clouds.first_stack import Answers, FirstStack

_KUBERNETES: Final = "1.35"


def _cluster(name: str, answers: Answers) -> Mapping[str, Any]:
    create: Mapping[str, Any] = (
        {"kubernetes": _KUBERNETES, "create": {"admins": [answers["admin"]]}}
        if answers["cluster"] == "new"
        else {}
    )
    return {
        "name": name,
        "subscription": answers["subscription"],
        "resource_group": name,
        "region": answers["region"],
        **create,
    }


FIRST_STACK: Final = FirstStack(
    questions=("region", "subscription"),
    new_cluster=("admin",),
    machine_type="Standard_NC24ads_A100_v4",
    groups=False,  # Entra ID groups are object IDs
    buys_nodes=True,
    cluster=_cluster,
    pool=lambda answers: {},
)

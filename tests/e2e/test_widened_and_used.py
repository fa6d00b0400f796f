"""A change to the stack file that both widens a team's rule and uses the wider rule is previewed and applied in
one run.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gpu_platform.deploy.recorded.objects import kubernetes_objects
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from tests.e2e.conftest import Platform

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-base")]

_RUN = {"pool": "train", "image": "registry.example.com/train:1.0", "command": ["python", "run.py"]}
_SMALL = {"cpu": "500m", "memory": "1Gi"}


def _job(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **_RUN, **_SMALL, **fields}


@dataclass(frozen=True, slots=True)
class Widening:
    """Fields of the pool `train` and of the team, before and after a change. Before the change, the new
    objects are refused with a message that contains `refusal`.
    """

    pool: Mapping[str, Any]
    team: Mapping[str, Any]
    wider_pool: Mapping[str, Any]
    wider_team: Mapping[str, Any]
    refusal: str


_NODE = {"machine_type": "p4de.24xlarge"}
_QUOTA = {"gpus": 8}
WIDENINGS = {
    # This case runs first, because the Jobs of other cases are deleted only after the new ones exist.
    "quota.objects.jobs": Widening(
        _NODE,
        {"quota": {**_QUOTA, "objects": {"jobs": 1}}, "training_jobs": [_job("one")]},
        _NODE,
        {"quota": {**_QUOTA, "objects": {"jobs": 2}}, "training_jobs": [_job("one"), _job("two")]},
        "exceeded quota",
    ),
    "machine_type": Widening(
        {"machine_type": "g4dn.xlarge"},
        {"quota": {"gpus": 1}},
        _NODE,
        {"quota": _QUOTA, "training_jobs": [_job("fit", gpus=4)]},
        "gpu-max-per-container",
    ),
    "sharing": Widening(
        {**_NODE, "sharing": {"mode": "time-slicing", "replicas": 2}},
        {"quota": {"shared": 8}},
        _NODE,
        {"quota": _QUOTA, "training_jobs": [_job("fit", gpus=4)]},
        "gpu-max-per-container",
    ),
    "mig": Widening(
        _NODE,
        {"quota": _QUOTA},
        {**_NODE, "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}},
        {"quota": {"mig": {"1g.10gb": 14}}, "training_jobs": [_job("fit", profile="1g.10gb")]},
        "gpu-max-per-container",
    ),
}


def stack(base: Mapping[str, Any], pool: Mapping[str, Any], team: Mapping[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(dict(base))
    found["pools"] = [{"name": "train", "count": {"desired": 1}, "workload": "training", **pool}]
    vision = {key: found["teams"][0][key] for key in ("name", "priority", "members")}
    found["teams"] = [{**vision, **team}]
    return found


@pytest.mark.parametrize("case", WIDENINGS.values(), ids=WIDENINGS)
def test_what_a_change_allows_is_used_in_the_same_run(
    platform: Platform, base: dict[str, Any], case: Widening
) -> None:
    ran = platform.up(stack(base, case.pool, case.team))
    assert ran.code == 0, ran.err
    wider = stack(base, case.wider_pool, case.wider_team)
    file = platform.write(wider)
    refused = [
        refusal.message
        for one in kubernetes_objects(record_stack(load_stack(str(file))).resources)
        if one.key.kind == "Job" and one.key.namespace == "vision"
        for refusal in [platform.client.refusal_of_new(one.manifest)]
        if refusal is not None
    ]
    assert any(case.refusal in one for one in refused), f"the deployed rules do not refuse the new Jobs: {refused}"
    previewed = platform.run("preview", str(file), "--engine", "embedded")
    assert previewed.code == 0, previewed.err
    assert "changes before it" in previewed.out
    ran = platform.up(wider)
    assert ran.code == 0, ran.err

"""Fields that need a gate of new nodes, which AKS does not have."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.stack.loaded import plan_platform

GUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


@pytest.mark.parametrize(
    "field",
    [{"on_failure": "cordon"}, {"node_readiness": True}, {"max_held_percent": 10}],
    ids=["failure", "readiness", "held"],
)
def test_the_fix_names_no_gate(field: dict[str, Any]) -> None:
    cluster = {"provider": "aks", "name": "ml", "subscription": GUID, "resource_group": "ml", "region": "eastus2"}
    pool = {"name": "t4", "machine_type": "Standard_NC4as_T4_v3", "count": {"desired": 1}, "workload": "inference"}
    platform = {"kind": "environment", "cluster": {**cluster, "kubernetes": "1.35"}, "pools": [pool]}
    with pytest.raises(BadInput) as caught:
        plan_platform({**platform, "validation": field}, "test")
    assert [problem.fix for problem in caught.value.problems] == [f"remove {next(iter(field))}"]

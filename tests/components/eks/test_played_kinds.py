"""The played AWS account, which the tests with the Pulumi CLI use, knows every kind of resource of the program."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.eks_stacks import ADMIN, CREATED, EXISTING, record_eks
from tests.support.played_cloud.kinds import kinds

NODE: dict[str, Any] = {"machine_type": "g6.4xlarge", "workload": "inference"}


@pytest.mark.parametrize(
    ("cluster", "rest"),
    [
        (CREATED, {}),
        (EXISTING, {}),
        (CREATED | {"create": {"admins": [ADMIN], "nat": "one"}}, {}),
    ],
)
def test_every_kind_that_the_program_registers_is_known(cluster: dict[str, Any], rest: dict[str, Any]) -> None:
    recorded = record_eks({"zones": ["us-east-2a"]}, {"name": "serve", **NODE}, cluster=cluster, **rest)
    registered = {record.type for record in recorded.resources if record.type.startswith("aws:")}
    assert "aws:eks/nodeGroup:NodeGroup" in registered
    assert registered <= kinds().keys()

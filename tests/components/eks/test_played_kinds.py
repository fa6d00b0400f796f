"""The played AWS account, which the tests with the Pulumi CLI use, knows every kind of resource of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_platform.program import record_stack
from gpu_platform.stacks import LoadedStack, plan_platform
from tests.components.company_shapes import SHAPES, shape
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


@pytest.mark.parametrize("name", SHAPES)
def test_every_kind_of_the_shapes_of_companies_is_known(name: str) -> None:
    platform = shape(name)
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    registered = {one.type for one in record_stack(loaded).resources if not one.external}
    assert {one for one in registered if one.startswith(("aws:", "gcp:"))} <= kinds().keys()

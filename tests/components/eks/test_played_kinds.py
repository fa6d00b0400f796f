"""The simulated AWS account supports every resource kind that the program creates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.company_shapes import SHAPES, shape
from tests.support.eks_stacks import ADMIN, CREATED, EXISTING, record_eks
from tests.support.played_cloud.kinds import kinds
from tests.support.recorded import record_platform

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


@pytest.mark.xdist_group("shapes")  # the same worker as test_company_shapes.py, which has recorded each shape
@pytest.mark.parametrize("name", SHAPES)
def test_every_kind_of_the_shapes_of_companies_is_known(name: str) -> None:
    registered = {one.type for one in record_platform(shape(name)).resources if not one.external}
    assert {one for one in registered if one.startswith(("aws:", "azure:", "gcp:"))} <= kinds().keys()

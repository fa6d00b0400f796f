"""Typical stacks of companies, previewed by the real Pulumi CLI before any of their resources exist.

Every output of the simulated clouds is unknown in these previews, including the addresses of the clusters. The
tests run if `pulumi` and its Kubernetes provider are on PATH (CONTRIBUTING.md), and start no sandbox. Stacks on
existing clusters are not included, because their previews read the cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.components.company_shapes import SHAPES, shape
from tests.e2e.conftest import Platform
from tests.support.played_cloud.cloud import played_cloud
from tests.support.pulumi_cli import NEEDS_PULUMI, environment

CREATED = [name for name, platform in SHAPES.items() if "create" in platform["cluster"]]

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.timeout(5400),
    pytest.mark.xdist_group("pulumi-preview-shapes"),
]


@pytest.mark.parametrize("name", CREATED)
def test_a_shape_previews_all_that_it_registers_as_new_and_creates_nothing(name: str, tmp_path: Path) -> None:
    stack = shape(name)
    folder = tmp_path / "cloud"
    folder.mkdir()
    with played_cloud(folder) as cloud:
        unused: Any = None
        env = {**environment(tmp_path / "backend"), **cloud.env}
        platform = Platform(unused, unused, tmp_path, {}, engine="pulumi", env=env)
        previewed = platform.run("preview", str(platform.write(stack)), "--engine", "pulumi", "--format", "json")
        assert previewed.code == 0, previewed.err
        assert cloud.account.events == []
    counts = previewed.json["changes"]["counts"]
    assert {action for action, count in counts.items() if count} == {"create"}
    loaded = LoadedStack("shop", Path("Pulumi.shop.yaml"), stack, plan_platform(stack, "shop"))
    registered = [
        one for one in record_stack(loaded).resources if one.type.startswith(("aws:", "gcp:", "kubernetes:"))
    ]
    expected = sum(not one.external for one in registered)
    assert counts["create"] >= expected

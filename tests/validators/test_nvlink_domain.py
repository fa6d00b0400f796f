"""All nodes in a pool of rack-scale machines belong to one NVLink domain."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.expectations.section import NodeExpectation
from gpu_platform.stack.loaded import plan_platform
from tests.support.racks import EXISTING, rack
from validators.nvlink import check_domain
from validators.report import ExpectedPool, build_report

RACK = NodeExpectation(
    pool="rack",
    allocatable={},
    labels={},
    nvlink_domain=18,
    one_clique=True,
    sources={"nvidia.com/gpu.clique": "machine type a4x-highgpu-4g"},
)


def nodes(*cliques: str | None) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {
                "name": f"rack-{index}",
                "labels": {"rack": "7", **({"nvidia.com/gpu.clique": clique} if clique else {})},
            }
        }
        for index, clique in enumerate(cliques)
    ]


@pytest.mark.parametrize(
    ("cliques", "verdict", "observed"),
    [
        (("u.0", "u.0", "u.0"), "pass", "3 in u.0"),
        (("u.0", "u.0", "v.0"), "fail", "2 in u.0, 1 in v.0"),
        (("u.0", "u.1"), "fail", "1 in u.0, 1 in u.1"),
        (("u.0", None), "fail", "1 in u.0, 1 without the label"),
        ((None, None), "unknown", "2 without the label"),
    ],
)
def test_nodes_with_one_value_of_the_label_pass(
    cliques: tuple[str | None, ...], verdict: str, observed: str
) -> None:
    result = check_domain(RACK, nodes(*cliques))
    assert result is not None
    assert (result.id, result.verdict, result.observed) == ("nvlink-domain", verdict, observed)
    assert result.source == "machine type a4x-highgpu-4g"
    assert bool(result.remediation) == (verdict != "pass")


def test_empty_pools_and_pools_without_rack_nvlink_have_no_such_check() -> None:
    assert check_domain(RACK, []) is None
    assert check_domain(NodeExpectation(pool="train", allocatable={}, labels={}), nodes("u.0", "v.0")) is None


def planned(**pool: Any) -> EnvironmentPlan:
    plan = plan_platform(rack("existing", pools=[{**EXISTING, **pool}], teams=[]), "test")
    assert plan.kind == "environment"
    return plan


def test_two_racks_in_a_pool_fail_the_pool_in_the_report() -> None:
    (pool,) = planned().pools
    expected = ExpectedPool(
        hardware=pool.expectations, node=pool.node_expectation, selector=pool.node_selector, least=1, most=18
    )
    found = build_report([expected], nodes("u.0", "v.0"), {}).nodes[0]
    assert found.node is None
    assert [(check.id, check.verdict) for check in found.checks] == [("nvlink-domain", "fail")]


def test_the_label_is_expected_where_feature_discovery_runs() -> None:
    assert planned().pools[0].node_expectation.one_clique
    platform = rack("existing", pools=[{**EXISTING, "sharing": {"mode": "dra"}}], teams=[])
    claimed = plan_platform({**platform, "operator": {"toolkit": "host"}}, "test")
    assert isinstance(claimed, EnvironmentPlan)
    assert not claimed.pools[0].node_expectation.one_clique

"""The number of nodes that a pool should have, which depends on the program that creates the nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_platform.base.quantity import counted
from gpu_platform.live.node_reports import collect_report, expected_pool
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.stack.loaded import load_stack
from tests.support.cloud_plans import environment, filled, on_cloud
from validators.result import CheckResult


class Cluster:
    """A fake cluster that contains only `nodes` nodes of the pool `train`."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def objects(self, _version: str, kind: str, **_: str) -> Iterator[Mapping[str, Any]]:
        for index in range(self._nodes if kind == "Node" else 0):
            yield {"metadata": {"name": f"n-{index}", "labels": {"gpu-platform.dev/pool": "train"}}}


def plan_of(least: int, desired: int, most: int, cloud: Any = None) -> EnvironmentPlan:
    cluster = filled(GkeClusterPlan) if isinstance(cloud, GkePoolPlan) else filled(EksClusterPlan)
    plan = on_cloud(environment({"train": desired}), cluster, train=cloud or filled(EksPoolPlan))
    (pool,) = plan.pools
    nodes = dataclasses.replace(pool.nodes, min=least, desired=desired, max=most, vary=least < most)
    return dataclasses.replace(plan, pools=(dataclasses.replace(pool, nodes=nodes),))


def size(plan: EnvironmentPlan, nodes: int) -> CheckResult | None:
    report = collect_report(Cluster(nodes), plan)  # pyrefly: ignore[bad-argument-type]
    return next((check for node in report.nodes if not node.node for check in node.checks), None)


@pytest.mark.parametrize(("found", "verdict"), [(0, "fail"), (1, "fail"), (2, "unknown"), (4, None), (9, "fail")])
def test_a_managed_pool_has_at_least_its_min_and_at_most_its_max(found: int, verdict: str | None) -> None:
    check = size(plan_of(2, 3, 8), found)
    assert (check and check.verdict) == verdict


def test_a_managed_pool_that_may_scale_to_zero_and_has_no_node_is_not_applicable() -> None:
    check = size(plan_of(0, 2, 8), 0)
    assert check is not None
    assert (check.verdict, check.expected) == ("not-applicable", "0 to 8 nodes, an autoscaler sets the node count")


def test_a_managed_pool_of_a_fixed_size_has_exactly_that() -> None:
    for found in (0, 3, 5):
        check = size(plan_of(4, 4, 4), found)
        assert check is not None
        assert (check.verdict, check.expected) == ("fail", "4 nodes")
    assert size(plan_of(4, 4, 4), 4) is None


@pytest.mark.parametrize("stack", ["eks-training", "gke-training"])
def test_a_pool_that_declares_desired_alone_has_exactly_that(stack: str) -> None:
    plan = load_stack(stack).plan
    assert plan.kind == "environment"
    pool = next(one for one in plan.pools if one.name == "train")
    now = datetime(2026, 12, 2, tzinfo=UTC)  # during the capacity block of the stack `eks-training`
    assert expected_pool(pool, now).size == counted(pool.nodes.desired, "node")


@pytest.mark.parametrize(
    ("cloud", "why"),
    [
        (filled(KarpenterPoolPlan), "created by Karpenter for pending pods"),
        (filled(GkePoolPlan, flex_start=True), "created by GKE when it has the capacity"),
    ],
)
def test_nodes_that_come_when_they_are_needed_are_not_missed(cloud: Any, why: str) -> None:
    check = size(plan_of(2, 4, 8, cloud), 0)
    assert check is not None
    assert (check.verdict, check.expected) == ("not-applicable", f"0 to 8 nodes, {why}")
    assert size(plan_of(2, 4, 8, cloud), 1) is None
    too_many = size(plan_of(2, 4, 8, cloud), 9)
    assert too_many is not None
    assert too_many.verdict == "fail"


def test_a_node_without_its_pool_label_is_named_with_the_fix() -> None:
    plan = environment({"train": 2})

    class Relabelled(Cluster):
        def objects(self, _version: str, kind: str, **more: str) -> Iterator[Mapping[str, Any]]:
            yield from super().objects(_version, kind, **more)
            if kind == "Node":
                yield {"metadata": {"name": "n-9", "labels": {"gpu-platform.dev/pool": "x"}}}
            if kind == "ConfigMap":
                labels = {"gpu-platform.dev/validation-report": "train"}
                yield {
                    "metadata": {"name": "node-validation-n-9", "labels": labels},
                    "data": {"report.json": '{"pool": "train"}'},
                }

    report = collect_report(Relabelled(1), plan)  # pyrefly: ignore[bad-argument-type]
    [check] = [check for node in report.nodes if not node.node for check in node.checks]
    assert check.remediation.endswith("kubectl label --overwrite node n-9 gpu-platform.dev/pool=train")


def test_a_sandbox_has_exactly_the_nodes_that_the_program_made() -> None:
    check = size(environment({"train": 2}), 1)
    assert check is not None
    assert (check.verdict, check.expected) == ("fail", "2 nodes")

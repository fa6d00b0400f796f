"""Values of priority classes, compared with the priorities for which autoscalers add nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import burn_in, headroom
from gpu_platform.planning.pools.section import LOWEST_WITH_NODES
from gpu_platform.stack.loaded import plan_platform
from tests.support.eks_stacks import plan_eks, record_eks

GROWS = {"min": 0, "desired": 0, "max": 4}
L4: dict[str, Any] = {"machine_type": "g6.12xlarge", "workload": "inference", "count": GROWS}
GKE = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {}}
G2 = {"machine_type": "g2-standard-48", "zones": ["us-central1-a"]}


def test_a_class_for_whose_pods_no_node_is_added_is_refused_on_eks() -> None:
    with pytest.raises(BadInput, match=r"priorities.spare: found -11; allowed: -10 or more.* pool train"):
        plan_eks(L4, priorities={"spare": LOWEST_WITH_NODES - 1})
    assert plan_eks(L4, priorities={"spare": LOWEST_WITH_NODES})


def test_a_class_for_whose_pods_no_node_is_added_is_refused_on_gke() -> None:
    pool = {"name": "serve", **L4, **G2}
    platform = {"kind": "environment", "cluster": GKE, "pools": [pool], "priorities": {"spare": -11}}
    with pytest.raises(BadInput, match=r"priorities.spare: found -11; allowed: -10 or more"):
        plan_platform(platform, "test")


@pytest.mark.parametrize(
    "pool",
    [{"count": {"desired": 0, "max": 4}, "provisioner": "karpenter"}, {"count": {"desired": 2}}],
    ids=["karpenter", "fixed"],
)
def test_other_pools_have_classes_of_any_value(pool: dict[str, Any]) -> None:
    assert plan_eks(L4 | pool, priorities={"spare": -100})


def test_headroom_adds_nodes_and_the_burn_in_none() -> None:
    program = record_eks(L4 | {"headroom": 1}, validation={"burn_in": {}})
    values = {
        name: program.one("PriorityClass", name).inputs["value"]
        for name in (headroom.PRIORITY_CLASS, burn_in.PRIORITY_CLASS)
    }
    assert values == {"gpu-headroom": LOWEST_WITH_NODES, "gpu-platform-burn-in": -1000}

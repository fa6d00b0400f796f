"""Warnings for workloads whose pods communicate over TCP between nodes that have NICs with RDMA."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.decision import Decision
from tests.planning.conftest import PlanMaker, pool, team
from tests.planning.test_team_workloads import EKS, JOB, ZONE

EXISTING = {"provider": "existing", "kubernetes": "1.36"}
NODES = {"names": ["gpu-0", "gpu-1"]}


def warned(make_plan: PlanMaker, cluster: dict[str, Any], **fields: Any) -> list[Decision]:
    job = {**JOB, "gpus": fields.pop("gpus", 8), "replicas": fields.pop("replicas", 2)}
    one = pool() | {"count": {"desired": 2}, **fields}
    plan = make_plan(one, cluster=cluster, teams=[team(quota={"gpus": 16}, training_jobs=[job])])
    return [one for one in plan.decisions if one.what == "warning: network between nodes"]


def test_a_job_on_existing_rdma_nodes_is_warned_of_tcp(make_plan: PlanMaker) -> None:
    [found] = warned(make_plan, EXISTING, machine_type="dgx-h100", nodes=NODES)
    assert found.chosen == "TCP; the pods use none of the 8 RDMA NICs of dgx-h100"
    assert "docs/existing-clusters.md" in found.why


def test_a_job_on_cloud_nodes_without_their_nics_is_warned_of_tcp(make_plan: PlanMaker) -> None:
    found = warned(make_plan, EKS, machine_type="p5.48xlarge", workload="development", zones=ZONE)
    assert ["network: {rdma: true}" in one.why for one in found] == [True]
    rdma = {"rdma": True}
    assert not warned(make_plan, EKS, machine_type="p5.48xlarge", workload="development", zones=ZONE, network=rdma)


@pytest.mark.parametrize(
    ("cluster", "fields"),
    [
        (EXISTING, {"machine_type": "dgx-h100", "nodes": NODES, "replicas": 1}),
        (EXISTING, {"machine_type": "dgx-h100", "nodes": NODES, "gpus": 4}),
        (EKS, {"machine_type": "p5.48xlarge", "zones": ZONE}),
        (EKS, {"machine_type": "p5.48xlarge", "zones": ZONE, "network": {"rdma": False}}),
        (EKS, {"machine_type": "g5.48xlarge", "zones": ZONE, "network": {"rdma": False}}),
        ({"provider": "sandbox"}, {"machine_type": "dgx-h100"}),
    ],
    ids=["one pod", "half a node", "EFA", "RDMA declined", "slow machine", "sandbox"],
)
def test_jobs_that_cannot_gain_from_rdma_are_not_warned(
    make_plan: PlanMaker, cluster: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert not warned(make_plan, cluster, **fields)

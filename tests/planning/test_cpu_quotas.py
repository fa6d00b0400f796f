"""CPU and memory quotas, compared with the nodes. A quota above the capacity is only a warning, because these
quotas are optional.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.planning.decision import Decision
from gpu_platform.stack.loaded import load_stack, plan_platform
from tests.components.gke.gke_forms import CLUSTER as GKE
from tests.planning.conftest import environment, pool, team

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
ADMIN = "arn:aws:iam::123456789012:role/admin"
CPUS = {"name": "cpu", "workload": "general", "count": {"desired": 2}}


def warnings(
    cluster: dict[str, Any], pools: list[dict[str, Any]], quota: dict[str, Any], **rest: Any
) -> list[str]:
    members = {"members": ["group:a@example.com"]}
    teams = [team(name, quota={"gpus": 4, **quota}, **members) for name in ("a", "b")]
    plan = plan_platform(environment(*pools, cluster=cluster, teams=teams, **rest), "test")
    return [_text(one) for one in plan.decisions if one.what.startswith("warning: quota.")]


def _text(one: Decision) -> str:
    return f"{one.what.removeprefix('warning: ')} {one.chosen}: {one.why.partition(':')[0]}"


def test_on_a_sandbox_quotas_may_have_what_the_pools_have() -> None:
    pools = [pool()]  # 96 CPUs, some of which the DaemonSets request
    assert warnings({"provider": "sandbox"}, pools, {"cpu": 40}) == []
    (found,) = warnings({"provider": "sandbox"}, pools, {"cpu": 50})
    assert found.startswith("quota.cpu 100 in all quotas (a 50, b 50): all nodes together have at most 9")


def test_with_queues_quotas_may_have_what_nodes_without_gpus_have() -> None:
    pools = [pool(), pool(**CPUS, machine_type="m7i.2xlarge")]
    assert warnings({"provider": "sandbox"}, pools, {"cpu": 7, "memory": "28Gi"}, queueing={}) == []
    found = warnings({"provider": "sandbox"}, pools, {"cpu": 8.5, "memory": "40Gi"}, queueing={})
    assert [one.split()[0] for one in found] == ["quota.cpu", "quota.memory"]
    assert all("all nodes without GPUs together" in one for one in found)


@pytest.mark.parametrize(
    ("cluster", "machine", "zone"),
    [
        ({**EKS, "create": {"api_access": ["203.0.113.0/24"], "admins": [ADMIN]}}, "p4de.24xlarge", "us-east-2a"),
        ({**GKE, "create": {}}, "a2-highgpu-8g", "us-central1-a"),
    ],
    ids=["eks", "gke"],
)
def test_system_nodes_of_a_new_cluster_count_at_their_most(
    cluster: dict[str, Any], machine: str, zone: str
) -> None:
    pools = [pool(machine_type=machine, zones=[zone])]
    assert warnings(cluster, pools, {"cpu": 3}, queueing={}) == []
    assert len(warnings(cluster, pools, {"cpu": 100}, queueing={})) == 1


def test_an_existing_cluster_may_have_nodes_that_no_pool_describes() -> None:
    assert warnings(EKS, [pool(zones=["us-east-2a"])], {"cpu": 100_000}, queueing={}) == []


@pytest.mark.parametrize("stack", sorted(path.name.split(".")[1] for path in STACKS_DIR.glob("Pulumi.*.yaml")))
def test_the_quotas_of_shipped_stacks_fit_their_nodes(stack: str) -> None:
    plan = load_stack(stack).plan
    assert [one.chosen for one in plan.decisions if one.what.startswith("warning: quota.")] == []

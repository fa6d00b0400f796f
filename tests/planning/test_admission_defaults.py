"""Defaults that a team's pods receive at admission, for different pools, quotas and Kubernetes versions."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.teams.admission_defaults import PodDefaults
from gpu_platform.planning.teams.admission_mutations import mutations, variables
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import PlanMaker, environment, pool, team
from tests.stack.field_cases import STACKS

SHARED = pool("serve", "g4dn.xlarge", workload="inference", sharing={"mode": "time-slicing", "replicas": 4})
CUT = pool("lab", workload="development", sharing={"mode": "mig", "layout": {"1g.10gb": 7}})
CPU = {"name": "etl", "machine_type": "m7i.4xlarge", "count": {"desired": 1}, "workload": "general"}
WHAT = "defaults of GPU pods"


def defaults(platform: dict[str, Any]) -> PodDefaults | None:
    return plan_platform(platform, "test").teams[0].pod_defaults


def planned(make_plan: PlanMaker, *pools: dict[str, Any], **rest: Any) -> PodDefaults:
    found = make_plan(*pools, teams=[team(**rest)]).teams[0].pod_defaults
    assert found is not None
    return found


def units(found: PodDefaults) -> dict[str, dict[str, tuple[int, int]]]:
    return {
        one.pool: {name: (share.cpu_millicores, share.memory_mib) for name, share in one.units.items()}
        for one in found.shares
    }


@pytest.mark.parametrize(("kubernetes", "wanted"), [("1.35", False), ("1.36", True), (None, True)])
def test_a_sandbox_has_defaults_since_the_api_is_on(kubernetes: str | None, wanted: bool) -> None:
    cluster = {"provider": "sandbox"} | ({} if kubernetes is None else {"kubernetes": kubernetes})
    plan = plan_platform(environment(pool(), teams=[team()], cluster=cluster), "test")
    (decision,) = [one for one in plan.decisions if one.what == WHAT]
    assert (plan.teams[0].pod_defaults is not None) == wanted
    assert (decision.chosen != "none") == wanted
    assert wanted or "MutatingAdmissionPolicy has been on by default since 1.36" in decision.why


@pytest.mark.parametrize(("kubernetes", "wanted"), [("1.34", False), ("1.36", True), (None, False)])
@pytest.mark.parametrize("cloud", ["existing", "gke"])
def test_a_cluster_of_unknown_or_old_version_has_no_defaults(
    cloud: str, kubernetes: str | None, wanted: bool
) -> None:
    stack = STACKS[cloud]
    cluster = {key: value for key, value in stack["cluster"].items() if key != "kubernetes"}
    if kubernetes is not None:
        cluster["kubernetes"] = kubernetes
    plan = plan_platform({**stack, "cluster": cluster}, "test")
    (decision, *_) = [one for one in plan.decisions if one.what == WHAT]
    assert (plan.teams[0].pod_defaults is not None) == wanted
    assert kubernetes is not None or "declare the version as cluster.kubernetes" in decision.why


def test_a_stack_of_cpu_pools_alone_decides_nothing_about_gpu_pods(make_plan: PlanMaker) -> None:
    plan = make_plan(CPU, teams=[team(quota={"cpu": 4})])
    assert plan.teams[0].pod_defaults is None
    assert WHAT not in [one.what for one in plan.decisions]


def test_a_gpu_pod_gets_its_share_of_the_node_without_daemonsets(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(), teams=[team(quota={"gpus": 8})])
    found = plan.teams[0].pod_defaults
    assert found is not None
    node = plan.pools[0]
    share = ((node.cpu_millicores - 50) // 8, node.memory_mib * 9 // 10 // 8)
    assert units(found) == {"train": {"nvidia.com/gpu": share}}
    assert found.cpu_limit_millicores == node.cpu_millicores
    assert found.priority_class == "training"


def test_huge_pages_of_nodes_with_efa_are_not_divided() -> None:
    eks = STACKS["eks"]
    cluster = {**eks["cluster"], "kubernetes": "1.36"}
    plan = plan_platform({**eks, "cluster": cluster, "teams": [team(quota={"gpus": 8})]}, "test")
    found = plan.teams[0].pod_defaults
    assert found is not None
    assert plan.kind == "environment"
    shares = units(found)
    with_efa = [one for one in plan.pools if one.cloud_nodes.network_requests]
    assert with_efa
    for one in with_efa:
        (share,) = shares[one.name].values()
        assert share[1] == int((one.memory_mib * 0.9 - 10256) / one.gpus_per_node)


def test_pods_with_shares_and_instances_get_the_part_of_their_gpu(make_plan: PlanMaker) -> None:
    found = planned(make_plan, SHARED, CUT, quota={"shared": 4})
    assert units(found)["serve"]["nvidia.com/gpu.shared"][0] == (3920 - 50) // 4
    assert units(found)["lab"]["nvidia.com/mig-1g.10gb"][0] == (95690 - 50) // 56


def test_instances_of_different_sizes_divide_the_node_by_their_size(make_plan: PlanMaker) -> None:
    mixed = pool("lab", workload="development", sharing={"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 4}})
    found = planned(make_plan, mixed, quota={"mig": {"3g.40gb": 1}})
    large, small = (units(found)["lab"][f"nvidia.com/mig-{name}"][0] for name in ("3g.40gb", "1g.10gb"))
    assert large == pytest.approx(4 * small, abs=4)
    assert 8 * large + 32 * small <= 95690 - 50


def test_shares_shrink_so_that_all_gpus_of_the_team_fit_its_quota_of_cpu_and_memory(make_plan: PlanMaker) -> None:
    found = planned(make_plan, pool(), CUT, quota={"gpus": 4, "mig": {"1g.10gb": 7}, "cpu": 10, "memory": "64Gi"})
    gpu, instance = units(found)["train"]["nvidia.com/gpu"], units(found)["lab"]["nvidia.com/mig-1g.10gb"]
    assert 9990 <= 4 * gpu[0] + 7 * instance[0] <= 10000
    assert 65525 <= 4 * gpu[1] + 7 * instance[1] <= 65536


def test_a_team_with_a_queue_keeps_the_whole_share(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(pool(), teams=[team(quota={"gpus": 8, "cpu": 10, "memory": "64Gi"})], queueing={})
    found = plan.teams[0].pod_defaults
    assert found is not None
    assert units(found)["train"]["nvidia.com/gpu"][0] == (95690 - 50) // 8


def test_taints_that_the_stack_file_sets_are_not_tolerated_by_default(make_plan: PlanMaker) -> None:
    reserved = pool(taints=[{"key": "reserved", "value": "vision", "effect": "NoSchedule"}])
    found = planned(make_plan, reserved)
    assert [(one.taint, one.effect, one.resources) for one in found.tolerations] == [
        ("nvidia.com/gpu", "NoSchedule", ("nvidia.com/gpu",))
    ]


def test_a_second_gpu_taint_is_tolerated_only_by_pods_of_the_resources_behind_it(make_plan: PlanMaker) -> None:
    evicting = {**CUT, "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoExecute"}]}
    found = planned(make_plan, pool(), evicting)
    assert {one.effect: one.resources for one in found.tolerations} == {
        "NoSchedule": ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb"),
        "NoExecute": ("nvidia.com/mig-1g.10gb",),
    }


def test_pods_with_claims_get_a_toleration_and_a_priority(make_plan: PlanMaker) -> None:
    found = planned(make_plan, pool(sharing={"mode": "dra"}), quota={"devices": {"gpu.nvidia.com": 1}})
    assert (found.shares, [(one.resources, one.claims) for one in found.tolerations]) == ((), [((), True)])
    assert variables(found, {}, {}) == {}
    assert len(mutations(found)) == 2

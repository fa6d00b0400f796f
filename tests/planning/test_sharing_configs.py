"""Sharing by name, by GPU model and by node, and the sharing configs in the operator's ConfigMaps."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.capacity_document import capacity_document
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity.quota_fit import report_capacity
from gpu_platform.planning.pools.section import PoolPlan
from sandbox.nvml import mig_table
from sandbox.simulator.mig_manager import parse_mig_configs, reconfigure
from tests.planning.conftest import PlanMaker, pool, team
from tests.support.plans import device_plugin_config

A100, T4, H200 = "p4de.24xlarge", "g4dn.xlarge", "p5en.48xlarge"
BY_MODEL = {"mode": "time-slicing", "replicas": {"T4": 4, "NVIDIA A100-SXM4-80GB": 10}}


def lab(name: str, machine_type: str = A100, **rest: Any) -> dict[str, Any]:
    return pool(name, machine_type, **{"workload": "development", **rest})


def by_name(plan: EnvironmentPlan) -> dict[str, PoolPlan]:
    return {one.name: one for one in plan.pools}


def offered(plan: EnvironmentPlan) -> dict[str, dict[str, int]]:
    return {one.name: {offer.name: offer.per_node for offer in one.resources} for one in plan.pools}


def plugin(plan: EnvironmentPlan) -> dict[str, Any]:
    return {key: yaml.safe_load(text) for key, text in device_plugin_config(plan).data.items()}


def mig_parted(plan: EnvironmentPlan) -> dict[str, Any]:
    assert plan.operator.mig_config is not None
    return yaml.safe_load(plan.operator.mig_config.data["config.yaml"])["mig-configs"]


def problems(make_plan: PlanMaker, *pools: dict[str, Any], **rest: Any) -> list[str]:
    with pytest.raises(BadInput) as refused:
        make_plan(*pools, **rest)
    return [str(problem) for problem in refused.value.problems]


# -- names ------------------------------------------------------------------------------------------------


def test_a_named_sharing_is_a_config_key_and_a_pool_label(
    make_plan: PlanMaker,
) -> None:
    named = {"inference": {"mode": "time-slicing", "replicas": 4}, "training": {"mode": "none"}}
    plan = make_plan(lab("a", sharing="inference"), lab("b", sharing="inference"), lab("c"), sharing=named)
    assert set(plugin(plan)) == {"default", "inference", "training", "c"}
    labels = [one.labels["nvidia.com/device-plugin.config"] for one in plan.pools]
    assert labels == ["inference", "inference", "c"]


def test_an_unused_named_sharing_exists_for_moved_nodes(make_plan: PlanMaker) -> None:
    plan = make_plan(
        lab("a"),
        sharing={"cut": {"mode": "mig", "layout": "all-balanced"}, "mps": {"mode": "mps", "replicas": 8}},
    )
    assert plugin(plan)["cut"]["flags"] == {"migStrategy": "mixed"}
    assert plugin(plan)["mps"]["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 8}]
    assert mig_parted(plan)["cut"][0]["mig-devices"] == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}


def test_replicas_by_gpu_model_give_each_pool_the_number_of_its_own_gpu(make_plan: PlanMaker) -> None:
    plan = make_plan(
        lab("big", sharing="inference"), lab("small", T4, sharing="inference"), sharing={"inference": BY_MODEL}
    )
    assert offered(plan) == {"big": {"nvidia.com/gpu.shared": 80}, "small": {"nvidia.com/gpu.shared": 4}}
    keys = [one.labels["nvidia.com/device-plugin.config"] for one in plan.pools]
    assert keys == ["inference.a100-80gb", "inference.t4"]
    configs = plugin(plan)
    assert [configs[key]["sharing"]["timeSlicing"]["resources"][0]["replicas"] for key in keys] == [10, 4]
    assert "inference" not in configs  # each written config has a number of replicas for a GPU model


def test_replicas_by_gpu_model_may_stand_in_the_pool_itself(make_plan: PlanMaker) -> None:
    plan = make_plan(lab("small", T4, sharing=BY_MODEL))
    assert offered(plan) == {"small": {"nvidia.com/gpu.shared": 4}}
    assert plan.pools[0].labels["nvidia.com/device-plugin.config"] == "small"


def test_a_pool_whose_gpu_model_has_no_number_of_replicas_is_refused(make_plan: PlanMaker) -> None:
    found = problems(make_plan, lab("big", H200, sharing="inference"), sharing={"inference": BY_MODEL})
    assert len(found) == 1
    assert found[0].startswith("sharing.inference.replicas: found none for NVIDIA H200 of pool big")


def test_a_mistake_in_a_named_sharing_is_reported_once_however_many_pools_use_it(make_plan: PlanMaker) -> None:
    named = {"cut": {"mode": "mig", "layout": {"3g.40gb": 3}}}
    found = problems(make_plan, lab("a", sharing="cut"), lab("b", sharing="cut"), sharing=named)
    assert [text.partition(":")[0] for text in found] == ["sharing.cut.layout"]


# -- nodes ------------------------------------------------------------------------------------------------

NAMED = {"shared": {"mode": "time-slicing", "replicas": 4}, "cut": {"mode": "mig", "layout": {"1g.10gb": 7}}}


def mixed(**rest: Any) -> dict[str, Any]:
    entries = [{"nodes": ["train-1"], "sharing": "shared"}, {"nodes": ["train-3"], "sharing": "cut"}]
    return pool("train", count={"desired": 4}, workload="development", per_node=entries, **rest)


def test_nodes_with_another_sharing_are_separate_pools(make_plan: PlanMaker) -> None:
    pools = by_name(make_plan(mixed(), sharing=NAMED))
    assert {name: one.nodes.names for name, one in pools.items()} == {
        "train": ("train-0", "train-2"),
        "train-shared": ("train-1",),
        "train-cut": ("train-3",),
    }
    assert {name: one.nodes.desired for name, one in pools.items()} == {
        "train": 2,
        "train-shared": 1,
        "train-cut": 1,
    }
    assert {one.nodes.min for one in pools.values()} == {0}


def test_each_node_is_compared_with_its_own_sharing(make_plan: PlanMaker) -> None:
    pools = by_name(make_plan(mixed(), sharing=NAMED))
    assert {name: dict(one.node_expectation.allocatable) for name, one in pools.items()} == {
        "train": {"nvidia.com/gpu": 8},
        "train-shared": {"nvidia.com/gpu.shared": 32},
        "train-cut": {"nvidia.com/mig-1g.10gb": 56},
    }
    assert pools["train-cut"].expectations.expect["mig-instances"].value == [{"1g.10gb": 7}] * 8
    assert "mig-instances" not in pools["train"].expectations.expect
    assert pools["train-shared"].labels["nvidia.com/device-plugin.config"] == "shared"


def test_quotas_count_what_each_node_offers(make_plan: PlanMaker) -> None:
    quota = {"gpus": 16, "shared": 32, "mig": {"1g.10gb": 56}}
    make_plan(mixed(), sharing=NAMED, teams=[team(quota=quota)])
    found = problems(make_plan, mixed(), sharing=NAMED, teams=[team(quota={**quota, "gpus": 17})])
    assert [text.partition(":")[0] for text in found] == ["teams[0].quota.gpus"]


def test_a_workload_names_the_part_of_the_pool_that_it_needs(make_plan: PlanMaker) -> None:
    work = [{"name": "notebook", "pool": "train-cut", "replicas": 2}]
    plan = make_plan(mixed(), sharing=NAMED, teams=[team(quota={"mig": {"1g.10gb": 2}}, workloads=work)])
    [workload] = plan.teams[0].workloads
    assert workload.resource == "nvidia.com/mig-1g.10gb"
    assert workload.node_selector == {"gpu-platform.dev/pool": "train-cut"}


def test_nodes_of_an_existing_cluster_are_divided_by_their_names(make_plan: PlanMaker) -> None:
    entries = [{"nodes": ["gpu-b"], "sharing": "shared"}]
    plan = make_plan(
        pool("train", count={"desired": 2}, nodes={"names": ["gpu-a", "gpu-b"]}, per_node=entries),
        sharing=NAMED,
        cluster={"provider": "existing"},
    )
    assert {one.name: (one.nodes.ownership, one.nodes.names) for one in plan.pools} == {
        "train": ("labelled", ("gpu-a",)),
        "train-shared": ("labelled", ("gpu-b",)),
    }


# -- MIG layouts: by name, by GPU model, and with sharing ------------------------------------------------


def test_all_and_a_profile_is_the_most_of_it_on_every_gpu_of_that_model(make_plan: PlanMaker) -> None:
    cut = {"mode": "mig", "layout": "all-2g.20gb"}
    assert offered(make_plan(lab("a", sharing=cut))) == {"a": {"nvidia.com/mig-2g.20gb": 24}}
    media = {"mode": "mig", "layout": "all-1g.10gb.me"}
    assert offered(make_plan(lab("a", sharing=media))) == {"a": {"nvidia.com/mig-1g.10gb.me": 8}}


def test_all_balanced_is_what_mig_parted_makes_of_each_gpu_model(make_plan: PlanMaker) -> None:
    named = {"dev": {"mode": "mig", "layout": "all-balanced"}}
    plan = make_plan(lab("a", sharing="dev"), lab("b", H200, sharing="dev"), sharing=named)
    assert offered(plan) == {
        "a": {"nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-2g.20gb": 8, "nvidia.com/mig-3g.40gb": 8},
        "b": {"nvidia.com/mig-1g.18gb": 16, "nvidia.com/mig-2g.35gb": 8, "nvidia.com/mig-3g.71gb": 8},
    }
    assert [entry["device-filter"] for entry in mig_parted(plan)["dev"]] == [["0x20B210DE"], ["0x233510DE"]]


def test_a_named_layout_is_stated_in_the_decisions(make_plan: PlanMaker) -> None:
    plan = make_plan(lab("a", sharing={"mode": "mig", "layout": "all-balanced"}))
    [said] = [one for one in plan.decisions if one.what == "MIG layout"]
    assert said.chosen == "1g.10gb x2 + 2g.20gb x1 + 3g.40gb x1 on every GPU"


def test_layouts_by_model_and_by_index_reach_the_gpus_that_they_mean_and_no_others(make_plan: PlanMaker) -> None:
    layouts = [
        {"gpu": "A100-SXM4-80GB", "devices": [0, 1], "layout": "all-1g.10gb"},
        {"gpu": "h200", "layout": {"3g.71gb": 2}},
    ]
    named = {"lab": {"mode": "mig", "layouts": layouts}}
    plan = make_plan(lab("a", sharing="lab"), lab("b", H200, sharing="lab"), sharing=named)
    assert offered(plan) == {
        "a": {"nvidia.com/mig-1g.10gb": 14, "nvidia.com/gpu": 6},
        "b": {"nvidia.com/mig-3g.71gb": 16},
    }
    assert plan.operator.mig_config is not None
    configs = parse_mig_configs(plan.operator.mig_config.data["config.yaml"])
    for one, wanted in zip(plan.pools, ([{"1g.10gb": 7}] * 2 + [None] * 6, [{"3g.71gb": 2}] * 8), strict=True):
        table = mig_table(one.gpu_product)
        assert table is not None
        made = reconfigure(table, (None,) * 8, configs, "lab", busy=False)
        assert (made.state, list(made.gpus)) == ("success", wanted)


def test_a_pool_whose_gpu_model_no_layout_names_is_refused(make_plan: PlanMaker) -> None:
    named = {"lab": {"mode": "mig", "layouts": [{"gpu": "H200", "layout": "all-balanced"}]}}
    found = problems(make_plan, lab("a", sharing="lab"), sharing=named)
    assert [text.partition(":")[0] for text in found] == ["sharing.lab.layouts"]


def test_a_gpu_that_two_layouts_mean_is_refused(make_plan: PlanMaker) -> None:
    layouts = [{"gpu": "A100-80GB", "layout": "all-balanced"}, {"devices": [0], "layout": {"7g.80gb": 1}}]
    found = problems(make_plan, lab("a", sharing={"mode": "mig", "layouts": layouts}))
    assert [text.partition(":")[0] for text in found] == ["pools[0].sharing.layouts[1].devices"]


@pytest.mark.parametrize(
    ("more", "resources", "replicated"),
    [
        ({}, {"nvidia.com/mig-1g.10gb.shared": 112}, "nvidia.com/mig-1g.10gb"),
        ({"rename": False}, {"nvidia.com/mig-1g.10gb": 112}, "nvidia.com/mig-1g.10gb"),
        ({"strategy": "single"}, {"nvidia.com/gpu.shared": 112}, "nvidia.com/gpu"),
        ({"replicas": {"A100-SXM4-80GB": 2}}, {"nvidia.com/mig-1g.10gb.shared": 112}, "nvidia.com/mig-1g.10gb"),
    ],
)
def test_instances_are_time_sliced_by_replicas_of_mig(
    make_plan: PlanMaker, more: dict[str, Any], resources: dict[str, int], replicated: str
) -> None:
    plan = make_plan(lab("a", sharing={"mode": "mig", "layout": {"1g.10gb": 7}, "replicas": 2, **more}))
    assert offered(plan) == {"a": resources}
    key = plan.pools[0].labels["nvidia.com/device-plugin.config"]
    assert plugin(plan)[key]["sharing"]["timeSlicing"]["resources"] == [{"name": replicated, "replicas": 2}]


def test_whole_gpus_beside_time_sliced_instances_are_not_shared(make_plan: PlanMaker) -> None:
    layouts = [{"devices": [0], "layout": {"1g.10gb": 7}}]
    plan = make_plan(lab("a", sharing={"mode": "mig", "layouts": layouts, "replicas": 4}))
    assert offered(plan) == {"a": {"nvidia.com/mig-1g.10gb.shared": 28, "nvidia.com/gpu": 7}}


def test_shares_of_instances_have_a_quota_of_their_own(make_plan: PlanMaker) -> None:
    cut = {"mode": "mig", "layout": {"1g.10gb": 7}, "replicas": 2}
    quota = {"mig_shared": {"1g.10gb": 112}}
    plan = make_plan(lab("a", sharing=cut), teams=[team(quota=quota, workloads=[{"name": "w", "pool": "a"}])])
    assert plan.teams[0].quota == {"requests.nvidia.com/mig-1g.10gb.shared": "112"}
    assert plan.teams[0].workloads[0].resource == "nvidia.com/mig-1g.10gb.shared"
    found = problems(make_plan, lab("a", sharing=cut), teams=[team(quota={"mig_shared": {"1g.10gb": 113}})])
    assert [text.partition(":")[0] for text in found] == ["teams[0].quota.mig_shared.1g.10gb"]


# -- MPS --------------------------------------------------------------------------------------------------


def test_the_part_of_an_mps_replica_is_printed_in_memory_and_threads(make_plan: PlanMaker) -> None:
    plan = make_plan(lab("a", T4, sharing={"mode": "mps", "replicas": 6}))
    [said] = [one for one in plan.decisions if one.what == "MPS share"]
    assert said.chosen == "2560 MiB and 16 % of the threads"  # 15360 MiB and 100 %, divided by 6


def test_capacity_shows_the_part_of_an_mps_replica(make_plan: PlanMaker) -> None:
    plan = make_plan(lab("a", T4, sharing={"mode": "mps", "replicas": 6}), lab("b"))
    catalog = load_catalog()
    shared, whole = capacity_document(plan, report_capacity(plan, catalog))["pools"]
    assert (shared["mps_share"]["memory_mib"], shared["mps_share"]["threads_percent"]) == (2560, 16)
    assert whole["mps_share"] is None


def test_48_mps_clients_are_allowed_on_a_gpu_that_takes_them_and_16_on_volta(make_plan: PlanMaker) -> None:
    make_plan(lab("a", T4, sharing={"mode": "mps", "replicas": 48}))
    volta = lab("a", "p3dn.24xlarge", sharing={"mode": "mps", "replicas": 17})
    found = problems(make_plan, volta, operator={"driver": {"version": "580.173.02"}})
    assert any("pools[0].sharing.replicas: found 17" in text and "at most 16" in text for text in found)

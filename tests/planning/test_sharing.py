from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_platform.deploy.rollout.layouts import retry_name
from gpu_platform.planning.sharing.section import MigRollPlan
from tests.planning.conftest import PlanMaker, pool
from tests.support.plans import device_plugin_config

MIG = {"mode": "mig", "layout": {"1g.10gb": 7}}


@pytest.mark.parametrize(
    ("sharing", "offered"),
    [
        ({"mode": "none"}, {"nvidia.com/gpu": 8}),
        ({"mode": "time-slicing", "replicas": 4}, {"nvidia.com/gpu.shared": 32}),
        ({"mode": "time-slicing", "replicas": 4, "rename": False}, {"nvidia.com/gpu": 32}),
        ({"mode": "mps", "replicas": 8}, {"nvidia.com/gpu.shared": 64}),
        (MIG, {"nvidia.com/mig-1g.10gb": 56}),
        ({**MIG, "strategy": "single"}, {"nvidia.com/gpu": 56}),
        (
            {"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb+me": 1}},
            {"nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-1g.10gb.me": 8},
        ),
        (
            {"mode": "mig", "layouts": [{"devices": [0, 1], "layout": {"1g.10gb": 7}}]},
            {"nvidia.com/mig-1g.10gb": 14, "nvidia.com/gpu": 6},
        ),
    ],
)
def test_each_sharing_mode_offers_its_resources_on_eight_gpus(
    make_plan: PlanMaker, sharing: dict, offered: dict[str, int]
) -> None:
    planned = make_plan(pool(workload="development", sharing=sharing)).pools[0]
    assert {offer.name: offer.per_node for offer in planned.resources} == offered
    assert dict(planned.node_expectation.allocatable) == offered


def test_renaming_and_the_request_limit_are_in_the_sharing_block(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(pool(workload="inference", sharing={"mode": "time-slicing", "replicas": 4}))
    config = yaml.safe_load(device_plugin_config(plan).data["train"])
    assert config["sharing"]["timeSlicing"] == {
        "renameByDefault": True,
        "failRequestsGreaterThanOne": True,
        "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
    }
    assert config["flags"] == {"migStrategy": "none"}


def test_every_pool_has_its_own_device_plugin_key(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("a"), pool("b"))
    assert set(device_plugin_config(plan).data) == {"default", "a", "b"}
    assert [p.labels["nvidia.com/device-plugin.config"] for p in plan.pools] == ["a", "b"]
    assert plan.operator.cluster_policy["devicePlugin"]["config"]["default"] == "default"


def test_a_change_of_replicas_gives_the_config_map_another_name(make_plan: PlanMaker) -> None:
    def config(replicas: int) -> str:
        sharing = {"mode": "time-slicing", "replicas": replicas}
        return device_plugin_config(make_plan(pool(workload="inference", sharing=sharing))).name

    assert config(4) != config(2)
    assert config(4) == config(4)


def test_the_mig_parted_config_names_every_gpu_of_the_node_once(make_plan: PlanMaker) -> None:
    layouts = [{"devices": [0, 1], "layout": {"1g.10gb": 7}}, {"devices": [2], "layout": {"7g.80gb": 1}}]
    plan = make_plan(pool(workload="development", sharing={"mode": "mig", "layouts": layouts}))
    assert plan.operator.mig_config is not None
    configs = yaml.safe_load(plan.operator.mig_config.data["config.yaml"])["mig-configs"]
    entries = configs[plan.pools[0].labels["nvidia.com/mig.config"]]
    assert sorted(index for entry in entries for index in entry["devices"]) == list(range(8))
    assert entries[-1] == {"devices": [3, 4, 5, 6, 7], "mig-enabled": False, "mig-devices": {}}


def test_another_layout_has_another_name_and_the_same_one_the_same(make_plan: PlanMaker) -> None:
    def named(layout: dict[str, int], **more: Any) -> tuple[str, str]:
        sharing = {"mode": "mig", "layout": layout, **more}
        labels = make_plan(pool(workload="development", sharing=sharing)).pools[0].labels
        return labels["nvidia.com/mig.config"], labels["nvidia.com/device-plugin.config"]

    sevens = named({"1g.10gb": 7})
    assert sevens == named({"1g.10gb": 7}, max_unavailable=2)
    assert not set(sevens) & set(named({"2g.20gb": 3, "1g.10gb": 1}))


def test_the_longest_pool_name_still_gives_label_values(make_plan: PlanMaker) -> None:
    [planned] = make_plan(pool("a" * 40, workload="development", sharing=MIG)).pools
    assert len(retry_name(planned.labels["nvidia.com/mig.config"])) <= 63


def test_how_nodes_change_their_layout_follows_the_sharing_and_has_defaults(make_plan: PlanMaker) -> None:
    def rules(sharing: dict[str, Any], machine_type: str = "p4de.24xlarge") -> Any:
        return make_plan(pool(machine_type=machine_type, workload="development", sharing=sharing)).pools[0].sharing

    assert rules(MIG).mig_roll == MigRollPlan(drains=True, max_unavailable=1, drain_timeout_seconds=900)
    said = {**MIG, "change": "replace", "max_unavailable": 3, "drain_timeout": "2h"}
    assert rules(said).mig_roll == MigRollPlan(drains=False, max_unavailable=3, drain_timeout_seconds=7200)
    whole = rules({"mode": "none"}).mig_roll
    assert whole == MigRollPlan(drains=True, max_unavailable=1, drain_timeout_seconds=900), (
        "the pool may have had MIG instances before"
    )
    assert rules({"mode": "none"}, "g4dn.xlarge").mig_roll is None


def test_a_pool_of_whole_gpus_that_could_be_cut_is_made_whole_again(make_plan: PlanMaker) -> None:
    plan = make_plan(pool())
    assert plan.pools[0].labels["nvidia.com/mig.config"] == "all-disabled"


def test_a_pool_of_gpus_without_mig_is_not_touched_by_the_mig_manager(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(machine_type="g4dn.xlarge"))
    assert "nvidia.com/mig.config" not in plan.pools[0].labels
    assert plan.operator.cluster_policy["migManager"] == {"enabled": False}

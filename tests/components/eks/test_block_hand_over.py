"""The resources for the handover from one capacity block to the next, with every cloud output unknown."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.deploy.recorded.properties import UNKNOWN
from policies import evaluate
from tests.planning.clouds.eks.test_capacity_blocks import FIRST, SECOND, several, single
from tests.support.eks_stacks import CREATED, EXISTING, record_eks
from tests.support.recorded import Recorded

TODAY = datetime.date(2026, 11, 21)
EARLIEST, LATER = "train-0a1b2c3d4e5f60718", "train-1a1b2c3d4e5f60718"


def recorded(capacity: dict[str, Any], run: str = "usual", **cluster: Any) -> Recorded:
    """Record the resources of a stack. Pass another `run` after a change of an environment variable, because
    recordings are cached.
    """
    pool = {
        "machine_type": "p5.48xlarge",
        "count": {"desired": 2, "max": 4},
        "labels": {"run": run},
        "workload": "training",
        "capacity": capacity,
    }
    return record_eks(pool, cluster={**CREATED, **cluster})


def test_a_future_block_has_no_nodes_and_a_scheduled_scaling_action() -> None:
    found = recorded(single())
    group, action = found.one("NodeGroup", "train"), found.one("Schedule", "train-start")
    assert group.inputs["scalingConfig"] == {"minSize": 0, "desiredSize": 0, "maxSize": 4}
    assert action.inputs == {
        "autoscalingGroupName": UNKNOWN,
        "scheduledActionName": "gpu-platform-start-20261201T1132Z-2",
        "recurrence": "32 11 1 12 *",
        "desiredCapacity": 2,
        "minSize": -1,
        "maxSize": -1,
    }
    assert group.urn in action.property_dependencies["autoscalingGroupName"]
    assert action.delete_before_replace


def test_a_block_without_a_start_starts_with_its_nodes_as_before() -> None:
    capacity = {key: value for key, value in single().items() if key != "starts"}
    found = recorded(capacity)
    assert found.one("NodeGroup", "train").inputs["scalingConfig"]["desiredSize"] == 2
    assert not found.has("Schedule")


def test_a_block_that_has_already_begun_gets_its_nodes_in_the_same_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(names.RESIZED_VARIABLE, json.dumps([EARLIEST]))
    found = recorded(several(FIRST, SECOND), run="resized")
    sizes = {
        name: found.one("NodeGroup", name).inputs["scalingConfig"]["desiredSize"] for name in (EARLIEST, LATER)
    }
    assert sizes == {EARLIEST: 2, LATER: 0}


def test_each_block_has_a_template_a_group_and_an_action_in_its_zone() -> None:
    found = recorded(several(FIRST, SECOND))
    for name, block in ((EARLIEST, FIRST), (LATER, SECOND)):
        template, group = found.one("LaunchTemplate", name), found.one("NodeGroup", name)
        target = template.inputs["capacityReservationSpecification"]["capacityReservationTarget"]
        assert target == {"capacityReservationId": block["reservation"]}
        assert group.inputs["nodeGroupName"] == name
        assert template.urn in group.dependencies
        (subnet,) = {urn for urn in group.property_dependencies["subnetIds"] if ":Subnet::" in urn}
        assert subnet.endswith(f"private-{block['zone']}")
        assert found.one("Schedule", f"{name}-start").inputs["desiredCapacity"] == 2
    both = [found.one("NodeGroup", name).inputs for name in (EARLIEST, LATER)]
    assert both[0]["labels"] == both[1]["labels"]
    assert both[0]["taints"] == both[1]["taints"]


def test_another_block_changes_nothing_of_the_first_one() -> None:
    one, two = recorded(several(FIRST)), recorded(several(FIRST, SECOND))
    for kind in ("NodeGroup", "LaunchTemplate"):
        assert one.one(kind, EARLIEST).to_json() == two.one(kind, EARLIEST).to_json()
    assert one.one("Schedule", f"{EARLIEST}-start").to_json() == two.one("Schedule", f"{EARLIEST}-start").to_json()


def test_an_only_block_keeps_its_group_when_an_earlier_block_is_added() -> None:
    alone, second = recorded(several(SECOND)), recorded(several(FIRST, SECOND))
    assert "nodeGroupName" in alone.one("NodeGroup", LATER).ignore_changes
    assert "nodeGroupName" in second.one("NodeGroup", LATER).ignore_changes


@pytest.mark.parametrize("blocks", [(FIRST,), (FIRST, SECOND)], ids=["alone", "before-another"])
def test_a_single_block_moved_into_a_list_keeps_its_resources(
    blocks: tuple[dict[str, Any], ...],
) -> None:
    one, listed = recorded(single()), recorded(several(*blocks))
    template = listed.one("LaunchTemplate", EARLIEST)
    # With a new template version, EKS would replace the nodes of the group, so the template must not change.
    assert template.to_json()["inputs"] == one.one("LaunchTemplate", "train").to_json()["inputs"]
    group = listed.one("NodeGroup", EARLIEST)
    before, after = (found.to_json()["inputs"] for found in (one.one("NodeGroup", "train"), group))
    differing = {key for key in before | after if before.get(key) != after.get(key)}
    assert differing <= set(group.ignore_changes)


def test_an_ended_block_can_leave_a_pool_that_stays_protected() -> None:
    found = recorded(several(FIRST, SECOND), production=True)
    (pool,) = found.of("EksNodePool")
    assert pool.protect
    assert not any(found.one("NodeGroup", name).protect for name in (EARLIEST, LATER))
    assert not any(record.protect for record in found.of("Schedule"))


def test_tags_keep_the_owners_autoscaler_away_from_each_block() -> None:
    pool = {"capacity": several(FIRST, SECOND), "count": {"desired": 2, "max": 4}}
    cluster = {**EXISTING, "parts": {"cluster_autoscaler": "present"}, "production": True}
    found = record_eks(pool, cluster=cluster)
    keys: dict[str, set[str]] = {}
    for tag in found.of("Tag"):
        (group,) = tag.property_dependencies["autoscalingGroupName"]
        keys.setdefault(group.rsplit("::", 1)[-1], set()).add(tag.inputs["tag"]["key"].rsplit("/", 1)[-1])
        assert not tag.protect
    assert set(keys) == {EARLIEST, LATER}
    assert keys[EARLIEST] == keys[LATER]
    assert "scaledowngpuutilizationthreshold" in keys[LATER]


@pytest.mark.parametrize("capacity", [single(), several(FIRST, SECOND)])
def test_pools_of_blocks_keep_all_rules_of_the_policy_pack(capacity: dict[str, Any]) -> None:
    records = [record.to_json() for record in recorded(capacity).resources]
    report = evaluate(records, {"all": "mandatory"}, TODAY)
    assert [str(violation) for violation in report.violations] == []

"""Scheduled actions, refused settings, messages and cost of pools that are off at night and at weekends."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.guide.document import guide_to_markdown
from gpu_platform.live.node_reports import expected_pool
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.planning.changes import pool_facts, resized_node_groups
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.clouds.schedules import SchedulePlan
from gpu_platform.planning.monitoring.rules import rule_groups
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.schedules import off_notices
from gpu_platform.planning.spending import savings, spending_of
from gpu_platform.stack.loaded import plan_platform
from tests.support.eks_stacks import CREATED, EXISTING, eks_environment, plan_eks
from tests.support.prometheus_programs import PROMTOOL, needs_promtool
from tests.support.recorded import record_platform

HOURS = {"start": "07:00", "stop": "20:00", "time_zone": "Europe/Berlin"}
LAB: dict[str, Any] = {
    "name": "lab",
    "machine_type": "p4de.24xlarge",
    "workload": "development",
    "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
    "count": {"desired": 2},
    "zones": ["us-east-2a"],
    "usd_per_hour": 168.0,
    "schedule": HOURS,
}
VISION = {
    "name": "vision",
    "quota": {"gpus": 0, "mig": {"1g.10gb": 7}, "cpu": 64, "memory": "512Gi"},
    "priority": "training",
    "members": ["group:vision"],
}
# A Wednesday at noon and in the evening, and a Saturday.
ON, EVENING, WEEKEND = "2026-11-25T12:00:00+01:00", "2026-11-25T20:00:00+01:00", "2026-11-28T12:00:00+01:00"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def schedule(**other: Any) -> SchedulePlan:
    days = ("mon", "tue", "wed", "thu", "fri")
    fields: dict[str, Any] = {"days": days, "time_zone": "Europe/Berlin", "start": "07:00", "stop": "20:00"}
    return SchedulePlan(**(fields | other))


def lab(**other: Any) -> EksPoolPlan:
    (pool,) = plan_eks({**LAB, **other}).pools
    assert isinstance(pool.cloud, EksPoolPlan)
    return pool.cloud


def refusals(pool: dict[str, Any], **cluster: Any) -> list[tuple[str, str]]:
    platform = eks_environment(pool, cluster={**CREATED, **cluster})
    with pytest.raises(BadInput) as caught:
        plan_platform(platform, "test")
    return [(problem.path, problem.found) for problem in caught.value.problems]


# -- the week ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "on"),
    [
        ("2026-11-25T07:00:00+01:00", True),
        ("2026-11-25T06:59:00+01:00", False),
        ("2026-11-25T19:59:59+01:00", True),
        (EVENING, False),
        (WEEKEND, False),
        ("2026-11-25T06:30:00+00:00", True),  # 07:30 in Berlin
        ("2026-07-22T05:30:00+00:00", True),  # 07:30 in Berlin, in summer
        ("2026-07-22T04:30:00+00:00", False),
    ],
)
def test_a_pool_is_on_by_the_clock_of_its_time_zone_in_winter_and_in_summer(when: str, on: bool) -> None:
    assert schedule().is_on(at(when)) is on
    assert (schedule().off_text(at(when)) == "") is on


def test_the_text_of_a_pool_that_is_off_has_its_next_start() -> None:
    off = "its schedule keeps the pool off until {} (Europe/Berlin)"
    assert schedule().off_text(at(EVENING)) == off.format("Thu 2026-11-26 07:00")
    assert schedule().off_text(at(WEEKEND)) == off.format("Mon 2026-11-30 07:00")
    assert schedule(days=("wed",)).starts_next(at(EVENING)) == at("2026-12-02T07:00:00+01:00")


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (("mon", "tue", "wed"), "mon-wed"),
        (("mon", "wed"), "mon, wed"),
        (("sat", "sun"), "sat, sun"),
        (("mon", "tue", "wed", "thu", "fri", "sat", "sun"), "daily"),
    ],
)
def test_days_are_printed_as_ranges_names_or_daily(days: tuple[str, ...], text: str) -> None:
    assert str(schedule(days=days)) == f"{text} 07:00 to 20:00 (Europe/Berlin)"
    assert schedule(days=days).hours == len(days) * 13


# -- EKS --------------------------------------------------------------------------------------------------


def test_scheduled_actions_start_the_nodes_on_the_days_and_stop_them_every_day() -> None:
    start, stop = lab().schedule
    assert (start.recurrence, start.nodes, start.time_zone) == ("0 7 * * 1,2,3,4,5", 2, "Europe/Berlin")
    assert (stop.recurrence, stop.nodes, stop.time_zone) == ("0 20 * * *", 0, "Europe/Berlin")
    sunday, _ = lab(schedule={**HOURS, "days": ["sun", "sat", "sun"], "start": "09:30"}).schedule
    assert sunday.recurrence == "30 9 * * 6,0"


def test_another_hour_day_zone_or_size_is_another_action() -> None:
    """A changed schedule is a new action, because an update would resend the time that AWS computed for the last
    run.
    """
    others = [
        lab(),
        lab(count={"desired": 3}),
        *(
            lab(schedule={**HOURS, **one})
            for one in ({"start": "08:00"}, {"days": ["mon"]}, {"time_zone": "UTC"}, {"time_zone": "Etc/GMT+1"})
        ),
    ]
    assert len({one.schedule[0].name for one in others}) == len(others)


def test_actions_change_only_the_size_and_up_does_not_revert_it() -> None:
    recorded = record_platform(eks_environment(LAB))
    group = recorded.one("NodeGroup", "lab")
    assert group.inputs["scalingConfig"] == {"minSize": 0, "desiredSize": 2, "maxSize": 2}
    assert "scalingConfig.desiredSize" in group.ignore_changes
    for what, nodes in (("start", 2), ("stop", 0)):
        action = recorded.one("Schedule", f"lab-{what}")
        sizes = [action.inputs[name] for name in ("minSize", "desiredCapacity", "maxSize")]
        assert sizes == [-1, nodes, -1]
        assert action.inputs["timeZone"] == "Europe/Berlin"
        assert group.urn in action.property_dependencies["autoscalingGroupName"]


def test_without_a_schedule_a_fixed_size_is_held_by_every_up() -> None:
    cloud = lab(schedule=None)
    assert (cloud.min_size, cloud.desired_size, cloud.keeps_size, cloud.schedule) == (2, 2, False, ())


@pytest.mark.parametrize(("when", "resized"), [(ON, ("lab",)), (EVENING, ()), (WEEKEND, ())])
def test_an_edit_of_count_applies_at_once_only_while_the_pool_is_on(when: str, resized: tuple[str, ...]) -> None:
    before = json.loads(json.dumps(dict(pool_facts(plan_eks(LAB)))), parse_int=float)
    assert resized_node_groups(before, plan_eks({**LAB, "count": {"desired": 3}}), at(when)) == resized
    assert resized_node_groups(before, plan_eks(LAB), at(when)) == ()


@pytest.mark.parametrize(
    ("pool", "cluster", "found"),
    [
        ({"count": {"min": 0, "desired": 1, "max": 4}}, {}, "a schedule on a pool of 0 to 4 nodes"),
        (
            {"workload": "inference", "sharing": {"mode": "none"}},
            {},
            "a schedule on a pool with workload inference",
        ),
        (
            {
                "zones": None,
                "capacity": {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"},
            },
            {},
            "a schedule with reservation capacity",
        ),
        (
            {},
            {**EXISTING, "create": None, "parts": {"cluster_autoscaler": "present"}},
            "a schedule together with cluster.parts.cluster_autoscaler: present",
        ),
    ],
)
def test_a_schedule_that_saves_nothing_or_would_be_undone_is_refused(
    pool: dict[str, Any], cluster: dict[str, Any], found: str
) -> None:
    assert refusals({**LAB, **pool}, **cluster) == [("pools[0].schedule", found)]


def test_a_minimum_of_nodes_is_refused() -> None:
    pool = {**LAB, "count": {"min": 2, "desired": 2}}
    assert refusals(pool) == [("pools[0].count.min", "2 with a schedule")]


def test_a_schedule_needs_consent_to_stop_services_and_jobs() -> None:
    assert lab(workload="inference", sharing={"mode": "none"}, schedule={**HOURS, "stops_work": True}).schedule


# -- messages ---------------------------------------------------------------------------------------------


def test_check_and_preview_name_quotas_and_workloads_that_stop() -> None:
    job = {
        "name": "pretrain",
        "pool": "train",
        "image": "registry.example.com/train:1",
        "command": ["train"],
        "replicas": 2,
        "gpus": 8,
    }
    train = {"count": {"desired": 2}, "zones": ["us-east-2a"], "schedule": {**HOURS, "stops_work": True}}
    team = {**VISION, "quota": {**VISION["quota"], "gpus": 16}, "training_jobs": [job]}
    notices = off_notices(plan_eks(LAB, train, teams=[team], queueing={}))
    assert [one.partition(":")[0] for one in notices] == ["pools[0].schedule", "pools[1].schedule"]
    assert "mon-fri 07:00 to 20:00 (Europe/Berlin), 65 of 168 h a week" in notices[0]
    assert "quotas of nvidia.com/mig-1g.10gb on this pool (vision 7)" in notices[0]
    assert "quotas of nvidia.com/gpu on this pool (vision 16); vision/pretrain (gang of 2 pods)" in notices[1]
    assert "queueing.pods_ready_timeout" in notices[1]


def test_check_and_preview_name_quotas_unusable_outside_of_blocks() -> None:
    block = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
    times = {"starts": "2026-12-20T11:30:00Z", "ends": "2026-12-27T11:30:00Z"}
    team = {**VISION, "quota": {"gpus": 16}}

    def notices(capacity: dict[str, Any], *teams: dict[str, Any]) -> tuple[str, ...]:
        return off_notices(plan_eks({"count": {"desired": 2}, "capacity": capacity}, teams=[*teams], queueing={}))

    (notice,) = notices({**block, **times}, team)
    assert notice.startswith(
        "pools[0].capacity: pool train has nodes from 2026-12-20T11:30:00Z until 2026-12-27T11:30:00Z; before"
    )
    assert "quotas of nvidia.com/gpu on this pool (vision 16)" in notice
    assert "requeue them after queueing.pods_ready_timeout" in notice
    assert notices(block, team) == (), "a block without times"


def test_a_quota_that_other_pools_cover_is_not_lost() -> None:
    other = {**LAB, "name": "other", "schedule": None}
    (notice,) = off_notices(plan_eks(LAB, other, teams=[VISION]))
    assert notice.endswith("while the pool is off, pods for this pool wait")


def test_a_queue_loses_only_its_quota_on_the_pool_that_has_no_nodes() -> None:
    block = {
        "count": {"desired": 2},
        "capacity": {
            "type": "capacity-block",
            "reservation": "cr-0a1b2c3d4e5f60718",
            "zone": "us-east-2a",
            "starts": "2026-12-20T11:30:00Z",
        },
    }
    steady = {"name": "steady", "count": {"desired": 2}, "zones": ["us-east-2a"]}
    teams = [
        {**VISION, "quota": {"gpus": {"train": 8, "steady": 16}}},
        {**VISION, "name": "speech", "members": ["group:speech"], "quota": {"gpus": {"train": 8}}},
    ]
    (notice,) = off_notices(plan_eks(block, steady, teams=teams, queueing={}))
    assert "these cannot be used: quotas of nvidia.com/gpu on this pool (vision 8, speech 8);" in notice


def test_a_pool_that_may_grow_covers_a_quota_while_another_is_off() -> None:
    other = {**LAB, "name": "other", "schedule": None, "count": {"min": 0, "desired": 0, "max": 2}}
    (notice,) = off_notices(plan_eks(LAB, other, teams=[VISION]))
    assert notice.endswith("while the pool is off, pods for this pool wait")


def test_the_guide_states_when_pods_of_members_end() -> None:
    plan = plan_eks(LAB, teams=[VISION])
    page = guide_to_markdown(plan.guides[0], plan.teams[0], None)
    assert (
        "Pool `lab` has nodes only mon-fri 07:00 to 20:00 (Europe/Berlin). At 20:00 its pods are terminated"
        in page
    )


@pytest.mark.parametrize(("when", "least"), [(ON, 2), (EVENING, 0)])
def test_validation_expects_no_nodes_while_the_pool_is_off(when: str, least: int) -> None:
    (pool,) = plan_eks(LAB).pools
    expected = expected_pool(pool, at(when))
    assert (expected.least, expected.most, expected.usual) == (least, 2, None)
    assert expected.why.startswith("its schedule keeps the pool off") is (least == 0)


# -- cost -------------------------------------------------------------------------------------------------


def test_the_cost_counts_the_hours_of_the_schedule_and_the_parts_add_up() -> None:
    plan = plan_eks(LAB, teams=[VISION])
    spending = spending_of(plan, report_capacity(plan, load_catalog(), measured={"lab": 0.5}, seconds=1))
    assert plan.cost.usd_per_hour == spending.usd_per_hour == pytest.approx(2 * 65)
    assert plan.cost.most_usd_per_hour == pytest.approx(4 * 168), (
        "price of all nodes while the pool is on, including nodes that a rolling update adds"
    )
    (pool,) = spending.pools
    assert (pool.hours_per_week, pool.node_usd_per_hour) == (65, 168)
    assert pool.idle_usd_per_hour == pytest.approx(65)
    assert sum(usd or 0 for usd in pool.wasted_usd_per_hour.values()) == pytest.approx(65)
    assert sum(team.usd_per_hour for team in spending.teams) + spending.unallocated_usd_per_hour == pytest.approx(
        130
    )


def test_a_budget_holds_the_hours_of_the_schedule() -> None:
    month = 2 * 65 * 730
    assert plan_eks(LAB, budget={"usd_per_month": month + 1.0}).cost.usd_per_hour == pytest.approx(130)
    with pytest.raises(BadInput):
        plan_eks(LAB, budget={"usd_per_month": month - 1.0})


def test_a_schedule_is_suggested_for_a_development_pool_and_saves_what_it_promises() -> None:
    def replan(changed: Any) -> EnvironmentPlan | None:
        try:
            found = plan_platform(changed, "test")
        except BadInput:
            return None
        return found if found.kind == "environment" else None

    def suggested(pool: dict[str, Any]) -> list[float | None]:
        platform = eks_environment(pool, teams=[VISION])
        found = savings(platform, plan_eks(pool, teams=[VISION]), load_catalog(), replan, seconds=1)
        return [one.usd_per_hour for one in found if one.what == "pool lab: off at night and at weekends"]

    assert suggested({**LAB, "schedule": None}) == [pytest.approx(2 * (168 - 65))]
    assert suggested(LAB) == []
    assert suggested({**LAB, "schedule": None, "count": {"min": 0, "desired": 2, "max": 4}}) == []


# -- alerts -----------------------------------------------------------------------------------------------


@needs_promtool
def test_no_alert_fires_for_a_pool_that_is_off_and_pods_that_wait_for_it(tmp_path: Path) -> None:
    plan = plan_eks(
        LAB, {"zones": ["us-east-2a"]}, teams=[VISION], addons={"prometheus": "install"}, queueing={}
    ).monitoring
    assert plan is not None
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups(plan)}))

    def waiting(resource: str, on: bool) -> dict[str, str]:
        pod = 'namespace="vision", pod="one"'
        train = {f'gpu="{gpu}", UUID="GPU-{gpu}", hostname="train-1", pool="train"': "60x90" for gpu in range(8)}
        node = {
            f'kube_node_status_allocatable{{node="lab-1", resource="{resource}"}}': "7x5" + (" 7x85" if on else "")
        }
        exported = {
            f'DCGM_FI_DEV_GPU_TEMP{{gpu="{gpu}", UUID="L-{gpu}", hostname="lab-1", pool="lab"}}': "60x5"
            + (" 60x85" if on else " stale")
            for gpu in range(8)
        }
        return {
            'kube_node_info{node="train-1"}': "1x90",
            'kube_node_status_allocatable{node="train-1", resource="nvidia_com_gpu"}': "8x90",
            **{f"DCGM_FI_DEV_GPU_TEMP{{{labels}}}": values for labels, values in train.items()},
            **{key: values if on else values.replace("7x5", "7x5 stale") for key, values in node.items()},
            **exported,
            f'kube_pod_status_phase{{{pod}, phase="Pending"}}': "1x90",
            f'kube_pod_container_resource_requests{{{pod}, container="main", resource="{resource}"}}': "1x90",
        }

    def case(resource: str, *, on: bool, firing: int) -> dict[str, Any]:
        return {
            "name": f"{resource} while lab is {'on' if on else 'off'}",
            "interval": "1m",
            "input_series": [{"series": key, "values": values} for key, values in waiting(resource, on).items()],
            "promql_expr_test": [
                {
                    "expr": 'count(ALERTS{alertstate="firing"})',
                    "eval_time": "80m",
                    "exp_samples": [{"labels": "{}", "value": firing}] if firing else [],
                }
            ],
        }

    def queue(name: str, waits: dict[str, int], *, on: bool, firing: int) -> dict[str, Any]:
        kueue = {
            f'kueue_cluster_queue_resource_pending{{cluster_queue="vision", resource="{key}"}}': f"{count}x90"
            for key, count in waits.items()
        }
        kueue['kueue_pending_workloads{cluster_queue="vision", status="active"}'] = "1x90"
        allocatable = 'kube_node_status_allocatable{node="lab-1", resource="nvidia_com_mig_1g_10gb"}'
        return {
            "name": f"workloads wait for {name}",
            "interval": "1m",
            "input_series": [
                {"series": key, "values": values}
                for key, values in {**kueue, allocatable: "7x90" if on else "7x5 stale"}.items()
            ],
            "promql_expr_test": [
                {
                    "expr": 'count(ALERTS{alertname="QueueWaiting", alertstate="firing"})',
                    "eval_time": "80m",
                    "exp_samples": [{"labels": "{}", "value": firing}] if firing else [],
                }
            ],
        }

    lab = {"cpu": 8, "nvidia.com/mig-1g.10gb": 2}
    tests = [
        case("nvidia_com_mig_1g_10gb", on=False, firing=0),
        case("nvidia_com_mig_1g_10gb", on=True, firing=1),
        queue("a pool that is off", lab | {"nvidia.com/gpu": 0}, on=False, firing=0),
        queue("a pool that is on", lab, on=True, firing=1),
        queue(
            "a pool that is off, while others wait for one without a schedule",
            lab | {"nvidia.com/gpu": 8},
            on=False,
            firing=1,
        ),
        queue("GPUs of a pool that is off, with a Kueue that does not report it", {}, on=False, firing=1),
    ]
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "test.yaml"], text=True, capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr

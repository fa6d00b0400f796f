"""ServiceMonitors and the Prometheus Operator, managed Prometheus, and alerts on cost and capacity."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform

GKE: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
EKS: dict[str, Any] = {"provider": "eks", "name": "ml", "region": "us-east-2"}
ADMIN = "arn:aws:iam::123456789012:role/admin"


def planned(cluster: dict[str, Any], monitoring: dict[str, Any], **said: Any) -> EnvironmentPlan:
    pool: dict[str, Any] = {"name": "serve", "count": {"desired": 1}, "workload": "inference", **said}
    match cluster["provider"]:
        case "gke":
            pool |= {"machine_type": "g2-standard-4", "zones": ["us-central1-a"]}
        case _:
            pool.setdefault("machine_type", "g6.4xlarge")
    plan = plan_platform(
        {"kind": "environment", "cluster": cluster, "pools": [pool], "monitoring": monitoring}, "test"
    )
    assert isinstance(plan, EnvironmentPlan)
    return plan


@pytest.mark.parametrize(
    ("cluster", "made"),
    [
        ({"provider": "sandbox"}, True),
        (GKE, True),
        (EKS, True),
        ({**GKE, "create": {}}, False),
        ({**EKS, "create": {"admins": [ADMIN]}}, False),
    ],
)
def test_a_service_monitor_is_created_only_if_its_operator_can_exist(cluster: dict[str, Any], made: bool) -> None:
    plan = planned(cluster, {})
    assert plan.monitoring is not None
    assert plan.monitoring.service_monitor is made
    told = [decision.why for decision in plan.decisions if decision.subject == "monitoring"]
    assert bool(told) is not made
    assert all("prometheus_operator: true" in why or "prometheus: install" in why for why in told)


@pytest.mark.parametrize("said", [True, False])
def test_the_declaration_of_the_prometheus_operator_applies_to_a_new_cluster_as_well(said: bool) -> None:
    plan = planned({**GKE, "create": {}}, {"prometheus_operator": said})
    assert plan.monitoring is not None
    assert plan.monitoring.service_monitor is said
    assert not [
        decision for decision in plan.decisions if decision.what in ("scraping", "ServiceMonitor and rules")
    ]


@pytest.mark.parametrize(
    ("cluster", "pool", "monitoring", "scraped"),
    [
        ({**GKE, "create": {}}, {}, {}, True),
        ({**GKE, "create": {}}, {}, {"prometheus_operator": False}, True),
        ({**GKE, "create": {}}, {}, {"prometheus_operator": True}, False),
        ({**GKE, "create": {}}, {"device_plugin": "provider"}, {}, False),
        (GKE, {}, {}, False),
        ({**EKS, "create": {"admins": [ADMIN]}}, {}, {}, False),
    ],
)
def test_managed_prometheus_of_a_new_gke_cluster_scrapes_the_exporter(
    cluster: dict[str, Any], pool: dict[str, Any], monitoring: dict[str, Any], scraped: bool
) -> None:
    plan = planned(cluster, monitoring, **pool)
    assert plan.monitoring is not None
    assert plan.monitoring.pod_monitoring is scraped


SERVE_ON_GKE: dict[str, Any] = {
    "name": "serve",
    "machine_type": "g2-standard-4",
    "zones": ["us-central1-a"],
    "count": {"desired": 1},
    "workload": "inference",
}


def test_managed_prometheus_scrapes_agents_if_there_is_no_exporter() -> None:
    platform: dict[str, Any] = {
        "kind": "environment",
        "cluster": {**GKE, "create": {}},
        "pools": [{**SERVE_ON_GKE, "device_plugin": "provider"}],
    }
    without = plan_platform(platform, "test")
    plan = plan_platform({**platform, "validation": {"metrics": True}}, "test")
    assert isinstance(without, EnvironmentPlan)
    assert isinstance(plan, EnvironmentPlan)
    assert plan.monitoring is not None
    assert plan.validation.metrics is not None
    assert (plan.monitoring.pod_monitoring, plan.validation.metrics.pod_monitoring) == (True, True)
    assert plan.monitoring.exporter == ""
    assert any(rule.alert == "GpuEccUncorrectable" for rule in plan.monitoring.alerts)
    (none,) = [one for one in without.decisions if one.subject == "monitoring"]
    assert "validation: {metrics: true}" in none.why


def decided(plan: EnvironmentPlan, what: str) -> list[str]:
    return [f"{one.chosen}: {one.why}" for one in plan.decisions if one.what == what]


def test_alerts_that_managed_prometheus_cannot_have_are_named() -> None:
    managed, own = planned({**GKE, "create": {}}, {}), planned(GKE, {})
    (missing,) = decided(managed, "missing alerts")
    assert managed.monitoring is not None
    assert not managed.monitoring.has_alert("GpuPodPending")
    assert "GpuNodeBlind" in missing
    assert "GpuPodPending" in missing
    assert decided(own, "missing alerts") == []


@pytest.mark.parametrize(
    ("cluster", "alerts"),
    [(GKE, True), ({**GKE, "create": {}}, False), ({**EKS, "create": {"admins": [ADMIN]}}, False)],
)
def test_an_alert_on_the_budget_is_promised_only_where_there_is_one(cluster: dict[str, Any], alerts: bool) -> None:
    pool: dict[str, Any] = {"name": "serve", "count": {"desired": 1}, "workload": "inference"}
    gke = cluster["provider"] == "gke"
    pool |= {"machine_type": "g2-standard-4" if gke else "g6.4xlarge"}
    pool |= {"zones": ["us-central1-a"]} if gke else {}
    platform = {"kind": "environment", "cluster": cluster, "pools": [pool], "budget": {"usd_per_month": 100000}}
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    (budget,) = decided(plan, "budget")
    assert ("an alert fires" in budget) is alerts
    assert plan.monitoring is not None
    assert plan.monitoring.has_alert("GpuCostAboveBudget") is alerts


def test_pools_without_dcgm_are_named_because_their_alerts_are_silent() -> None:
    def silent(**pool: Any) -> list[str]:
        platform: dict[str, Any] = {
            "kind": "environment",
            "cluster": {**GKE, "create": {}},
            "pools": [{**SERVE_ON_GKE, **pool}],
            "validation": {"metrics": True},
        }
        plan = plan_platform(platform, "test")
        assert isinstance(plan, EnvironmentPlan)
        return decided(plan, "alerts without DCGM")

    (found,) = silent(device_plugin="provider")
    assert "XID errors and lowered clocks on serve" in found
    assert silent() == []


@pytest.mark.parametrize("measured", [True, False])
def test_pools_that_nothing_measures_are_named_and_raise_no_alerts(measured: bool) -> None:
    block = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
    pool: dict[str, Any] = {
        "name": "serve",
        "machine_type": "p5.48xlarge",
        "image": {"family": "bottlerocket"},
        "count": {"desired": 2},
        "capacity": block,
        "workload": "inference",
    }
    platform = {"kind": "environment", "cluster": EKS, "pools": [pool], "validation": {"metrics": measured}}
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    assert plan.monitoring is not None
    alerts = {rule.alert for rule in plan.monitoring.alerts}
    for alert in ("GpuMetricsMissing", "GpuNodeBlind", "GpuReservationUnused"):
        assert (alert in alerts) is measured
    assert [one.startswith("none of the GPUs of serve") for one in decided(plan, "warning: metrics")] == (
        [] if measured else [True]
    )


def test_without_monitoring_there_is_no_decision_about_it() -> None:
    plan = planned({**GKE, "create": {}}, {"enabled": False})
    assert plan.monitoring is None
    assert not [decision for decision in plan.decisions if decision.subject == "monitoring"]


def test_alerts_fire_a_day_and_two_hours_before_a_block_is_drained() -> None:
    block = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
    ends = {"ends": "2026-12-14T11:30:00Z"}
    plan = planned(EKS, {}, workload="training", capacity={**block, **ends}, machine_type="p5.48xlarge")
    assert plan.monitoring is not None
    found = {rule.alert: rule for rule in plan.monitoring.alerts if rule.alert.startswith("GpuCapacityEnds")}
    drains = 1797247800 - 40 * 60  # the Unix time of 2026-12-14T11:30:00Z
    assert {alert: rule.expr for alert, rule in found.items()} == {
        "GpuCapacityEndsInADay": f"vector(time()) >= {drains - 24 * 3600} < {drains - 2 * 3600}",
        "GpuCapacityEndsInTwoHours": f"vector(time()) >= {drains - 2 * 3600} < {drains}",
    }
    assert "at 2026-12-14T10:50:00Z" in found["GpuCapacityEndsInADay"].summary


def test_a_budget_below_the_desired_cost_is_refused_with_pool_costs() -> None:
    platform: dict[str, Any] = {
        "kind": "environment",
        "cluster": EKS,
        "pools": [
            {
                "name": "serve",
                "machine_type": "g6.4xlarge",
                "count": {"desired": 2},
                "workload": "inference",
                "usd_per_hour": 1.0,
            }
        ],
    }
    with pytest.raises(BadInput, match=r"budget\.usd_per_month.*1460 USD a month: serve 1460"):
        plan_platform({**platform, "budget": {"usd_per_month": 1459}}, "test")
    plan_platform({**platform, "budget": {"usd_per_month": 1460}}, "test")


def test_a_version_of_the_operators_own_exporter_is_refused() -> None:
    with pytest.raises(BadInput, match=r"monitoring\.exporter_version"):
        planned(EKS, {"exporter_version": "4.9.0"})


@pytest.mark.parametrize(
    ("release", "version", "label"),
    [("v26.7.0", "4.6.0-4.8.3", "hostname"), ("v26.3.3", "4.5.3-4.8.2", "Hostname")],
)
def test_rules_and_list_of_metrics_follow_the_exporter_of_the_operators_release(
    release: str, version: str, label: str
) -> None:
    plan = plan_platform(
        {
            "kind": "environment",
            "cluster": EKS,
            "operator": {"release": release},
            "pools": [
                {"name": "serve", "machine_type": "g6.4xlarge", "count": {"desired": 1}, "workload": "inference"}
            ],
        },
        "test",
    )
    assert isinstance(plan, EnvironmentPlan)
    assert plan.monitoring is not None
    assert plan.monitoring.exporter_version == version
    (active,) = [rule.expr for rule in plan.monitoring.recording if rule.record == "gpu:active:ratio"]
    assert f'"node", "$1", "{label}"' in active
    assert plan.operator.metrics_config is not None
    exported = {
        line.partition(",")[0] for line in plan.operator.metrics_config.data["dcgm-metrics.csv"].splitlines()
    }
    used = {name for rule in plan.monitoring.recording for name in re.findall(r"DCGM_\w+", rule.expr)}
    assert used <= exported


def test_managed_prometheus_evaluates_the_rules_by_the_labels_that_it_renames() -> None:
    plan = planned({**GKE, "create": {}}, {})
    assert plan.monitoring is not None
    (active,) = [rule.expr for rule in plan.monitoring.recording if rule.record == "gpu:active:ratio"]
    assert '"namespace", "$1", "exported_namespace"' in active
    assert not [rule for rule in plan.monitoring.alerts if "kube_" in rule.expr]

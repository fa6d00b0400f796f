"""Every alert fires for its fault and stays silent without it, according to Prometheus' rule tests.

A single call of promtool runs all of them.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.planning.monitoring.rules import rule_groups
from gpu_platform.planning.monitoring.section import MonitoringPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.monitoring.alert_cases import (
    ALL_ALERTS,
    Case,
    cases,
    claimed_cases,
    series,
    translated,
    unmeasured_cases,
)
from tests.support.prometheus_programs import PROMTOOL, needs_promtool
from tests.support.size import THOROUGH

ROOT = Path(__file__).parents[3]
# The operator release that installs each exporter version.
# None means that the cluster's owner installs the exporter.
VERSIONS = {"4.8.3": "v26.7.0", "4.8.2": "v26.3.3", "4.9.0": None}
LIKE_THE_NEWEST = "4.8.2"  # the same rules as for the newest version, except for the name of the host label


def monitoring_of(version: str, **said: Any) -> MonitoringPlan:
    release = VERSIONS[version]
    cluster: dict[str, Any] = {"provider": "eks", "name": "ml", "region": "us-east-2"}
    monitoring: dict[str, Any] = {}
    if release is None:
        cluster["parts"] = {"dcgm_exporter": "present"}
        monitoring["exporter_version"] = version
    block = {
        "type": "capacity-block",
        "reservation": "cr-0a1b2c3d4e5f60718",
        "zone": "us-east-2a",
    }
    plan = plan_platform(
        {
            "kind": "environment",
            "cluster": cluster,
            "operator": {"release": release or "v26.7.0"},
            "pools": [
                {
                    "name": "train",
                    "machine_type": "p5.48xlarge",
                    "count": {"min": 1, "desired": 2, "max": 2},
                    "workload": "training",
                    "capacity": block,
                    "usd_per_hour": 100.0,
                },
                {
                    "name": "notebooks",
                    "machine_type": "p4de.24xlarge",
                    "count": {"min": 0, "desired": 0, "max": 1},
                    "workload": "development",
                    "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
                },
            ],
            "queueing": {},
            "budget": {"usd_per_month": 200_000.0},
            "monitoring": monitoring,
            **said,
        },
        "test",
    )
    assert isinstance(plan, EnvironmentPlan)
    assert plan.monitoring is not None
    return plan.monitoring


def _test_group(case: Case) -> dict[str, Any]:
    name = "" if case.alert == ALL_ALERTS else f', alertname="{case.alert}"'
    expected = [{"labels": "{}", "value": case.firing}] if case.firing else []
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in case.series.items() if values],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertstate="firing"{name}}})',
                "eval_time": f"{case.minute}m",
                "exp_samples": expected,
            }
        ],
    }


def _rules_of(alert: str, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an alert's rule and the rules that it depends on. Evaluating all 81 rules would take ten times as
    long.
    """
    if alert == ALL_ALERTS:
        return groups
    records = {rule["record"]: rule["expr"] for group in groups for rule in group["rules"] if "record" in rule}
    needed = {alert}
    left = [rule["expr"] for group in groups for rule in group["rules"] if rule.get("alert") == alert]
    while left:
        found = (set(re.findall(r"[a-zA-Z_][a-zA-Z0-9_:]*", left.pop())) & records.keys()) - needed
        needed |= found
        left += [records[name] for name in found]
    return [
        {**group, "rules": [one for one in group["rules"] if one.get("alert", one.get("record")) in needed]}
        for group in groups
    ]


def _test_file(path: Path, rules: str, tests: list[dict[str, Any]]) -> Path:
    """Write a promtool test file for a rule file in the same folder."""
    document = {"rule_files": [rules], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.safe_dump(document))
    return path


def _passes(folder: Path, *files: Path) -> None:
    """Run promtool's tests, and fail with its output if one of them fails."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "test", "rules", *map(str, files)], text=True, capture_output=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_every_alert_fires_for_its_fault_and_is_silent_without_it_for_each_exporter(tmp_path: Path) -> None:
    files = []
    for version in [*VERSIONS] if THOROUGH else [one for one in VERSIONS if one != LIKE_THE_NEWEST]:
        plan = monitoring_of(version)
        planned = {rule.alert for rule in plan.alerts}
        assert planned == {case.alert for case in cases() if case.firing} & planned
        for number, alert in enumerate(sorted(planned | {ALL_ALERTS})):
            rules = tmp_path / f"rules-{version}-{number}.yaml"
            rules.write_text(yaml.safe_dump({"groups": _rules_of(alert, rule_groups(plan))}))
            tests = [_test_group(translated(case, version)) for case in cases() if case.alert == alert]
            files.append(_test_file(tmp_path / f"test-{version}-{number}.yaml", rules.name, tests))
    _passes(tmp_path, *files)


@needs_promtool
def test_alerts_on_pods_quotas_and_nodes_know_claimed_gpus(tmp_path: Path) -> None:
    pool = {
        "name": "train",
        "machine_type": "p5.48xlarge",
        "count": {"desired": 2},
        "workload": "training",
        "zones": ["us-east-2a"],
        "sharing": {"mode": "dra"},
    }
    cluster = {"provider": "eks", "name": "ml", "region": "us-east-2", "kubernetes": "1.36"}
    plan = monitoring_of("4.8.3", pools=[pool], queueing=None, budget=None, cluster=cluster)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups(plan)}))
    _passes(
        tmp_path, _test_file(tmp_path / "test.yaml", "rules.yaml", [_test_group(case) for case in claimed_cases()])
    )


@needs_promtool
def test_nodes_of_pools_without_an_exporter_are_not_blind(tmp_path: Path) -> None:
    pool: dict[str, Any] = {"machine_type": "g6e.12xlarge", "count": {"desired": 1}, "workload": "inference"}
    pools = [{**pool, "name": "plain", "image": {"family": "bottlerocket"}}, {**pool, "name": "train"}]
    plan = monitoring_of("4.8.3", pools=pools, queueing=None, budget=None)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": _rules_of("GpuNodeBlind", rule_groups(plan))}))
    tests = [_test_group(case) for case in unmeasured_cases()]
    _passes(tmp_path, _test_file(tmp_path / "test.yaml", "rules.yaml", tests))


@needs_promtool
@pytest.mark.parametrize(
    ("kind", "owner", "workload"),
    [
        ("ReplicaSet", "chat-6d4cf56db6", "chat"),
        ("Job", "pretrain", "pretrain"),
        ("StatefulSet", "large", "large"),
        ("RayCluster", "ray", "ray"),
        ("PyTorchJob", "old", "old"),
    ],
)
def test_pods_of_every_kind_that_owns_pods_have_a_workload(
    kind: str, owner: str, workload: str, tmp_path: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups(monitoring_of("4.8.3"))}))
    labels = f'namespace="vision", pod="p", owner_is_controller="true", owner_kind="{kind}", owner_name="{owner}"'
    expected = f'pod:workload:info{{namespace="vision", pod="p", workload="{workload}"}}'
    test = {
        "interval": "1m",
        "input_series": [{"series": f"kube_pod_owner{{{labels}}}", "values": "1x5"}],
        "promql_expr_test": [
            {"expr": "pod:workload:info", "eval_time": "5m", "exp_samples": [{"labels": expected, "value": 1}]}
        ],
    }
    _passes(tmp_path, _test_file(tmp_path / "test.yaml", "rules.yaml", [test]))


@needs_promtool
def test_a_pod_that_ended_holds_and_pays_for_no_gpu(tmp_path: Path) -> None:
    """Two pods have one GPU each, and one of them has ended. A node of 8 GPUs costs 100 USD/h."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups(monitoring_of("4.8.3"))}))
    samples = {}
    for gpu, (pod, ended) in enumerate((("train-0", 1), ("train-1", 0))):
        named = {"namespace": "vision", "pod": pod, "container": "main"}
        samples[series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", gpu=gpu, **named)] = "0.5x9"
        samples[f'kube_pod_status_phase{{namespace="vision", pod="{pod}", phase="Succeeded"}}'] = f"{ended}x9"
    expected = {
        "pool:gpus_held:count": ("pool", 1.0),
        "namespace:gpus_held:count": ("namespace", 1.0),
        "namespace:cost:usd_per_hour": ("namespace", 12.5),
    }
    values = {"pool": "train", "namespace": "vision"}
    test = {
        "interval": "1m",
        "input_series": [{"series": key, "values": value} for key, value in samples.items()],
        "promql_expr_test": [
            {
                "expr": record,
                "eval_time": "5m",
                "exp_samples": [{"labels": f'{record}{{{label}="{values[label]}"}}', "value": value}],
            }
            for record, (label, value) in expected.items()
        ],
    }
    _passes(tmp_path, _test_file(tmp_path / "test.yaml", "rules.yaml", [test]))


def test_rules_of_the_previous_exporter_differ_only_in_the_host_label() -> None:
    """The rules differ only in the name of the host label, so the other tests evaluate only the newest rules.
    `make test-thorough` evaluates both.
    """
    before, newest = (
        yaml.safe_dump(rule_groups(monitoring_of(version))) for version in (LIKE_THE_NEWEST, "4.8.3")
    )
    assert before != newest
    assert before.replace('"Hostname"', '"hostname"') == newest


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    planned = {rule.alert for rule in monitoring_of("4.8.3").alerts}
    assert planned <= {case.alert for case in cases() if case.firing}
    assert planned <= {case.alert for case in cases() if not case.firing}


HOURS = {"days": ["mon", "tue"], "start": "07:00", "stop": "20:00", "time_zone": "Etc/UTC"}


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ({"count": {"desired": 2}}, True),
        ({"count": {"desired": 2, "max": 4}}, False),
        ({"count": {"min": 1, "desired": 2, "max": 4}}, True),
        ({"count": {"desired": 2}, "schedule": HOURS}, False),
        ({"count": {"desired": 0, "max": 4}}, False),
    ],
)
def test_missing_metrics_are_an_alert_where_a_pool_has_nodes_at_any_time(
    pool: dict[str, Any], expected: bool
) -> None:
    lab = {"name": "lab", "machine_type": "g6e.12xlarge", "workload": "development", **pool}
    alerts = {rule.alert for rule in monitoring_of("4.8.3", pools=[lab]).alerts}
    assert ("GpuMetricsMissing" in alerts) is expected


def test_every_alert_has_a_runbook() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text("utf-8")
    headings = {line.removeprefix("### ").lower() for line in page.splitlines() if line.startswith("### ")}
    ends = {"gpucapacityendsinaday", "gpucapacityendsintwohours"}
    assert headings == {rule.runbook for rule in monitoring_of("4.8.3").alerts} | ends

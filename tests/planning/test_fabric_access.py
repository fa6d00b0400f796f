"""Teams whose Pod Security is enforced by a policy, with exceptions for pods that use a fabric."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.catalog import GcpFamily, load_catalog
from gpu_platform.catalog.admission_rules import literal
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.fabric_pods import fabric_pods, platform_of

ENFORCED = "pod-security.kubernetes.io/enforce"


def plan_of(platform: dict[str, Any]) -> EnvironmentPlan:
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def team_plan(provider: str, machine: str, pool: dict[str, Any] | None = None, **team: Any) -> TeamPlan:
    return plan_of(platform_of(provider, machine, pool, team)).teams[0]


@pytest.mark.parametrize(
    ("machine", "fabric", "daemons"),
    [
        ("a3-highgpu-8g", "tcpx", ("tcpx-daemon",)),
        ("a3-megagpu-8g", "tcpxo", ("tcpxo-daemon",)),
        ("a3-ultragpu-8g", "rdma", ()),
        ("a4-highgpu-8g", "rdma", ()),
        ("a4x-highgpu-4g", "rdma", ()),
    ],
)
def test_a_team_with_whole_nodes_of_a_fabric_has_its_level_enforced_by_policy(
    machine: str, fabric: str, daemons: tuple[str, ...]
) -> None:
    found = team_plan("gke", machine)
    assert found.fabric is not None
    assert (found.fabric.fabrics, found.fabric.pools) == ((fabric,), ("train",))
    values = found.fabric.policies[0].values
    assert values.get("daemon_names") == (literal(daemons) if daemons else None)
    assert (found.labels[ENFORCED], found.labels["gpu-platform.dev/pod-security"]) == ("privileged", "restricted")
    assert found.labels["pod-security.kubernetes.io/warn"] == "restricted"
    assert found.pod_security == "restricted"


@pytest.mark.parametrize(
    ("provider", "machine", "pool", "team"),
    [
        ("gke", "a3-megagpu-8g", {}, {"quota": {"gpus": 7}}),
        ("gke", "a3-megagpu-8g", {"network": {"rdma": False}}, {}),
        ("gke", "a3-megagpu-8g", {"sharing": {"mode": "time-slicing", "replicas": 4}}, {"quota": {"shared": 32}}),
        ("gke", "a2-highgpu-8g", {}, {}),
        ("eks", "p5.48xlarge", {}, {}),
        ("sandbox", "p4de.24xlarge", {}, {}),
    ],
    ids=["fewer-gpus-than-a-node", "no-nics", "shares", "a2", "efa", "sandbox"],
)
def test_every_other_team_keeps_the_label_of_its_level(
    provider: str, machine: str, pool: dict[str, Any], team: dict[str, Any]
) -> None:
    found = team_plan(provider, machine, pool, **team)
    assert found.fabric is None
    assert found.labels[ENFORCED] == "restricted"
    assert "gpu-platform.dev/pod-security" not in found.labels


ON_DEV = {"gpus": {"dev": 8}}


@pytest.mark.parametrize(
    ("team", "privileged"),
    [
        ({"quota": {"cpu": 2, "memory": "8Gi"}}, False),
        ({"quota": {"cpu": 2, "memory": "8Gi"}, "queue": {"borrow": {}}}, False),
        ({"quota": {"cpu": 2, "memory": "8Gi"}, "queue": {"borrow": {"gpus": 8}}}, True),
        ({"quota": {"gpus": 4}}, True),
        ({"quota": {"gpus": 4}, "queue": {"borrow": {"gpus": 3}}}, False),
        ({"quota": {"gpus": 4}, "queue": {"borrow": {"gpus": 4}}}, True),
        ({"quota": ON_DEV, "queue": {"borrow": {}}}, False),
        ({"quota": ON_DEV, "queue": {"borrow": {"gpus": {"train": 8}}}}, True),
    ],
)
def test_a_team_in_a_queue_has_the_label_of_what_it_may_borrow(team: dict[str, Any], privileged: bool) -> None:
    platform = platform_of("gke", "a3-megagpu-8g", None, team)
    platform["pools"].append(
        {**platform["pools"][0], "name": "dev", "machine_type": "g2-standard-96", "workload": "development"}
    )
    platform["teams"].append({**platform["teams"][0], "name": "other", "quota": {"gpus": 8}, "queue": {}})
    found = plan_of({**platform, "queueing": {}}).teams[0]
    assert found.labels[ENFORCED] == ("privileged" if privileged else "restricted")
    assert (found.fabric is not None) == privileged


def test_a_level_enforced_by_policy_lists_the_exceptions() -> None:
    decisions = plan_of(platform_of("gke", "a3-megagpu-8g")).decisions
    (found,) = [one for one in decisions if one.what == "Pod Security by policy"]
    assert (found.subject, found.chosen) == ("team vision", "restricted, except for pods of tcpxo")
    for part in (
        "whole nodes of train",
        "tcpxo-daemon (NET_ADMIN, NET_BIND_SERVICE)",
        "/home/kubernetes/bin/nvidia/lib64 (read-only)",
        "/dev/aperture_devices",
    ):
        assert part in found.why


def test_a_baseline_team_has_the_rules_of_its_level() -> None:
    found = {
        level: team_plan("gke", "a3-megagpu-8g", pod_security=level).fabric for level in ("restricted", "baseline")
    }
    ids = {
        level: {rule.id for rule in access.policies[0].rules}
        for level, access in found.items()
        if access is not None
    }
    assert ids["restricted"] - ids["baseline"] == {
        f"pod-security-{control}"
        for control in ("volumes", "privilege-escalation", "non-root", "user", "seccomp-profile")
    }
    assert ids["baseline"] <= ids["restricted"]


@pytest.mark.parametrize(
    ("version", "paths"),
    [("1.36", ("/home/kubernetes/bin/nvidia/lib64",)), ("1.35", None)],
)
def test_fabric_libraries_are_read_only_if_the_api_server_can_set_it(
    version: str, paths: tuple[str, ...] | None
) -> None:
    platform = platform_of("gke", "a3-megagpu-8g")
    platform["cluster"]["kubernetes"] = version
    defaults = plan_of(platform).teams[0].pod_defaults
    assert (None if defaults is None else defaults.read_only) == paths


def test_a_pod_may_request_efa_interfaces_where_nodes_have_them_alone() -> None:
    def limits(found: TeamPlan) -> tuple[str, str]:
        """Return the NICs that the policy checks, and the number of each device on a node."""
        values = next(one.values for one in found.policies if one.name == "pods-of")
        return values["known_nics"], values["units_per_node"]

    judged = "['vpc.amazonaws.com/efa', 'rdma/ib']"
    assert limits(team_plan("eks", "p4d.24xlarge")) == (
        judged,
        "{'nvidia.com/gpu': 8, 'vpc.amazonaws.com/efa': 4}",
    )
    assert limits(team_plan("gke", "a3-megagpu-8g")) == (judged, "{'nvidia.com/gpu': 8}")
    assert limits(team_plan("sandbox", "p4de.24xlarge")) == ("[]", "{'nvidia.com/gpu': 8}")


def test_every_fabric_with_host_paths_has_a_published_test_pod() -> None:
    catalog = load_catalog()
    fabrics = {one.fabric for one in catalog.families.values() if isinstance(one, GcpFamily)} - {"none"}
    assert set(catalog.fabric_pods) == fabrics
    planned = {one.name: plan_of(one.platform()).teams[0].fabric for one in fabric_pods()}
    assert {fabric for access in planned.values() if access is not None for fabric in access.fabrics} == fabrics

"""What the program leaves out on a cluster that already has GPU software, and which settings it refuses there."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.parts import InstalledPart, part_problems
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.eks_stacks import CREATED

POOL = {
    "name": "train",
    "machine_type": "dgx-h100",
    "count": {"desired": 1},
    "nodes": {"selector": {"gpu": "h100"}},
    "workload": "training",
}
OWN = [("gpu-operator", "gpu-operator")]


def planned(parts: dict[str, str], **pool: Any) -> EnvironmentPlan:
    cluster = {"provider": "existing", "name": "dev", "parts": parts}
    plan = plan_platform({"kind": "environment", "cluster": cluster, "pools": [{**POOL, **pool}]}, "test")
    assert plan.kind == "environment"
    return plan


def problems(cluster: dict[str, Any], **pool: Any) -> list[str]:
    with pytest.raises(BadInput) as caught:
        plan_platform({"kind": "environment", "cluster": cluster, "pools": [pool]}, "test")
    return [problem.path for problem in caught.value.problems]


def test_everything_that_is_installed_is_looked_for() -> None:
    found = {part.name for part in planned({}).operator.parts if part.install}
    assert found == {"gpu_operator", "device_plugin", "node_feature_discovery", "dcgm_exporter"}


def test_an_operator_of_the_owner_means_no_rules_and_check_says_so() -> None:
    plan = planned({"gpu_operator": "present"})
    assert plan.monitoring is None
    [decision] = [one for one in plan.decisions if one.subject == "monitoring"]
    assert (decision.what, decision.chosen) == ("rules, alerts and dashboards", "none")


@pytest.mark.parametrize("release", ["v26.7.0", "v25.10.1"])
def test_an_operator_of_the_owner_may_be_older_than_what_the_program_installs(release: str) -> None:
    cluster = {"provider": "existing", "kubernetes": "1.32", "parts": {"gpu_operator": "present"}}
    operator = {"release": release, "driver": {"version": "570.195.03"}}
    form = {"kind": "environment", "cluster": cluster, "operator": operator, "pools": [POOL]}
    plan = plan_platform(form, "test")
    assert plan.kind == "environment"
    assert plan.pools[0].expectations.expect["driver-version"].value == "570.195.03"


def test_with_an_owners_operator_the_program_installs_none() -> None:
    plan = planned({"gpu_operator": "present"})
    assert (plan.operator.install, plan.operator.helm_values) == ("none", {})
    assert plan.operator.device_plugin_config is None
    assert plan.monitoring is None
    (pool,) = plan.pools
    assert "nvidia.com/device-plugin.config" not in pool.labels
    assert pool.driver_version is None, "the owner chooses the driver"


def test_the_driver_of_an_owners_operator_is_expected_where_it_is_declared() -> None:
    cluster = {"provider": "existing", "parts": {"gpu_operator": "present"}}
    operator = {"driver": {"version": "580.173.02"}}
    plan = plan_platform(
        {"kind": "environment", "cluster": cluster, "operator": operator, "pools": [POOL]}, "test"
    )
    assert plan.kind == "environment"
    assert plan.pools[0].driver_version == "580.173.02"


def test_the_operator_is_installed_without_what_is_present() -> None:
    values = planned({"device_plugin": "present"}).operator.helm_values
    assert values["devicePlugin"]["enabled"] is False
    values = planned({"node_feature_discovery": "present"}).operator.helm_values
    assert values["nfd"] == {"enabled": False}
    assert "node-feature-discovery" not in values
    plan = planned({"dcgm_exporter": "present"})
    assert plan.operator.helm_values["dcgmExporter"]["enabled"] is False
    assert plan.operator.metrics_config is None
    assert plan.monitoring is not None
    assert (plan.monitoring.exporter, bool(plan.monitoring.alerts)) == ("", True)


@pytest.mark.parametrize("part", ["gpu_operator", "device_plugin"])
def test_sharing_is_refused_where_another_configures_the_device_plugin(part: str) -> None:
    cluster = {"provider": "existing", "parts": {part: "present"}}
    shared = {"mode": "time-slicing", "replicas": 4}
    assert problems(cluster, **{**POOL, "sharing": shared}) == ["pools[0].sharing.mode"]


def test_a_new_cluster_has_nothing_of_an_owner() -> None:
    cluster = {**CREATED, "parts": {"gpu_operator": "present"}}
    pool = {"name": "train", "machine_type": "g6.12xlarge", "count": {"desired": 1}, "workload": "inference"}
    assert problems(cluster, **pool) == ["cluster.parts.gpu_operator"]


def test_a_part_beside_an_operator_of_the_owner_is_refused() -> None:
    cluster = {"provider": "existing", "parts": {"gpu_operator": "present", "dcgm_exporter": "present"}}
    assert problems(cluster, **POOL) == ["cluster.parts.dcgm_exporter"]


def found(part: str, kind: str, namespace: str, release: tuple[str, str] | None = None) -> InstalledPart:
    return InstalledPart(
        part=part, kind=kind, namespace=namespace, name="nvidia-operator", version="v25.10.0", release=release
    )


def refused(parts: dict[str, str], *installed: InstalledPart) -> list[str]:
    return [str(problem) for problem in part_problems(planned(parts).operator.parts, installed, OWN)]


def test_software_of_others_is_refused_with_the_field_that_keeps_it() -> None:
    theirs = found("gpu_operator", "Deployment", "nvidia", ("nvidia", "gpu"))
    (problem,) = refused({}, theirs, found("gpu_operator", "ClusterPolicy", ""))
    assert problem.startswith(
        "cluster.parts.gpu_operator: found install, but the cluster has Deployment nvidia-operator v25.10.0 in"
    )
    assert "namespace nvidia, ClusterPolicy nvidia-operator v25.10.0, which this stack did not install" in problem
    assert "write cluster.parts.gpu_operator: present" in problem
    assert refused({"gpu_operator": "present"}, theirs) == []


def test_what_the_stack_has_installed_is_its_own() -> None:
    assert refused({}, found("gpu_operator", "Deployment", "gpu-operator", OWN[0])) == []


def test_parts_that_are_declared_present_must_be_installed() -> None:
    (problem,) = refused({"node_feature_discovery": "present"})
    assert "cluster.parts.node_feature_discovery: found present, but the cluster has no Node Feature" in problem

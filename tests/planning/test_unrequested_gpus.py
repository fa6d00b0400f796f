"""Whether containers receive GPUs that they did not request, for every operator release and for every owner of the
node software.
"""

from __future__ import annotations

from typing import Any

import pytest

from extensions.reports.conformance.answers import Status, answers
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.charts.section import ignored
from gpu_platform.planning.operator import open_policies
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import record_platform

WHAT = "GPUs that no pod requested"
VARIABLE = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
EXISTING: dict[str, Any] = {"provider": "existing"}
EKS: dict[str, Any] = {"provider": "eks", "name": "ml", "region": "us-east-2"}
GKE: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
NODES: dict[str, dict[str, Any]] = {
    "existing": {"nodes": {"names": ["a"]}},
    "eks": {"machine_type": "g6.12xlarge", "zones": ["us-east-2a"]},
    "gke": {"machine_type": "g2-standard-48", "zones": ["us-central1-a"], "placement": {"type": "none"}},
    "sandbox": {},
}
RELEASES = [one for one in load_catalog().operator_releases.values() if one.status != "end-of-support"]


def platform(cluster: dict[str, Any], rest: dict[str, Any] | None = None, **of_pool: Any) -> dict[str, Any]:
    gpus = pool(**{"workload": "inference", **NODES[cluster["provider"]], **of_pool})
    members = ["group:a@example.com"]
    return environment(gpus, cluster=cluster, teams=[team(members=members)], **(rest or {}))


def planned(cluster: dict[str, Any], rest: dict[str, Any] | None = None, **of_pool: Any) -> EnvironmentPlan:
    plan = plan_platform(platform(cluster, rest, **of_pool), "test")
    assert plan.kind == "environment"
    return plan


def unknown(plan: EnvironmentPlan) -> list[str]:
    return [one.why for one in plan.decisions if one.what == WHAT]


@pytest.mark.parametrize("cluster", [EXISTING, GKE], ids=["existing", "gke"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda one: one.version)
def test_every_operator_release_ignores_variables_and_annotations(release: Any, cluster: dict[str, Any]) -> None:
    kubernetes = {**cluster, "kubernetes": release.kubernetes[1]}
    found = record_platform(platform(kubernetes, {"operator": {"release": release.version}}))
    [chart] = [one for one in found.of("Release") if one.inputs["chart"] == "gpu-operator"]
    assert chart.inputs["version"] == release.version
    values = chart.inputs["values"]
    assert values["toolkit"]["enabled"] is True
    assert {one["name"]: one["value"] for one in values["toolkit"]["env"]}[VARIABLE] == "false"
    assert not values.get("cdi", {}).get("nriPluginEnabled", False)


@pytest.mark.parametrize(
    ("cluster", "rest", "of_pool", "owner"),
    [
        ({**EXISTING, "parts": {"gpu_operator": "present"}}, {}, {}, "the owner of the GPU Operator decides"),
        ({**EKS, "parts": {"gpu_operator": "present"}}, {}, {}, "the owner of the GPU Operator decides"),
        (EKS, {}, {"image": {"ami": "ami-0a1b2c3d4e5f60718"}}, "the AMI decides"),
        (EXISTING, {"operator": {"toolkit": "host"}}, {}, "whoever set up the nodes decides"),
    ],
    ids=["present", "present-on-eks", "own-ami", "host"],
)
def test_a_pool_with_a_foreign_toolkit_is_named_with_its_owner(
    cluster: dict[str, Any], rest: dict[str, Any], of_pool: dict[str, Any], owner: str
) -> None:
    plan = planned(cluster, rest, **of_pool)
    [why] = unknown(plan)
    assert why.startswith(owner)
    assert "=false" in why.replace(" ", "")
    [answer] = [
        one
        for one in answers(plan, load_catalog().ai_conformance["1.37"])
        if one.requirement.id == "secure_accelerator_access"
    ]
    assert answer.status is Status.PARTIAL
    assert owner in answer.missing
    assert not any("no environment variable" in one for one in answer.by)


@pytest.mark.parametrize(
    ("cluster", "of_pool"),
    [
        (EXISTING, {}),
        (EKS, {}),
        (EKS, {"image": {"family": "bottlerocket"}}),
        (GKE, {}),
        (GKE, {"device_plugin": "provider"}),
        ({"provider": "sandbox"}, {}),
    ],
    ids=["existing", "eks", "bottlerocket", "gke", "gke-provider", "sandbox"],
)
def test_where_the_program_or_the_cloud_has_closed_it_nothing_is_named(
    cluster: dict[str, Any], of_pool: dict[str, Any]
) -> None:
    assert unknown(planned(cluster, **of_pool)) == []


def test_chart_values_with_the_annotation_plugin_are_refused() -> None:
    charts = {"charts": {"gpu-operator": {"values": {"cdi": {"nriPluginEnabled": True}}}}}
    with pytest.raises(BadInput) as caught:
        planned(EXISTING, charts)
    [problem] = caught.value.problems
    assert problem.path == "charts.gpu-operator.values.cdi.nriPluginEnabled"
    off = {"charts": {"gpu-operator": {"values": {"cdi": {"nriPluginEnabled": False}}}}}
    assert unknown(planned(EXISTING, off)) == []


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"driver": {"usePrecompiled": True}}, "driver.usePrecompiled"),
        ({"devicePlugin": {"env": [{"name": "MIG_STRATEGY", "value": "single"}]}}, "devicePlugin.env[0]"),
        ({"devicePlugin": {"env": [{"name": "A"}, {"name": "DEVICE_LIST_STRATEGY"}]}}, "devicePlugin.env[1]"),
        ({"gfd": {"env": [{"name": "MIG_STRATEGY", "value": "single"}]}}, "gfd.env[0]"),
    ],
)
def test_values_that_override_what_is_planned_are_refused_with_their_place(
    values: dict[str, Any], path: str
) -> None:
    with pytest.raises(BadInput) as caught:
        planned(EXISTING, {"charts": {"gpu-operator": {"values": values}}})
    assert [problem.path for problem in caught.value.problems] == [f"charts.gpu-operator.values.{path}"]


@pytest.mark.parametrize(
    ("machine", "modules", "driver", "refused"),
    [
        ("dgx-b200", "proprietary", {}, True),
        ("dgx-b200", "open", {}, False),
        ("dgx-b200", "proprietary", {"owner": "host"}, False),
        ("p3dn.24xlarge", "open", {"version": "580.173.02"}, True),
        ("dgx-h100", "proprietary", {}, False),
    ],
)
def test_kernel_modules_that_do_not_drive_the_gpus_are_refused(
    machine: str, modules: str, driver: dict[str, str], refused: bool
) -> None:
    charts = {"gpu-operator": {"values": {"driver": {"kernelModuleType": modules}}}}
    named = {"sharing": {"whole": {"mode": "none"}}}
    rest = {"charts": charts, "operator": {"driver": driver}, **named}
    form = platform(EXISTING, rest, machine_type=machine, sharing="whole")
    found: list[str] = []
    try:
        plan_platform(form, "test")
    except BadInput as error:
        found = [problem.path for problem in error.problems]
    assert found == (["charts.gpu-operator.values.driver.kernelModuleType"] if refused else [])


def test_values_that_the_program_relies_on_are_its_own_and_win() -> None:
    added = {
        "cdi": {"enabled": False},
        "nfd": {"enabled": False},
        "clusterPolicy": {"deployCR": False},
        "operator": {"runtimeClass": "nvidia-legacy"},
    }
    own = planned(EXISTING, {"charts": {"gpu-operator": {"values": added}}}).operator.helm_values
    lost = ["cdi.enabled", "clusterPolicy.deployCR", "nfd.enabled", "operator.runtimeClass"]
    assert sorted(ignored(own, added)) == lost


def policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "theirs"}, "spec": spec}


CLOSED = {"env": [{"name": VARIABLE, "value": "false"}]}


@pytest.mark.parametrize(
    ("spec", "opened"),
    [
        ({}, [VARIABLE]),
        ({"toolkit": {"enabled": True}}, [VARIABLE]),
        ({"toolkit": {"env": [{"name": VARIABLE, "value": "true"}]}}, [VARIABLE]),
        ({"toolkit": CLOSED}, []),
        ({"toolkit": {"enabled": False}}, []),
        ({"toolkit": CLOSED, "cdi": {"enabled": True}}, []),
        ({"toolkit": CLOSED, "cdi": {"nriPluginEnabled": True}}, ["nriPluginEnabled"]),
        ({"cdi": {"nriPluginEnabled": True}}, [VARIABLE, "nriPluginEnabled"]),
    ],
    ids=str,
)
def test_what_a_cluster_policy_of_others_opens_is_read_with_the_fix(
    spec: dict[str, Any], opened: list[str]
) -> None:
    found = list(open_policies([policy(**spec)]))
    assert len(found) == len(opened)
    for text, word in zip(found, opened, strict=True):
        assert text.startswith("ClusterPolicy theirs: ")
        assert word in text
        assert "owner" in text

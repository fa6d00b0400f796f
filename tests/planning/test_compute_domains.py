"""The DRA driver for ComputeDomains next to the device plugin, and workloads that share GPU memory over NVLink."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.operator.section import DraDriverPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.racks import A4X, CLUSTERS, EXISTING, POOLS, ULTRASERVER, rack

PROVIDERS = sorted(POOLS)


def planned(provider: str, **rest: Any) -> EnvironmentPlan:
    plan = plan_platform(rack(provider, **rest), "test")
    assert plan.kind == "environment"
    return plan


def driver(provider: str, **rest: Any) -> DraDriverPlan:
    found = planned(provider, **rest).operator.dra_driver
    assert found is not None
    return found


def refused(platform: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        plan_platform(platform, "test")
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_rack_uses_dra_for_domains_and_the_device_plugin_for_gpus(provider: str) -> None:
    plan = planned(provider)
    found = driver(provider)
    assert found.values["resources"] == {"gpus": {"enabled": False}, "computeDomains": {"enabled": True}}
    assert found.chart == "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu"
    assert plan.operator.helm_values["devicePlugin"]["enabled"] is True
    assert plan.operator.helm_values["gfd"] == {"enabled": True}
    assert plan.pools[0].node_expectation.allocatable["nvidia.com/gpu"] == 4
    (decision,) = [one for one in plan.decisions if one.what == "ComputeDomains"]
    assert "pool rack" in decision.chosen


@pytest.mark.parametrize(
    ("provider", "operator", "root"),
    [
        ("eks", {}, "/"),
        ("gke", {}, "/home/kubernetes/bin/nvidia"),
        ("existing", {}, "/run/nvidia/driver"),
        ("existing", {"driver": {"owner": "host", "version": "580.173.02"}}, "/"),
    ],
)
def test_the_driver_is_told_where_the_nodes_have_nvidias_driver(
    provider: str, operator: dict[str, Any], root: str
) -> None:
    assert driver(provider, operator=operator).values["nvidiaDriverRoot"] == root


@pytest.mark.parametrize(("provider", "owner"), [("existing", "operator"), ("existing", "host"), ("eks", None)])
def test_the_operator_stops_the_driver_while_it_replaces_nvidias_driver(provider: str, owner: str | None) -> None:
    """Pods of the DRA driver use NVIDIA's GPU driver and prevent its unloading (NVIDIA/aicr#1704)."""
    operator = {} if owner is None else {"driver": {"owner": owner, "version": "580.173.02"}}
    selector = driver(provider, operator=operator).values["kubeletPlugin"].get("nodeSelector")
    assert selector == ({"nvidia.com/gpu.deploy.client": "true"} if owner == "operator" else None)


def test_an_older_operator_is_warned_of_because_it_does_not_stop_the_driver() -> None:
    plan = planned("existing", operator={"release": "v26.3.3", "driver": {"version": "580.173.02"}})
    found = plan.operator.dra_driver
    assert found is not None
    assert "nodeSelector" not in found.values["kubeletPlugin"]  # an older operator sets no such label
    (warning,) = [one for one in plan.decisions if one.chosen.startswith("fails on racks")]
    assert "operator.release: v26.7.0" in warning.why


def test_the_driver_runs_only_on_racks_and_tolerates_their_taints() -> None:
    small = {"name": "serve", "machine_type": "g2-standard-48", "count": {"desired": 1}, "workload": "inference"}
    small |= {"zones": ["us-central1-a"], "taints": [{"key": "own", "effect": "NoSchedule"}]}
    plugin = driver("gke", pools=[A4X, small]).values["kubeletPlugin"]
    (term,) = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchExpressions": [{"key": "gpu-platform.dev/pool", "operator": "In", "values": ["rack"]}]}
    gate = {names.STARTUP_TAINT_KEY, names.READINESS_TAINT_KEY, names.FAILED_TAINT_KEY}
    assert {one["key"] for one in plugin["tolerations"]} == {"nvidia.com/gpu", "kubernetes.io/arch", *gate}


def test_the_driver_finds_selected_nodes_by_the_same_labels() -> None:
    plugin = driver("existing").values["kubeletPlugin"]
    (term,) = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["7"]}]}


@pytest.mark.parametrize(("provider", "pods"), [("gke", "46"), ("eks", None)])
def test_gke_admits_the_priority_class_of_the_driver_by_a_quota(provider: str, pods: str | None) -> None:
    quota = driver(provider).quota
    assert (str(quota.pods) if quota is not None else None) == pods


def test_without_nvlink_between_nodes_there_is_no_second_driver() -> None:
    big = {"name": "train", "machine_type": "a3-megagpu-8g", "count": {"desired": 2}, "workload": "training"}
    platform = rack("gke", pools=[{**big, "zones": ["us-central1-a"]}], teams=[])
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    assert plan.operator.dra_driver is None


def test_the_owner_of_a_cluster_may_install_the_driver() -> None:
    plan = planned("existing", operator={"compute_domains": False})
    assert plan.operator.dra_driver is None
    (decision,) = [one for one in plan.decisions if one.what == "ComputeDomains"]
    assert decision.chosen == "off"


def test_with_mode_dra_the_gpu_cluster_runs_the_one_driver() -> None:
    pool = {**EXISTING, "sharing": {"mode": "dra"}}
    plan = planned("existing", pools=[pool], operator={"toolkit": "host"}, teams=[])
    assert plan.operator.dra_driver is None
    assert plan.operator.gpu_cluster["draDriver"]["computeDomains"] == {"enabled": True}
    off = planned("existing", pools=[pool], operator={"toolkit": "host", "compute_domains": False}, teams=[])
    assert off.operator.gpu_cluster["draDriver"]["computeDomains"] == {"enabled": False}


@pytest.mark.parametrize(
    ("provider", "devices"),
    [("gke", "NICs or IMEX channels"), ("eks", "IMEX channels"), ("existing", "IMEX channels")],
)
def test_pods_of_a_rack_preempt_no_pods_for_what_they_claim(provider: str, devices: str) -> None:
    [found] = [one.chosen for one in planned(provider).decisions if one.what == "preemption"]
    assert found == f"none for pods that claim {devices}"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_kubernetes_before_1_34_is_refused_for_a_rack(provider: str) -> None:
    old = {**CLUSTERS[provider], "kubernetes": "1.33"}
    problems = refused(rack(provider, cluster=old))
    assert "1.34 or newer: the DRA driver" in problems["cluster.kubernetes"]


def test_a_driver_before_570_158_is_refused_for_a_rack() -> None:
    driver_of_host = {"driver": {"owner": "host", "version": "570.86.15"}}
    problems = refused(rack("existing", operator=driver_of_host))
    assert "570.158.01 or newer" in problems["operator.driver.version"]


@pytest.mark.parametrize("said", [True, False])
def test_compute_domains_are_declared_only_for_a_rack_that_is_not_simulated(said: bool) -> None:
    operator = {"compute_domains": said}
    plain = {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": 1}, "workload": "training"}
    sandbox = {"kind": "environment", "cluster": {"provider": "sandbox"}, "operator": operator}
    assert "p6e-gb200.36xlarge, " in refused({**sandbox, "pools": [plain]})["operator.compute_domains"]
    simulated = {**plain, "machine_type": "p6e-gb200.36xlarge"}
    assert "no Helm charts" in refused({**sandbox, "pools": [simulated]})["operator.compute_domains"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_workload_over_a_rack_claims_the_channel_of_its_own_domain(provider: str) -> None:
    (team,) = planned(provider).teams
    (workload,) = team.workloads
    assert workload.compute_domain == "pretrain-channel"
    assert workload.claims[0] == "pretrain-channel"
    assert workload.requests["nvidia.com/gpu"] == "4"
    assert team.compute_domains


def workload_refused(provider: str, **said: Any) -> dict[str, str]:
    platform = rack(provider)
    platform["teams"] = [{**platform["teams"][0], **said.pop("team", {})}]
    platform["teams"][0]["workloads"] = [{**platform["teams"][0]["workloads"][0], **said}]
    return refused(platform)


def test_a_domain_on_a_pool_without_nvlink_is_refused() -> None:
    platform = rack("eks")
    plain = {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": 1}, "workload": "training"}
    platform["pools"] = [ULTRASERVER, {**plain, "zones": ["us-east-1a"]}]
    platform["teams"][0]["workloads"][0] |= {"pool": "train", "replicas": 1}
    problems = refused(platform)
    assert "a pool of real nodes that NVLink connects: rack" in problems["teams[0].workloads[0].compute_domain"]


def test_a_name_that_no_claim_of_a_pod_can_have_is_refused() -> None:
    assert "at most 55" in workload_refused("eks", name="a" * 56)["teams[0].workloads[0].name"]


def test_simulated_racks_have_no_domains() -> None:
    platform = rack("existing", cluster={"provider": "sandbox"})
    platform["pools"] = [{key: value for key, value in EXISTING.items() if key != "nodes"}]
    assert "created in the sandbox" in refused(platform)["teams[0].workloads[0].compute_domain"]

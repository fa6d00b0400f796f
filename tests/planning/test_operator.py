"""The operator's Helm values on each platform, and the labels and software that are expected of nodes on which the
operator does not run.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.charts.section import ignored, merged
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from tests.components.aks.aks_recorded import CREATED, POOL
from tests.planning.conftest import PlanMaker, pool
from tests.planning.test_software import BOTTLEROCKET, EKS, GKE, UBUNTU, aws, gcp
from tests.support.plans import device_plugin_config

OPERANDS = "nvidia.com/gpu.deploy.operands"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
NVIDIA_ON_COS = "/home/kubernetes/bin/nvidia"


def values(plan: EnvironmentPlan) -> dict[str, Any]:
    return dict(plan.operator.helm_values)


def enabled(plan: EnvironmentPlan) -> dict[str, bool]:
    parts = ("driver", "toolkit", "devicePlugin", "migManager", "gfd")
    return {part: plan.operator.helm_values[part]["enabled"] for part in parts}


def offered(planned: PoolPlan) -> dict[str, int]:
    return {offer.name: offer.per_node for offer in planned.resources}


def decision(plan: EnvironmentPlan, subject: str, what: str) -> Decision:
    found = [one for one in plan.decisions if (one.subject, one.what) == (subject, what)]
    assert len(found) == 1, found
    return found[0]


def test_the_controller_may_use_twice_the_memory_of_the_chart(make_plan: PlanMaker) -> None:
    limits = values(make_plan(aws(), cluster=EKS))["operator"]["resources"]["limits"]
    assert limits == {"cpu": "500m", "memory": "700Mi"}


# -- EKS --------------------------------------------------------------------------------------------------


def test_eks_10_al2023_disables_driver_and_toolkit_but_not_the_plugin(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(aws(), cluster=EKS)
    found = enabled(plan)
    assert (found["driver"], found["toolkit"], found["devicePlugin"]) == (False, False, True)
    assert "version" not in plan.operator.helm_values["driver"]
    assert plan.pools[0].labels[PLUGIN_CONFIG] == "serve"
    assert OPERANDS not in plan.pools[0].labels


def test_eks_10_bottlerocket_ships_its_own_device_plugin_that_off_too(make_plan: PlanMaker) -> None:
    plan = make_plan(aws(image=BOTTLEROCKET), cluster=EKS)
    found = enabled(plan)
    assert (found["driver"], found["toolkit"], found["devicePlugin"]) == (False, False, False)


def test_eks_10_operators_plugin_avoids_bottlerocket_nodes(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(aws("a"), aws("b", image=BOTTLEROCKET), cluster=EKS)
    assert enabled(plan)["devicePlugin"] is True
    assert [one.labels.get(OPERANDS) for one in plan.pools] == [None, "false"]
    assert [one.labels.get(PLUGIN_CONFIG) for one in plan.pools] == ["a", None]
    assert set(device_plugin_config(plan).data) == {"default", "a"}
    groups = [one.cloud for one in plan.pools if isinstance(one.cloud, EksPoolPlan)]
    assert [group.labels.get(OPERANDS) for group in groups] == [None, "false"]


def test_nodes_without_operands_are_not_compared_with_labels_of_feature_discovery(
    make_plan: PlanMaker,
) -> None:
    sharing = {"mode": "time-slicing", "replicas": 4}
    plan = make_plan(aws("a", sharing=sharing), aws("b", image=BOTTLEROCKET, sharing=sharing), cluster=EKS)
    discovered = ["nvidia.com/gpu.product" in one.node_expectation.labels for one in plan.pools]
    assert discovered == [True, False]
    assert [dict(one.node_expectation.allocatable) for one in plan.pools] == [{"nvidia.com/gpu.shared": 16}] * 2


@pytest.mark.parametrize(
    ("sharing", "product"),
    [
        ({"mode": "time-slicing"}, "NVIDIA-H200-SHARED"),
        ({"mode": "mps"}, "NVIDIA-H200-SHARED"),
        ({"mode": "mig", "layout": {"3g.71gb": 2}}, "NVIDIA-H200"),
    ],
)
def test_only_shares_of_whole_gpus_change_the_product_label(
    sharing: dict[str, object], product: str, make_plan: PlanMaker
) -> None:
    plan = make_plan(pool(machine_type="p5en.48xlarge", sharing=sharing | {"replicas": 2, "rename": False}))
    assert plan.pools[0].node_expectation.labels["nvidia.com/gpu.product"] == product


def test_bottlerocket_offers_mig_instances_without_the_mig_manager(
    make_plan: PlanMaker,
) -> None:
    cut = aws(machine_type="p5.48xlarge", image=BOTTLEROCKET, sharing={"mode": "mig", "layout": {"1g.10gb": 7}})
    plan = make_plan(cut, cluster=EKS)
    assert offered(plan.pools[0]) == {"nvidia.com/gpu": 56}
    assert plan.operator.mig_config is None
    assert enabled(plan)["migManager"] is False
    assert not [label for label in plan.pools[0].node_expectation.labels if label.startswith("nvidia.com/mig.")]
    assert plan.pools[0].expectations.expect["mig-instances"].value == [{"1g.10gb": 7}] * 8


def test_mig_on_cloud_nodes_may_reboot_them(make_plan: PlanMaker) -> None:
    cut = pool("lab", "p4de.24xlarge", workload="development", sharing={"mode": "mig", "layout": {"1g.10gb": 7}})
    plan = make_plan(cut, cluster=EKS)
    assert values(plan)["migManager"]["env"] == [{"name": "WITH_REBOOT", "value": "true"}]
    assert "env" not in values(make_plan(cut))["migManager"]


def test_the_plan_states_who_installs_what_and_why(make_plan: PlanMaker) -> None:
    plan = make_plan(aws("a"), aws("b", image=BOTTLEROCKET), cluster=EKS)
    said = [decision(plan, f"pool {name}", "driver, toolkit, device plugin") for name in "ab"]
    assert [one.chosen for one in said] == ["image, image, operator", "image, image, image"]
    assert "no DCGM exporter" in said[1].why
    driver = decision(plan, "operator", "driver")
    assert driver.chosen == "the version in the node image"
    assert driver.why == "the nodes already have a driver that the operator did not install"


@pytest.mark.parametrize(
    ("driver", "chosen"),
    [
        ({"owner": "host"}, "the version in the node image"),
        ({"owner": "host", "version": "580.173.02"}, "580.173.02, installed by the host"),
    ],
)
def test_on_an_existing_cluster_the_reason_for_a_hosts_driver_is_its_owner(
    make_plan: PlanMaker, driver: dict[str, str], chosen: str
) -> None:
    cluster = {"provider": "existing", "name": "dev", "kubernetes": "1.36"}
    on_host = pool(nodes={"selector": {"gpu": "a100"}})
    found = decision(make_plan(on_host, cluster=cluster, operator={"driver": driver}), "operator", "driver")
    assert (found.chosen, found.why) == (chosen, "operator.driver.owner is host")


def test_every_taint_of_a_pool_is_printed_with_its_reason(make_plan: PlanMaker) -> None:
    taints = [
        {"key": "example.com/team", "value": "vision", "effect": "NoExecute"},
        {"key": "own", "effect": "NoSchedule"},
    ]
    reserved = {"type": "reservation", "reservation": "rack", "zone": "us-central1-a"}
    arm = {"machine_type": "a4x-highgpu-4g", "network": {"rdma": False}, "capacity": reserved}
    plan = make_plan(gcp(taints=taints, **arm), cluster=GKE)
    found = {one.chosen: one.why for one in plan.decisions if one.what == "taint"}
    assert list(found) == [
        "nvidia.com/gpu=present:NoSchedule",
        "example.com/team=vision:NoExecute",
        "own:NoSchedule",
        "kubernetes.io/arch=arm64:NoSchedule",
    ]
    assert found["own:NoSchedule"] == "set in the stack file"
    assert found["kubernetes.io/arch=arm64:NoSchedule"].startswith("GKE adds this taint")


@pytest.mark.parametrize("version", ["595", "595.91", "595.91.07"])
def test_nodes_of_an_own_image_are_compared_with_its_driver(make_plan: PlanMaker, version: str) -> None:
    own = {"ami": "ami-0a1b2c3d4e5f60718", "driver": version}
    expect = make_plan(aws(image=own), cluster=EKS).pools[0].expectations.expect
    assert expect["driver-version"].value == version
    assert expect["driver-version"].source == "stack: pools[0].image.driver"
    assert "driver-version" not in make_plan(aws(), cluster=EKS).pools[0].expectations.expect


def test_the_remedy_of_another_driver_names_what_gives_a_node_its_driver(make_plan: PlanMaker) -> None:
    def remedy(plan: EnvironmentPlan) -> str:
        return plan.pools[0].expectations.expect["driver-version"].remedy

    own = {"ami": "ami-0a1b2c3d4e5f60718", "driver": "595.91.07"}
    assert "correct pools[0].image.driver" in remedy(make_plan(aws(image=own), cluster=EKS))
    version = {"driver": {"version": "580.126.20"}}
    assert "correct operator.driver.version" in remedy(make_plan(aws(), cluster=EKS, operator=version))
    assert "then reboot or replace it" in remedy(make_plan(gcp(), cluster=GKE, operator=version))
    existing = {"provider": "existing", "kubernetes": "1.36"}
    for owner, text in (("operator", "wait for the operator's driver rollout"), ("host", "install the driver on")):
        operator = {"toolkit": "host", "driver": {"owner": owner, "version": "580.173.02"}}
        plan = make_plan(pool(nodes={"names": ["gpu-0"]}), cluster=existing, operator=operator)
        assert remedy(plan).startswith(text)


def test_a_driver_that_the_platform_changes_node_by_node_is_marked_for_the_agent(make_plan: PlanMaker) -> None:
    def rolled(plan: EnvironmentPlan) -> bool:
        return plan.pools[0].expectations.expect["driver-version"].rolled

    own = {"ami": "ami-0a1b2c3d4e5f60718", "driver": "595.91.07"}
    assert rolled(make_plan(aws(image=own), cluster=EKS)), "EKS replaces the nodes"
    existing = {"provider": "existing", "kubernetes": "1.36"}
    for owner, expected in (("operator", True), ("host", False)):
        operator = {"toolkit": "host", "driver": {"owner": owner, "version": "580.173.02"}}
        plan = make_plan(pool(nodes={"names": ["gpu-0"]}), cluster=existing, operator=operator)
        assert rolled(plan) == expected, owner


def test_only_a_layout_from_the_platform_is_marked_for_the_agent(
    make_plan: PlanMaker,
) -> None:
    existing = {"provider": "existing", "kubernetes": "1.36"}
    sharing = {"mode": "mig", "layout": {"1g.10gb": 7}}
    for nodes, expected in (({"names": ["gpu-0"]}, True), ({"selector": {"example.com/gpus": "mig"}}, False)):
        plan = make_plan(
            pool(machine_type="dgx-h100", workload="development", sharing=sharing, nodes=nodes), cluster=existing
        )
        expect = plan.pools[0].expectations.expect
        assert [expect[check].rolled for check in ("mig-mode", "mig-instances")] == [expected, expected]
        assert expect["mig-mode"].mig_config, "the agent reports this config if a node requests another"


# -- GKE --------------------------------------------------------------------------------------------------


def test_gke_9_operator_on_cos_driver_enabled_false(make_plan: PlanMaker) -> None:
    found = enabled(make_plan(gcp(), cluster=GKE))
    assert (found["driver"], found["toolkit"], found["devicePlugin"]) == (False, True, True)


def test_gke_9_install_directories_are_home_kubernetes_bin_nvidia(
    make_plan: PlanMaker,
) -> None:
    found = values(make_plan(gcp(), cluster=GKE))
    assert found["hostPaths"] == {"driverInstallDir": NVIDIA_ON_COS}
    assert found["toolkit"]["installDir"] == NVIDIA_ON_COS


FROM_FILE = {"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}
EXISTING = {"provider": "existing", "kubernetes": "1.36"}
OLDER = {"operator": {"release": "v26.3.3"}}


def on_premises() -> dict[str, Any]:
    return pool(machine_type="dgx-h100", nodes={"names": ["gpu-0"]})


P5 = {**aws(machine_type="p5.48xlarge", zones=["us-east-2a"]), "workload": "training"}


def test_gke_9_toolkit_env_runtime_config_source_file(make_plan: PlanMaker) -> None:
    for image, rest in itertools.product(({"family": "cos"}, UBUNTU), ({}, OLDER)):
        found = values(make_plan(gcp(image=image), cluster=GKE, **rest))
        assert found["toolkit"]["env"][1:] == [FROM_FILE]


@pytest.mark.parametrize("rest", [{}, OLDER])
def test_toolkits_of_all_releases_keep_the_version_of_containerds_file_on_aks(
    make_plan: PlanMaker, rest: dict[str, Any]
) -> None:
    plan = make_plan(POOL, cluster=CREATED, **rest)
    assert values(plan)["toolkit"]["env"][1:] == [FROM_FILE]
    assert "containerd" not in [one.what for one in plan.decisions]


def test_the_toolkit_writes_the_version_of_containerds_own_file(make_plan: PlanMaker) -> None:
    plan = make_plan(on_premises(), cluster=EXISTING)
    assert values(plan)["toolkit"]["env"][1:] == [FROM_FILE]
    assert "containerd" not in [one.what for one in plan.decisions]


def test_an_older_toolkit_states_which_containerd_it_would_stop(make_plan: PlanMaker) -> None:
    plan = make_plan(on_premises(), cluster=EXISTING, **OLDER)
    assert FROM_FILE not in values(plan)["toolkit"]["env"]
    found = decision(plan, "operator", "containerd")
    assert found.chosen == "older than 2.3; verify this yourself"
    assert "operator.release: v26.7.0" in found.why


@pytest.mark.parametrize("rest", [{}, OLDER])
def test_the_stack_file_chooses_what_the_toolkit_reads(make_plan: PlanMaker, rest: dict[str, Any]) -> None:
    own = {"name": "RUNTIME_CONFIG_SOURCE", "value": "file=/run/k0s/containerd-cri.toml"}
    charts = {"gpu-operator": {"values": {"toolkit": {"env": [own]}}}}
    plan = make_plan(on_premises(), cluster=EXISTING, charts=charts, **rest)
    assert merged(values(plan), charts["gpu-operator"]["values"])["toolkit"]["env"][0] == own
    assert "containerd" not in [one.what for one in plan.decisions]


def test_on_ubuntu_the_operator_installs_the_driver_in_its_usual_place(make_plan: PlanMaker) -> None:
    plan = make_plan(gcp(image=UBUNTU), cluster=GKE)
    found = values(plan)
    assert (found["driver"]["enabled"], found["driver"]["version"]) == (True, "595.91.07")
    assert "hostPaths" not in found
    assert "installDir" not in found["toolkit"]
    assert plan.pools[0].driver_version == "595.91.07"


def test_gke_9_a_quota_admits_critical_pods_of_the_operator(
    make_plan: PlanMaker,
) -> None:
    quota = make_plan(gcp(count={"desired": 2, "max": 50}), cluster=GKE).operator.quota
    assert quota is not None
    assert set(quota.priority_classes) == {"system-node-critical", "system-cluster-critical"}
    assert quota.pods >= 50 * 8, "if the quota is too small, the operands of some nodes cannot start"
    assert make_plan(aws(), cluster=EKS).operator.quota is None


def test_gke_9_mig_with_reboot_true(make_plan: PlanMaker) -> None:
    cut = gcp(machine_type="a2-ultragpu-4g", sharing={"mode": "mig", "layout": {"1g.10gb": 7}})
    found = values(make_plan(cut, cluster=GKE))
    assert found["migManager"]["env"] == [{"name": "WITH_REBOOT", "value": "true"}]


@pytest.mark.parametrize(
    ("sharing", "gpus", "labels"),
    [
        ({"mode": "none"}, 4, {}),
        (
            {"mode": "time-slicing", "replicas": 4},
            16,
            {
                "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
                "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
            },
        ),
        (
            {"mode": "mig", "layout": {"1g.10gb": 7}},
            28,
            {"cloud.google.com/gke-gpu-partition-size": "1g.10gb"},
        ),
    ],
)
def test_gke_9_built_in_sharing_uses_nvidia_com_gpu_without_a_config(
    make_plan: PlanMaker, sharing: dict[str, Any], gpus: int, labels: dict[str, str]
) -> None:
    of_gke = gcp(machine_type="a2-ultragpu-4g", device_plugin="provider", sharing=sharing)
    plan = make_plan(of_gke, cluster=GKE)
    planned = plan.pools[0]
    assert offered(planned) == {"nvidia.com/gpu": gpus}
    assert set(device_plugin_config(plan).data) == {"default"}
    assert plan.operator.mig_config is None
    assert PLUGIN_CONFIG not in planned.labels
    expected = {"cloud.google.com/gke-accelerator": "nvidia-a100-80gb", **labels}
    said = {key: value for key, value in planned.node_expectation.labels.items() if "cloud.google.com" in key}
    assert said == expected


def test_gke_9_never_both_device_plugins_beside_each_other_on_one_pool(make_plan: PlanMaker) -> None:
    plan = make_plan(gcp("a"), gcp("b", device_plugin="provider"), cluster=GKE)
    assert enabled(plan)["devicePlugin"] is True
    assert [one.labels.get(OPERANDS) for one in plan.pools] == [None, "false"]
    assert values(plan)["hostPaths"] == {"driverInstallDir": NVIDIA_ON_COS}


def test_the_operator_enables_nothing_that_gke_installs(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(gcp(device_plugin="provider"), cluster=GKE)
    found = enabled(plan)
    assert (found["driver"], found["toolkit"], found["devicePlugin"]) == (False, False, False)
    assert "hostPaths" not in values(plan)
    assert plan.pools[0].driver_version is None


# -- all providers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "cluster", "runtime_class"),
    [
        (aws(), EKS, "nvidia"),
        (aws(image=BOTTLEROCKET), EKS, "nvidia"),
        (gcp(), GKE, "nvidia"),
        (gcp(device_plugin="provider"), GKE, None),
    ],
)
def test_the_node_agent_is_privileged_for_access_to_nvml(
    make_plan: PlanMaker, one: dict[str, Any], cluster: dict[str, Any], runtime_class: str | None
) -> None:
    plan = make_plan(one, cluster=cluster)
    access = plan.pools[0].software.gpu_access
    assert (access.runtime_class, access.privileged) == (runtime_class, True)
    assert plan.validation.pod_security == "privileged"


def test_a_pod_without_privileges_gets_no_gpus_by_an_environment_variable(make_plan: PlanMaker) -> None:
    variable, _ = make_plan(pool()).operator.cluster_policy["toolkit"]["env"]
    assert variable == {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}


@pytest.mark.parametrize(
    ("one", "cluster", "enabled"),
    [
        (P5, EKS, True),
        ({**P5, "network": {"rdma": False}}, EKS, False),
        ({**P5, "workload": "inference", "network": {"rdma": True}}, EKS, False),
        ({**aws(machine_type="g6.xlarge"), "workload": "training"}, EKS, False),
        (gcp(), GKE, False),
        (on_premises(), EXISTING, False),
    ],
)
def test_gdrcopy_is_on_for_rdma_training_on_nodes_with_its_module(
    make_plan: PlanMaker, one: dict[str, Any], cluster: dict[str, Any], enabled: bool
) -> None:
    plan = make_plan(one, cluster=cluster)
    assert plan.operator.helm_values.get("gdrcopy") == ({"enabled": True} if enabled else None)
    assert ("GDRCopy" in [one.what for one in plan.decisions]) == enabled


@pytest.mark.parametrize(("one", "cluster", "chosen"), [(P5, EKS, False), (on_premises(), EXISTING, True)])
def test_the_stack_file_can_switch_gdrcopy_off_and_on(
    make_plan: PlanMaker, one: dict[str, Any], cluster: dict[str, Any], chosen: bool
) -> None:
    added = {"gdrcopy": {"enabled": chosen}}
    found = values(make_plan(one, cluster=cluster, charts={"gpu-operator": {"values": added}}))
    assert (merged(found, added)["gdrcopy"], ignored(found, added)) == ({"enabled": chosen}, [])


def test_without_a_cloud_the_operator_gets_what_it_always_got(make_plan: PlanMaker) -> None:
    plan = make_plan(pool())
    assert set(plan.operator.cluster_policy) >= {"driver", "toolkit", "devicePlugin"}
    assert "hostPaths" not in plan.operator.cluster_policy
    assert plan.operator.cluster_policy["toolkit"]["enabled"] is True
    assert yaml.safe_load(device_plugin_config(plan).data["default"])["flags"] == {"migStrategy": "none"}


def test_a_driver_outside_the_operators_release_is_refused(make_plan: PlanMaker) -> None:
    def on_existing(owner: str) -> EnvironmentPlan:
        operator = {"toolkit": "host", "driver": {"owner": owner, "version": "580.999.01"}}
        cluster = {"provider": "existing", "kubernetes": "1.36"}
        return make_plan(pool(nodes={"names": ["gpu-0"]}), cluster=cluster, operator=operator)

    with pytest.raises(BadInput, match=r"operator.driver.version: .*580.999.01.*a driver of v26.7.0"):
        on_existing("operator")
    assert on_existing("host").pools[0].driver_version == "580.999.01"


def test_a_driver_outside_its_release_is_refused_on_cloud_nodes(
    make_plan: PlanMaker,
) -> None:
    operator = {"driver": {"version": "580.999.01"}}
    with pytest.raises(BadInput, match=r"operator.driver.version: .*580.999.01.*a driver of v26.7.0"):
        make_plan(gcp(image=UBUNTU), cluster=GKE, operator=operator)
    assert make_plan(aws(), cluster=EKS, operator=operator).pools[0].driver_version == "580.999.01"


@pytest.mark.parametrize(
    ("version", "nearest"), [("470.57.02", "535.309.01"), ("580.105.08", "580.173.02"), ("700.1.1", "610.57.04")]
)
def test_a_driver_of_the_nearest_branch_is_proposed(make_plan: PlanMaker, version: str, nearest: str) -> None:
    driver = {"owner": "operator", "version": version}
    with pytest.raises(BadInput) as caught:
        make_plan(pool(), operator={"release": "v26.7.0", "driver": driver})
    [problem] = [one for one in caught.value.problems if one.path == "operator.driver.version"]
    assert problem.fix == f"write version: {nearest}, or remove it to use the default of the release"

"""Agent pools of AKS as the program registers them in a first preview, where every output is unknown."""

from __future__ import annotations

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from tests.components.aks.aks_recorded import CREATED, EXISTING, FORMS, SUBNET, agent_pool, platform_of, recorded
from tests.support.recorded import record_platform

SPOT_TAINT = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"


def test_the_operator_owns_the_gpu_software_by_default() -> None:
    assert agent_pool().inputs["gpuDriver"] == "None"
    values = recorded().one("Release", "gpu-operator").inputs["values"]
    assert values["driver"]["enabled"] is True
    assert values["toolkit"]["enabled"] is True


def test_aks_installs_driver_and_toolkit_if_the_host_owns_them() -> None:
    recording = recorded(operator={"driver": {"owner": "host"}})
    (pool,) = recording.of("KubernetesClusterNodePool")
    values = recording.one("Release", "gpu-operator").inputs["values"]
    assert pool.inputs["gpuDriver"] == "Install"
    assert (values["driver"]["enabled"], values["toolkit"]["enabled"]) == (False, False)


def test_a_cpu_pool_has_no_gpu_profile_and_no_gpu_taint() -> None:
    inputs = agent_pool(FORMS["cpu-only"]).inputs
    assert inputs.get("gpuDriver") is None
    assert inputs["nodeTaints"] == []


def test_gpu_nodes_have_the_taint_that_keeps_other_pods_off() -> None:
    assert agent_pool().inputs["nodeTaints"] == ["nvidia.com/gpu=present:NoSchedule"]


def test_spot_nodes_have_the_label_and_taint_of_aks_and_no_upgrade_settings() -> None:
    inputs = agent_pool(FORMS["spot"]).inputs
    assert (inputs["priority"], inputs["evictionPolicy"], inputs["spotMaxPrice"]) == ("Spot", "Delete", -1)
    assert inputs["nodeTaints"] == ["nvidia.com/gpu=present:NoSchedule", SPOT_TAINT]
    assert inputs["nodeLabels"]["kubernetes.azure.com/scalesetpriority"] == "spot"
    assert inputs.get("upgradeSettings") is None


def test_an_autoscaled_pool_has_limits_and_keeps_its_number_of_nodes() -> None:
    pool = agent_pool(FORMS["growing"])
    assert (pool.inputs["autoScalingEnabled"], pool.inputs["minCount"], pool.inputs["maxCount"]) == (True, 0, 4)
    assert pool.ignore_changes == ("nodeCount",)


def test_a_pool_with_a_fixed_number_of_nodes_has_no_autoscaler() -> None:
    pool = agent_pool()
    assert (pool.inputs["autoScalingEnabled"], pool.inputs["nodeCount"]) == (False, 2)
    assert pool.inputs.get("maxCount") is None
    assert pool.ignore_changes == ()


@pytest.mark.parametrize(
    ("pool", "name"),
    [
        ("train", "train"),
        ("twelveletter", "twelveletter"),
        ("gpu-training", "gputrain8325"),
        ("system", "systembbc5"),
        ("4090", "p4090eb8b"),
    ],
)
def test_agent_pool_names_have_at_most_twelve_letters(pool: str, name: str) -> None:
    assert agent_pool({"name": pool}).inputs["name"] == name
    assert len(name) <= 12


def test_pools_whose_names_differ_only_in_hyphens_have_different_agent_pools() -> None:
    pools = recorded({"name": "ab"}, {"name": "a-b"}).of("KubernetesClusterNodePool")
    assert len({pool.inputs["name"] for pool in pools}) == 2


def test_the_os_disk_is_ephemeral_if_the_machine_has_the_space() -> None:
    small, large = agent_pool(), agent_pool({"disk": {"size_gb": 512}})
    assert (small.inputs["osDiskType"], small.inputs["osDiskSizeGb"]) == ("Ephemeral", 200)
    assert (large.inputs["osDiskType"], large.inputs["osDiskSizeGb"]) == ("Managed", 512)


def test_nodes_join_the_existing_subnet_of_a_new_cluster() -> None:
    create = {**CREATED["create"], "network": {"subnet": SUBNET}}
    assert agent_pool(cluster={**CREATED, "create": create}).inputs["vnetSubnetId"] == SUBNET


def test_nodes_close_together_are_in_a_proximity_placement_group() -> None:
    recording = recorded(FORMS["close"])
    (group,) = recording.of("PlacementGroup")
    (pool,) = recording.of("KubernetesClusterNodePool")
    assert group.urn in recording.before(pool)
    assert "maxSurge" not in pool.inputs["upgradeSettings"]


def test_the_largest_machines_are_replaced_without_a_surge_node() -> None:
    upgrade = agent_pool(FORMS["h100"]).inputs["upgradeSettings"]
    assert upgrade == {"maxUnavailable": "1", "drainTimeoutInMinutes": 60}


@pytest.mark.parametrize("form", FORMS)
def test_only_one_of_surge_and_unavailable_nodes_is_set(form: str) -> None:
    # The provider refuses both, and none of them unless the nodes are spot nodes.
    pool = agent_pool(FORMS[form]).inputs
    found = {"maxSurge", "maxUnavailable"} & set(pool.get("upgradeSettings") or ())
    assert len(found) == (0 if pool["priority"] == "Spot" else 1)


def test_an_existing_proximity_placement_group_is_used_unchanged() -> None:
    group = "/".join((*SUBNET.split("/")[:5], "providers/Microsoft.Compute/proximityPlacementGroups/near"))
    recording = recorded({"placement": {"type": "proximity", "group": group}})
    assert not recording.has("PlacementGroup")
    assert recording.of("KubernetesClusterNodePool")[0].inputs["proximityPlacementGroupId"] == group


def test_a_training_pool_aligns_gpus_with_cpus() -> None:
    kubelet = agent_pool({"topology": {"policy": "restricted"}}).inputs["kubeletConfig"]
    assert (kubelet["topologyManagerPolicy"], kubelet["cpuManagerPolicy"]) == ("restricted", "static")
    assert kubelet["cpuCfsQuotaEnabled"] is True


def test_company_limits_reach_the_kubelet() -> None:
    assert agent_pool(FORMS["limits"]).inputs["kubeletConfig"] == {
        "cpuCfsQuotaEnabled": False,
        "podMaxPid": 4096,
        "containerLogMaxSizeMb": 50,
        "containerLogMaxFiles": 3,
        "imageGcHighThreshold": 80,
        "imageGcLowThreshold": 60,
    }


def test_nodes_of_a_new_cluster_have_its_kubernetes_version() -> None:
    assert agent_pool().inputs["orchestratorVersion"] == "1.35"
    assert agent_pool(cluster=EXISTING).inputs.get("orchestratorVersion") is None


def test_a_pool_is_deleted_before_it_is_replaced() -> None:
    assert agent_pool().delete_before_replace is True


def test_production_pools_are_protected() -> None:
    assert agent_pool().protect is True
    assert not agent_pool(cluster={**CREATED, "production": False}).protect


def test_mig_partitions_are_made_by_the_operator() -> None:
    recording = recorded(FORMS["mig"])
    (pool,) = recording.of("KubernetesClusterNodePool")
    assert pool.inputs.get("gpuInstance") is None
    assert pool.inputs["nodeLabels"]["nvidia.com/mig.config"]


@pytest.mark.parametrize("gate", ["startup", "always"])
def test_a_gate_of_new_nodes_is_refused_with_its_field(gate: str) -> None:
    with pytest.raises(BadInput, match=r"pools\[0\]\.gate_nodes: found '" + gate):
        record_platform(platform_of({"gate_nodes": gate}))
    with pytest.raises(BadInput, match=r"validation\.gate_nodes: found '" + gate):
        record_platform(platform_of(validation={"gate_nodes": gate}))


def test_a_mig_pool_must_say_that_its_new_nodes_have_no_gate() -> None:
    with pytest.raises(BadInput, match=r"pools\[0\]\.gate_nodes: found 'startup'.* write gate_nodes: never"):
        record_platform(platform_of({**FORMS["mig"], "gate_nodes": None}))


def test_the_catalogue_knows_how_long_the_nodes_are_drained() -> None:
    drained = agent_pool().inputs["upgradeSettings"]["drainTimeoutInMinutes"]
    assert load_catalog().drain_limits["aks", "update"].seconds == drained * 60

"""The resources that the program registers, checked against each line of checklist.md in this folder."""

from __future__ import annotations

from typing import Any

import pytest
from gke_api import node_pool
from gke_forms import FORMS, RACK, ZONE, gke_pool, node_pool_of, record_gke, recorded_of

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.recorded.properties import UNKNOWN
from tests.support.sold import sold

CATALOG = load_catalog()
GCP = [machine for machine in CATALOG.machine_types.values() if machine.vendor == "gcp" and machine.gpu]
NO_PLUGIN = "gke-no-default-nvidia-gpu-device-plugin"
DRA_NETWORKING = "cloud.google.com/gke-networking-dra-driver"


def inputs(name: str) -> Any:
    return node_pool_of(name).inputs


def config(name: str) -> Any:
    return inputs(name)["nodeConfig"]


def accelerator(name: str) -> Any:
    (only,) = config(name)["guestAccelerators"]
    return only


@pytest.mark.parametrize("form", FORMS)
def test_gke_inputs_match_the_fields_and_enums_of_the_api_protos(form: str):
    message = node_pool(inputs(form))
    assert message.config.machine_type == FORMS[form]["machine_type"]
    assert message.config.accelerators[0].accelerator_count > 0


@pytest.mark.parametrize(("form", "count"), [("a3-high", 4), ("a3-mega-reserved", 8)])
def test_gke_2_pools_join_4_extra_networks_on_a3_high_and_8_on_a3_mega(form: str, count: int):
    names = [f"ml-us-central1-gpu-{index}" for index in range(count)]
    assert inputs(form)["networkConfig"]["additionalNodeNetworkConfigs"] == [
        {"network": name, "subnetwork": name} for name in names
    ]
    waited = node_pool_of(form).property_dependencies["networkConfig"]
    assert {r.name for r in recorded_of(form).resources if r.urn in waited} == set(names)


@pytest.mark.parametrize("form", ["a3-ultra", "a4", "a3-ultra-flex", "a4-queued"])
def test_gke_2_dra_networking_uses_the_auto_profile_and_its_label(
    form: str,
):
    assert inputs(form)["networkConfig"] == {"acceleratorNetworkProfile": "auto"}
    assert config(form)["labels"][DRA_NETWORKING] == "true"


@pytest.mark.parametrize("form", ["a2-high", "g2-spot", "g4"])
def test_gke_2_machines_without_gpu_nics_have_no_extra_network(form: str):
    assert "networkConfig" not in inputs(form)
    assert DRA_NETWORKING not in config(form)["labels"]


def test_gke_3_compact_placement_has_a_collocated_resource_policy():
    recorded = recorded_of("a3-mega-reserved")
    policy = recorded.one("ResourcePolicy", "a3-mega-reserved-compact")
    assert policy.type == "gcp:compute/resourcePolicy:ResourcePolicy"
    assert policy.inputs["groupPlacementPolicy"] == {"collocation": "COLLOCATED"}
    (provider,) = [r for r in recorded.resources if policy.provider.startswith(f"{r.urn}::")]
    assert (provider.inputs["project"], provider.inputs["region"]) == ("my-project", "us-central1")
    record = node_pool_of("a3-mega-reserved")
    assert record.inputs["placementPolicy"] == {"type": "COMPACT", "policyName": UNKNOWN}
    assert record.property_dependencies["placementPolicy"] == (policy.urn,)
    assert record.provider == policy.provider


def test_rack_nodes_have_a_workload_policy_instead_of_compact_placement():
    recorded = record_gke(gke_pool("rack", machine_type="a4x-highgpu-4g", **RACK))
    policy = recorded.one("ResourcePolicy", "rack-nvlink")
    assert policy.inputs["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "1x72"}
    assert "groupPlacementPolicy" not in policy.inputs
    record = node_pool_of("rack", recorded)
    assert record.inputs["placementPolicy"] == {"type": "COMPACT", "policyName": UNKNOWN}
    assert record.property_dependencies["placementPolicy"] == (policy.urn,)


def test_gke_3_or_a_policy_that_is_there_by_its_name():
    assert inputs("a3-mega-block")["placementPolicy"] == {
        "type": "COMPACT",
        "policyName": "policy-of-the-reservation",
    }
    assert "a3-mega-block-compact" not in [r.name for r in recorded_of("a3-mega-block").of("ResourcePolicy")]


def compact_forms() -> list[str]:
    return [form for form in FORMS if "placementPolicy" in inputs(form)]


def test_gke_3_multi_node_training_with_gpu_nics_is_compact_by_default():
    assert sorted(compact_forms()) == ["a3-high", "a3-mega-block", "a3-mega-reserved", "a3-ultra", "a3-ultra-flex"]


def test_gke_3_compact_placement_has_exactly_one_node_location():
    assert {form: inputs(form)["nodeLocations"] for form in compact_forms()} == {
        form: [ZONE] for form in compact_forms()
    }


def test_gke_3_compact_placement_upgrades_one_node_without_surge():
    assert compact_forms()
    for form in (form for form in compact_forms() if form != "a3-ultra-flex"):
        assert inputs(form)["upgradeSettings"] == {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize("form", ["a3-ultra-flex", "a4-queued"])
def test_gke_sets_the_upgrade_settings_of_flex_start_pools_itself(form: str):
    assert "upgradeSettings" not in inputs(form)


def refused(**said: Any) -> str:
    with pytest.raises(BadInput) as error:
        record_gke(gke_pool("train", **said))
    return str(error.value)


def test_gke_3_compact_placement_not_with_queued_provisioning():
    assert "placementPolicy" not in inputs("a4-queued")
    assert "queued provisioning" in refused(
        machine_type="a4-highgpu-8g",
        count={"desired": 0, "max": 8},
        capacity={"type": "flex-start", "queued": True},
        placement={"type": "compact"},
    )


@pytest.mark.parametrize("machine", [m.name for m in GCP])
def test_gke_3_compact_placement_with_flex_start_only_on_a3_ultra_and_a4(machine: str):
    pool = gke_pool(
        "train",
        machine_type=machine,
        count={"desired": 0, "max": 8},
        capacity={"type": "flex-start"},
        placement={"type": "compact"},
    )
    if machine.startswith(("a3-ultragpu-", "a4-")):
        assert "placementPolicy" in node_pool_of("train", record_gke(pool)).inputs
    else:
        with pytest.raises(BadInput, match=r"placement.type: found 'compact'"):
            record_gke(pool)


@pytest.mark.parametrize("machine", GCP, ids=lambda m: m.name)
def test_gke_4_guest_accelerators_match_the_machine_type(machine: Any):
    of_racks = {
        m.name: {"capacity": {**RACK["capacity"], "reservation": f"rack-of-{m.name}"}}
        if CATALOG.nvlink_domain(m)
        else {}
        for m in GCP
    }
    pools = [sold(gke_pool(m.name, machine_type=m.name, workload="inference", **of_racks[m.name])) for m in GCP]
    recorded = record_gke(*pools)
    made = node_pool_of(machine.name, recorded).inputs["nodeConfig"]
    (only,) = made["guestAccelerators"]
    assert made["machineType"] == machine.name
    assert (only["type"], only["count"]) == (machine.accelerator_label, machine.gpu_count)


@pytest.mark.parametrize(
    ("form", "label"),
    [("a3-high", "nvidia-h100-80gb"), ("a3-mega-reserved", "nvidia-h100-mega-80gb"), ("a4", "nvidia-b200")],
)
def test_gke_4_accelerator_labels_match_the_machine_types(form: str, label: str):
    assert accelerator(form)["type"] == label


def test_gke_4_gpu_driver_installation_config_says_who_installs_the_driver():
    versions = {form: accelerator(form)["gpuDriverInstallationConfig"]["gpuDriverVersion"] for form in FORMS}
    assert {form for form, version in versions.items() if version == "DEFAULT"} == {
        "gke-time-sharing",
        "gke-partitions",
    }
    assert set(versions.values()) == {"DEFAULT", "INSTALLATION_DISABLED"}


def test_gke_4_gpu_sharing_config_and_gpu_partition_size_where_gke_shares_the_gpus():
    shared = {form: accelerator(form).get("gpuSharingConfig") for form in FORMS}
    assert {form: value for form, value in shared.items() if value} == {
        "gke-time-sharing": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 6},
    }
    partitions = {form: accelerator(form).get("gpuPartitionSize") for form in FORMS}
    assert {form: value for form, value in partitions.items() if value} == {"gke-partitions": "1g.5gb"}


@pytest.mark.parametrize(
    ("form", "count"),
    [
        ("a3-high", 16),
        ("a3-mega-reserved", 16),
        ("a3-ultra", 32),
        ("a4", 32),
        ("a2-ultra-own-mig", 2),
        ("a2-high", None),
        ("g2-spot", None),
        ("g4", None),
    ],
)
def test_gke_4_local_ssd_as_ephemeral_storage_a3_16_a3_ultra_and_a4_32(form: str, count: int | None):
    block = config(form).get("ephemeralStorageLocalSsdConfig")
    assert block == (None if count is None else {"localSsdCount": count})


@pytest.mark.parametrize("form", FORMS)
def test_gke_4_gvnic_shielded_instance_and_workload_metadata_config_gke_metadata(form: str):
    made = config(form)
    assert made["gvnic"] == {"enabled": True}
    assert made["shieldedInstanceConfig"]["enableIntegrityMonitoring"] is True
    assert made["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}


def test_gke_4_cos_containerd_but_ubuntu_where_it_is_asked_for():
    images = {form: config(form)["imageType"] for form in FORMS}
    assert images.pop("g2-ubuntu") == "UBUNTU_CONTAINERD"
    assert set(images.values()) == {"COS_CONTAINERD"}


def test_gke_4_secure_boot_is_on_unless_a_driver_container_builds_modules():
    off = {f for f in FORMS if not config(f)["shieldedInstanceConfig"]["enableSecureBoot"]}
    assert off == {"g2-ubuntu"}


@pytest.mark.parametrize(
    ("form", "disk"),
    [
        ("a3-mega-reserved", ("pd-balanced", 200, None)),
        ("a3-ultra", ("hyperdisk-balanced", 200, None)),
        ("a4", ("hyperdisk-balanced", 200, None)),
        ("g4", ("hyperdisk-balanced", 200, None)),
        ("g2-steady", ("pd-ssd", 100, "projects/p/locations/l/keyRings/r/cryptoKeys/k")),
    ],
)
def test_gke_4_the_boot_disk_is_of_a_type_that_the_machine_takes(form: str, disk: tuple[str, int, str | None]):
    made = config(form)
    assert (made["diskType"], made["diskSizeGb"], made.get("bootDiskKmsKey")) == disk


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("a3-mega-reserved", "projects/my-project/reservations/h100-mega"),
        ("a3-mega-block", "projects/shared-capacity/reservations/h100-mega/reservationBlocks/block-3"),
    ],
)
def test_gke_5_reservation_affinity_names_the_reservation_and_its_block(form: str, value: str):
    assert config(form)["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [value],
    }
    assert inputs(form)["nodeLocations"] == [ZONE]


@pytest.mark.parametrize("form", ["g2-spot", "a3-ultra-flex", "a4-queued", "a3-high"])
def test_gke_5_unreserved_pools_consume_no_reservation(form: str):
    assert config(form)["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}


@pytest.mark.parametrize("form", ["a3-ultra-flex", "a4-queued"])
def test_gke_5_flex_start_also_auto_repair_false_and_no_fixed_count(form: str):
    made = inputs(form)
    assert made["management"] == {"autoRepair": False, "autoUpgrade": True}
    assert made["nodeConfig"]["flexStart"] is True
    assert not {"nodeCount", "initialNodeCount"} & made.keys()
    assert made["autoscaling"] == {"totalMinNodeCount": 0, "totalMaxNodeCount": 8, "locationPolicy": "ANY"}


def test_gke_5_flex_start_runs_for_at_most_seven_days():
    assert config("a3-ultra-flex")["maxRunDuration"] == "86400s"
    assert config("a4-queued")["maxRunDuration"] == "604800s"


def test_gke_5_queued_provisioning_has_its_block_and_the_label_that_pods_select_by():
    assert inputs("a4-queued")["queuedProvisioning"] == {"enabled": True}
    assert config("a4-queued")["labels"]["cloud.google.com/gke-queued"] == "true"
    assert "queuedProvisioning" not in inputs("a3-ultra-flex")


def test_gke_5_only_the_pool_of_each_kind_is_spot_or_flex_start():
    assert {form for form in FORMS if config(form).get("spot")} == {"g2-spot", "a3-ultra", "a4"}
    assert {form for form in FORMS if config(form).get("flexStart")} == {"a3-ultra-flex", "a4-queued"}


@pytest.mark.parametrize("form", FORMS)
def test_gke_6_taint_nvidia_com_gpu_present_no_schedule(form: str):
    gpu = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    assert config(form)["taints"][0] == gpu


def test_gke_6_the_stacks_own_taints_come_after_it_as_the_api_spells_them():
    assert config("g4")["taints"][1:] == [
        {"key": "team", "value": "vision", "effect": "NO_EXECUTE"},
        {"key": "slow", "value": "yes", "effect": "PREFER_NO_SCHEDULE"},
    ]


@pytest.mark.parametrize(
    ("pool", "taint"),
    [
        (FORMS["a4-queued"], "cloud.google.com/gke-queued"),
        ({"machine_type": "a4x-highgpu-4g", **RACK}, "kubernetes.io/arch"),
    ],
)
def test_gke_6_the_operator_tolerates_the_taint_that_gke_adds_itself(pool: dict[str, Any], taint: str):
    recorded = record_gke(gke_pool("pool", **pool))
    values = recorded.one("Release", "gpu-operator").inputs["values"]
    for tolerations in (
        values["daemonsets"]["tolerations"],
        values["node-feature-discovery"]["worker"]["tolerations"],
    ):
        assert {"key": taint, "operator": "Exists", "effect": "NoSchedule"} in tolerations
    assert taint not in [each["key"] for each in node_pool_of("pool", recorded).inputs["nodeConfig"]["taints"]]


def test_gke_6_only_pools_that_gke_taints_itself_make_the_operator_tolerate_more():
    recorded = record_gke(gke_pool("pool", **FORMS["a3-ultra-flex"]))
    tolerations = recorded.one("Release", "gpu-operator").inputs["values"]["daemonsets"]["tolerations"]
    gate = {names.STARTUP_TAINT_KEY, names.READINESS_TAINT_KEY, names.FAILED_TAINT_KEY}
    assert {each["key"] for each in tolerations} == {"nvidia.com/gpu", *gate}


@pytest.mark.parametrize("form", FORMS)
def test_gke_6_ignore_drift_on_labels_that_gke_writes_and_on_initial_node_count(form: str):
    ignored = node_pool_of(form).ignore_changes
    assert "initialNodeCount" in ignored
    assert 'nodeConfig.resourceLabels["goog-gke-node-pool-provisioning-model"]' in ignored
    # Labels from the stack file are not ignored, because a change to them must reach the nodes.
    assert not {"nodeConfig", "nodeConfig.labels", "nodeConfig.resourceLabels", "nodeCount"} & set(ignored)


def test_gke_7_kubelet_config_has_static_cpus_topology_and_memory_manager():
    assert config("a4")["kubeletConfig"] == {
        "cpuManagerPolicy": "static",
        "topologyManager": {"policy": "restricted", "scope": "pod"},
        "memoryManager": {"policy": "Static"},
        "cpuCfsQuota": True,
    }
    assert config("a3-high")["kubeletConfig"] == {
        "cpuManagerPolicy": "static",
        "topologyManager": {"policy": "restricted", "scope": "container"},
        "cpuCfsQuota": True,
    }
    assert "kubeletConfig" not in config("g2-spot")


def test_gke_8_a_new_device_plugin_owner_changes_driver_and_sharing_config():
    ours, theirs = (
        node_pool_of("serve", record_gke(gke_pool("serve", **FORMS["gke-time-sharing"], **said))).inputs
        for said in ({"labels": {"a": "b"}}, {})
    )
    assert ours["nodeConfig"]["guestAccelerators"] == theirs["nodeConfig"]["guestAccelerators"]
    own = {**FORMS["gke-time-sharing"], "device_plugin": "operator"}
    changed = node_pool_of("serve", record_gke(gke_pool("serve", **own))).inputs
    assert changed["nodeConfig"]["guestAccelerators"] != theirs["nodeConfig"]["guestAccelerators"]


@pytest.mark.parametrize("form", FORMS)
def test_gke_9_disabling_the_device_plugin_also_disables_driver_installation(form: str):
    disabled = accelerator(form)["gpuDriverInstallationConfig"]["gpuDriverVersion"] == "INSTALLATION_DISABLED"
    assert (config(form)["labels"].get(NO_PLUGIN) == "true") == disabled
    assert disabled == (FORMS[form].get("device_plugin") != "provider")


@pytest.mark.parametrize("form", [f for f in FORMS if FORMS[f].get("device_plugin") == "provider"])
def test_gke_9_built_in_sharing_has_no_sharing_config_of_the_operator(form: str):
    labels = config(form)["labels"]
    assert not {"nvidia.com/device-plugin.config", "nvidia.com/mig.config"} & labels.keys()


def test_gke_9_the_operators_sharing_is_no_setting_of_the_pool():
    assert config("a2-ultra-own-mig")["labels"]["nvidia.com/mig.config"].startswith("a2-ultra-own-mig-")
    assert accelerator("a2-ultra-own-mig").keys() == {"type", "count", "gpuDriverInstallationConfig"}


def test_nodes_are_counted_by_location_and_the_autoscalers_limits_over_all_of_them():
    spot, steady, fixed = inputs("g2-spot"), inputs("g2-steady"), inputs("a3-mega-reserved")
    assert spot["initialNodeCount"] == 1
    assert "nodeCount" not in spot
    assert spot["autoscaling"] == {"totalMinNodeCount": 0, "totalMaxNodeCount": 10, "locationPolicy": "ANY"}
    assert steady["initialNodeCount"] == 2
    assert steady["autoscaling"] == {"totalMinNodeCount": 1, "totalMaxNodeCount": 4, "locationPolicy": "BALANCED"}
    assert fixed["nodeCount"] == 4
    assert not {"autoscaling", "initialNodeCount"} & fixed.keys()


def test_blue_green_has_no_surge_settings_which_the_provider_would_refuse():
    assert inputs("g2-steady")["upgradeSettings"] == {"strategy": "BLUE_GREEN"}
    assert inputs("g2-spot")["upgradeSettings"] == {"strategy": "SURGE", "maxSurge": 1, "maxUnavailable": 0}


def test_only_reserved_and_placed_pools_are_deleted_before_replacement():
    first = {form for form in FORMS if node_pool_of(form).delete_before_replace}
    assert first == {"a3-high", "a3-mega-block", "a3-mega-reserved", "a3-ultra", "a3-ultra-flex"}


@pytest.mark.parametrize("form", FORMS)
def test_pulumi_generates_pool_names_so_that_two_can_coexist(form: str):
    assert not {"name", "namePrefix"} & inputs(form).keys()


@pytest.mark.parametrize(("production", "protected"), [(True, True), (False, False)])
def test_pools_of_a_production_cluster_are_protected(production: bool, protected: bool):
    recorded = record_gke(gke_pool("train"), production=production)
    assert node_pool_of("train", recorded).protect is protected


def test_nodes_run_under_the_clusters_service_account_with_its_roles():
    made = config("g2-spot")
    assert made["serviceAccount"] == UNKNOWN
    assert made["oauthScopes"] == ["https://www.googleapis.com/auth/cloud-platform"]


@pytest.mark.parametrize("form", FORMS)
def test_a_pool_is_made_in_the_cluster_that_the_program_makes(form: str):
    (cluster,) = [r for r in recorded_of(form).of("Cluster") if r.type.startswith("gcp:")]
    assert cluster.urn in node_pool_of(form).property_dependencies["cluster"]


def test_a_zonal_cluster_gives_its_zone_to_a_pool_that_names_none():
    recorded = record_gke(gke_pool("train", zones=None, machine_type="g2-standard-4"), location=ZONE, create=None)
    assert node_pool_of("train", recorded).inputs["nodeLocations"] == [ZONE]

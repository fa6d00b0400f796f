"""Tests of the GKE checklist: lines 1 and 2 for clusters with GPU pools, and the installers in line 9.

Test names quote the lines. The tests check the resources that the program registers in a first preview, where
every output is unknown.
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from google.cloud import container_v1

from tests.components.gke.gke_cluster_api import cluster
from tests.components.gke.gke_recorded import (
    A3_AND_NEWER,
    EXISTING,
    RDMA_FABRICS,
    TCP_FABRICS,
    ZONE,
    google,
    made,
    pod_networks,
    pool_of,
    recorded,
)

# -- 1. Cluster for A3 and newer: dataplane v2, multi-networking, VPC-native, workload identity, exclusion ------


@pytest.mark.parametrize("machine", A3_AND_NEWER)
def test_gke_1_a_cluster_for_a3_and_newer_has_dataplane_v2_advanced_datapath(machine: str) -> None:
    api = cluster(made(pool_of(machine)))
    assert api.network_config.datapath_provider == container_v1.DatapathProvider.ADVANCED_DATAPATH


@pytest.mark.parametrize("machine", A3_AND_NEWER)
def test_gke_1_a_cluster_for_a3_and_newer_has_enable_multi_networking(machine: str) -> None:
    assert cluster(made(pool_of(machine))).network_config.enable_multi_networking is True
    assert made({"machine_type": "g2-standard-48"})["enableMultiNetworking"] is False


def test_a_cluster_keeps_multi_networking_when_its_last_a3_pool_leaves() -> None:
    def ignored(machine: str) -> tuple[str, ...]:
        (record,) = recorded({"machine_type": machine}).of("Cluster")
        return record.ignore_changes

    assert "enableMultiNetworking" in ignored("g2-standard-48")
    assert "enableMultiNetworking" not in ignored("a3-megagpu-8g")


def test_a_cluster_is_not_replaced_to_switch_policies_with_host_names_off() -> None:
    (off,) = recorded({}).of("Cluster")
    assert "enableFqdnNetworkPolicy" in off.ignore_changes


def test_gke_1_the_cluster_is_vpc_native() -> None:
    recording = recorded({})
    inputs = made({})
    api = cluster(inputs)
    assert api.ip_allocation_policy.use_ip_aliases is True
    subnet = recording.one("Subnetwork", "ml-us-central1-nodes")
    ranges = {each["rangeName"]: each["ipCidrRange"] for each in subnet.inputs["secondaryIpRanges"]}
    assert ranges[api.ip_allocation_policy.cluster_secondary_range_name] == "10.16.0.0/12"
    assert ranges[api.ip_allocation_policy.services_secondary_range_name] == "10.1.0.0/20"
    (record,) = recording.of("Cluster")
    assert subnet.urn in record.property_dependencies["subnetwork"]


def test_gke_1_the_cluster_has_workload_identity() -> None:
    assert cluster(made({})).workload_identity_config.workload_pool == "my-project.svc.id.goog"


def test_gke_1_a_cluster_for_a3_and_newer_has_an_upgrade_exclusion_window() -> None:
    window = cluster(made({})).maintenance_policy.window
    (exclusion,) = window.maintenance_exclusions.values()
    options = exclusion.maintenance_exclusion_options
    assert options.scope == container_v1.MaintenanceExclusionOptions.Scope.NO_MINOR_UPGRADES
    behaviour = container_v1.MaintenanceExclusionOptions.EndTimeBehavior
    assert options.end_time_behavior == behaviour.UNTIL_END_OF_SUPPORT
    assert not exclusion.end_time
    assert window.recurring_window.recurrence == "FREQ=WEEKLY;BYDAY=SA,SU"


def test_gke_1_a_declared_exclusion_window_has_only_its_own_end() -> None:
    written = {"name": "launch", "start": "2026-12-01T00:00:00Z", "end": "2027-01-10T00:00:00Z"}
    create = {"maintenance": {"exclusions": [{**written, "scope": "no-minor-upgrades"}]}}
    (exclusion,) = made({}, cluster={**EXISTING, "create": create})["maintenancePolicy"]["maintenanceExclusions"]
    assert exclusion["endTime"] == "2027-01-10T00:00:00Z"
    assert exclusion["exclusionOptions"] == {"scope": "NO_MINOR_UPGRADES"}


# -- 2. A3 High and Mega: extra VPCs and subnets; Network and GKENetworkParamSet for each -----------------------


@pytest.mark.parametrize(("machine", "count"), [("a3-highgpu-8g", 4), ("a3-megagpu-8g", 8)])
def test_gke_2_a3_high_and_mega_have_4_and_8_extra_vpcs_and_subnets_of_mtu_8244(machine: str, count: int) -> None:
    recording = recorded(pool_of(machine))
    vpcs = [record for record in google(recording, "Network") if record.name != "ml-us-central1"]
    assert [record.inputs["mtu"] for record in vpcs] == [8244] * count
    subnets = [record for record in google(recording, "Subnetwork") if record.name != "ml-us-central1-nodes"]
    assert len(subnets) == count
    owners = {urn for subnet in subnets for urn in subnet.property_dependencies["network"]}
    assert owners == {record.urn for record in vpcs}, "each VPC has one subnet"


def test_the_clusters_own_vpc_has_jumbo_frames_and_one_that_exists_keeps_its_mtu() -> None:
    vpc = recorded({}).one("Network", "ml-us-central1")
    assert vpc.inputs["mtu"] == 8244
    assert vpc.ignore_changes == ("mtu",)


def test_gke_2_traffic_between_gpu_nics_passes_the_firewall_of_each_extra_vpc() -> None:
    recording = recorded({})
    ranges = {record.name: record.inputs["ipCidrRange"] for record in google(recording, "Subnetwork")}
    rules = [rule for rule in google(recording, "Firewall") if rule.name.endswith("-internal")]
    assert len(rules) == 8
    for rule in rules:
        assert rule.inputs["sourceRanges"] == [ranges[rule.name.removesuffix("-internal")]]
        assert {each["protocol"] for each in rule.inputs["allows"]} == {"tcp", "udp", "icmp"}


@pytest.mark.parametrize(("machine", "count"), [("a3-highgpu-8g", 4), ("a3-megagpu-8g", 8)])
def test_gke_2_each_extra_network_has_a_network_and_a_param_set(machine: str, count: int) -> None:
    recording = recorded(pool_of(machine))
    networks = pod_networks(recording, "Network")
    parameters = {each["metadata"]["name"]: each["spec"] for each in pod_networks(recording, "GKENetworkParamSet")}
    assert len(networks) == len(parameters) == count
    for network in networks:
        assert network["spec"]["type"] == "Device"
        reference = network["spec"]["parametersRef"]
        assert (reference["group"], reference["kind"]) == ("networking.gke.io", "GKENetworkParamSet")
        assert reference["name"] in parameters


def test_gke_2_a_gke_network_param_set_has_vpc_vpc_subnet_and_device_mode() -> None:
    recording = recorded({})
    vpcs = {record.name for record in google(recording, "Network")}
    subnets = {record.name for record in google(recording, "Subnetwork")}
    for each in pod_networks(recording, "GKENetworkParamSet"):
        spec = each["spec"]
        assert spec.keys() == {"vpc", "vpcSubnet", "deviceMode"}
        assert spec["vpc"] in vpcs - {"ml"}
        assert spec["vpcSubnet"] in subnets - {"ml-us-central1-nodes"}
        assert spec["deviceMode"] == "NetDevice"
    assert len({each["spec"]["vpc"] for each in pod_networks(recording, "GKENetworkParamSet")}) == 8


def test_gke_2_each_pool_uses_the_first_additional_networks_of_the_cluster() -> None:
    recording = recorded({"name": "mega"}, {"name": "high", **pool_of("a3-highgpu-8g")})
    joined = {
        name: [
            (each["network"], each["subnetwork"])
            for each in recording.one("NodePool", name).inputs["networkConfig"]["additionalNodeNetworkConfigs"]
        ]
        for name in ("mega", "high")
    }
    parameters = pod_networks(recording, "GKENetworkParamSet")
    assert joined["mega"] == [(each["spec"]["vpc"], each["spec"]["vpcSubnet"]) for each in parameters]
    assert joined["high"] == joined["mega"][:4]


def test_gke_2_a_pool_waits_for_the_kubernetes_networks_that_its_pods_join() -> None:
    recording = recorded({})
    pool = recording.one("NodePool", "train")
    objects = {each.urn for each in recording.resources if each.type.startswith("kubernetes:networking.gke.io/")}
    assert objects
    assert objects <= set(pool.dependencies)


def test_gke_2_the_auto_network_profile_replaces_extra_networks() -> None:
    recording = recorded({"machine_type": "a3-ultragpu-8g", "network": {"via": "profile"}})
    pool = recording.one("NodePool", "train").inputs
    assert pool["networkConfig"]["acceleratorNetworkProfile"] == "auto"
    assert pool["nodeConfig"]["labels"]["cloud.google.com/gke-networking-dra-driver"] == "true"
    assert [record.name for record in google(recording, "Network")] == ["ml-us-central1"]
    assert not pod_networks(recording, "Network")


def test_rdma_networks_are_subnets_of_one_vpc_with_the_zones_profile() -> None:
    recording = recorded({"machine_type": "a3-ultragpu-8g", "network": {"via": "networks"}})
    vpcs = {record.name: record.inputs for record in google(recording, "Network")}
    assert vpcs.keys() == {"ml-us-central1", "ml-us-central1-gvnic", "ml-us-central1-rdma"}
    assert (
        vpcs["ml-us-central1-rdma"]["networkProfile"]
        == f"projects/my-project/global/networkProfiles/{ZONE}-vpc-roce"
    )
    names = {record.name for record in google(recording, "Firewall")}
    assert names == {"ml-us-central1-gvnic-internal", "ml-us-central1-webhooks"}
    modes = [each["spec"]["deviceMode"] for each in pod_networks(recording, "GKENetworkParamSet")]
    assert modes == ["NetDevice", *["RDMA"] * 8]


# -- 9. INSTALLATION_DISABLED comes with a separate driver installer DaemonSet ----------------------------------


def daemon_sets(*pools: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        record.inputs["metadata"]["name"]: record.inputs["spec"]["template"]["spec"]
        for record in recorded(*pools).of("DaemonSet")
        if record.inputs["metadata"]["namespace"] == "kube-system"
    }


def daemon_sets_of_every_fabric() -> dict[str, dict[str, Any]]:
    return daemon_sets(*TCP_FABRICS) | daemon_sets(*RDMA_FABRICS)


def selected(pod: dict[str, Any]) -> dict[str, list[str]]:
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return {each["key"]: each["values"] for each in term["matchExpressions"]}


def test_gke_9_disabled_installation_comes_with_an_installer_daemon_set() -> None:
    recording = recorded({"name": "ours"}, {"name": "gkes", "device_plugin": "provider"})
    versions = {
        record.name: record.inputs["nodeConfig"]["guestAccelerators"][0]["gpuDriverInstallationConfig"]
        for record in recording.of("NodePool")
        if record.name in {"ours", "gkes"} and record.type.startswith("gcp:")
    }
    disabled = [
        name for name, config in versions.items() if config == {"gpuDriverVersion": "INSTALLATION_DISABLED"}
    ]
    pods = daemon_sets({"name": "ours"}, {"name": "gkes", "device_plugin": "provider"})
    assert disabled == selected(pods["gpu-driver-installer"])["gpu-platform.dev/pool"] == ["ours"]


def test_gke_9_the_driver_is_installed_where_the_operator_looks_for_it() -> None:
    pod = daemon_sets({})["gpu-driver-installer"]
    (step,) = pod["initContainers"]
    variables = {each["name"]: each["value"] for each in step["env"]}
    assert variables["NVIDIA_INSTALL_DIR_HOST"] == "/home/kubernetes/bin/nvidia"
    mounts = {each["name"]: each["mountPath"] for each in step["volumeMounts"]}
    hosts = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"]}
    (volume,) = (name for name, path in hosts.items() if path == variables["NVIDIA_INSTALL_DIR_HOST"])
    assert mounts[volume] == variables["NVIDIA_INSTALL_DIR_CONTAINER"]
    assert mounts.keys() == hosts.keys()
    assert step["imagePullPolicy"] == "Never", "the image is already on the node"


def test_driver_installers_run_first_on_tainted_nodes_of_their_gpu_model() -> None:
    pods = daemon_sets_of_every_fabric()
    assert len(pods) == 7
    for pod in pods.values():
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["priorityClassName"] == "system-node-critical"
        assert selected(pod)["cloud.google.com/gke-accelerator"]
    assert selected(pods["gpudirect-tcpxo-installer"]) == {
        "cloud.google.com/gke-accelerator": ["nvidia-h100-mega-80gb"],
        "gpu-platform.dev/pool": ["a3-megagpu"],
    }


def test_the_pause_container_of_an_installer_may_do_nothing() -> None:
    pods = daemon_sets_of_every_fabric()
    pauses = [pod["containers"][0] for name, pod in pods.items() if name != "gpu-device-injector"]
    assert len(pauses) == 6
    for pause in pauses:
        assert pause["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pause["securityContext"]["allowPrivilegeEscalation"] is False
        assert pause["securityContext"]["runAsNonRoot"] is True


def test_a_selector_of_a_daemon_set_finds_its_pods_and_all_nodes_change_at_once() -> None:
    recordings = [recorded(*TCP_FABRICS), recorded(*RDMA_FABRICS)]
    daemon_sets = [record.inputs for recording in recordings for record in recording.of("DaemonSet")]
    specs = [one["spec"] for one in daemon_sets if one["metadata"]["namespace"] == "kube-system"]
    assert specs
    for spec in specs:
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        assert spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "100%"


def test_up_waits_for_nodes_only_in_the_validation_gate() -> None:
    recordings = [recorded(*TCP_FABRICS), recorded(*RDMA_FABRICS)]
    objects = [record.inputs["metadata"] for recording in recordings for record in recording.of("DaemonSet")]
    awaited = [one["name"] for one in objects if "pulumi.com/skipAwait" not in one.get("annotations", {})]
    assert awaited
    assert all(name.startswith("validate-") for name in awaited), awaited


def test_the_scripts_of_installers_are_shell() -> None:
    scripts = [
        step["args"][0] for pod in daemon_sets_of_every_fabric().values() for step in pod.get("initContainers", [])
    ]
    assert len(scripts) >= 6
    for script in scripts:
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, f"{checked.stderr}\n{script}"

"""Checklist of GKE, what a cluster owes to its GPU pools: lines 1 and 2, and the installers of line 9.

Names quote the lines. All is judged on what the program registers, as a first preview has it: no output is known.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import pytest
from google.cloud import container_v1

from components.gke import build_gke
from components.gke.cluster import GkeCluster
from gpu_platform.engine.record import ResourceRecord
from gpu_platform.planning.gke.plan import GkeClusterPlan
from gpu_platform.program import record_stack
from gpu_platform.stacks import LoadedStack, plan_platform
from tests.components.conftest import Recorded
from tests.components.gke.gke_api import NotInTheApi, node_pool, unspelt
from tests.components.gke.gke_cluster_api import CLUSTER, cluster
from tests.components.gke.known_google import DNS_ENDPOINT, deploy

ZONE = "us-central1-a"
EXISTING: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
CREATED: dict[str, Any] = {**EXISTING, "create": {}}
BIG: dict[str, Any] = {
    "name": "train",
    "machine_type": "a3-megagpu-8g",
    "count": {"desired": 2},
    "workload": "training",
    "zones": [ZONE],
    "placement": {"type": "none"},
}
A3_AND_NEWER = ["a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g"]


def platform_of(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED) -> dict[str, Any]:
    """Return a platform object; a pool says what differs from a training node of A3 Mega."""
    return {"kind": "environment", "cluster": cluster, "pools": [{**BIG, **pool} for pool in pools]}


def recorded(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED) -> Recorded:
    """Return what the program registers."""
    return _recorded(json.dumps(platform_of(*pools, cluster=cluster)))


@cache
def _recorded(platform: str) -> Recorded:
    parsed = json.loads(platform)
    return Recorded(
        record_stack(LoadedStack("test", Path("Pulumi.test.yaml"), parsed, plan_platform(parsed, "test")))
    )


def made(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED) -> dict[str, Any]:
    """Return the inputs of the cluster that the program makes."""
    (record,) = recorded(*pools, cluster=cluster).of("Cluster")
    return dict(record.inputs)


def google(recording: Recorded, kind: str) -> list[ResourceRecord]:
    return [record for record in recording.of(kind) if record.type.startswith("gcp:")]


def pod_networks(recording: Recorded, kind: str) -> list[dict[str, Any]]:
    wanted = f"kubernetes:networking.gke.io/v1:{kind}"
    return [dict(record.inputs) for record in recording.resources if record.type == wanted]


# -- 1. Cluster for A3 and newer: dataplane v2, multi-networking, VPC-native, workload identity, exclusion ------


@pytest.mark.parametrize("machine", A3_AND_NEWER)
def test_gke_1_a_cluster_for_a3_and_newer_has_dataplane_v2_advanced_datapath(machine: str) -> None:
    api = cluster(made({"machine_type": machine}))
    assert api.network_config.datapath_provider == container_v1.DatapathProvider.ADVANCED_DATAPATH


@pytest.mark.parametrize("machine", A3_AND_NEWER)
def test_gke_1_a_cluster_for_a3_and_newer_has_enable_multi_networking(machine: str) -> None:
    assert cluster(made({"machine_type": machine})).network_config.enable_multi_networking is True
    assert made({"machine_type": "g2-standard-48"})["enableMultiNetworking"] is False


def test_gke_1_the_cluster_is_vpc_native() -> None:
    recording = recorded({})
    inputs = made({})
    api = cluster(inputs)
    assert api.ip_allocation_policy.use_ip_aliases is True
    subnet = recording.one("Subnetwork", "ml-nodes")
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
    assert options.scope == container_v1.MaintenanceExclusionOptions.Scope.NO_MINOR_OR_NODE_UPGRADES
    behaviour = container_v1.MaintenanceExclusionOptions.EndTimeBehavior
    assert options.end_time_behavior == behaviour.UNTIL_END_OF_SUPPORT
    assert not exclusion.end_time
    assert window.recurring_window.recurrence == "FREQ=WEEKLY;BYDAY=SA,SU"


def test_gke_1_an_exclusion_window_of_the_stack_has_its_end_and_no_other_end() -> None:
    written = {"name": "launch", "start": "2026-12-01T00:00:00Z", "end": "2027-01-10T00:00:00Z"}
    create = {"maintenance": {"exclusions": [{**written, "scope": "no-minor-upgrades"}]}}
    (exclusion,) = made({}, cluster={**EXISTING, "create": create})["maintenancePolicy"]["maintenanceExclusions"]
    assert exclusion["endTime"] == "2027-01-10T00:00:00Z"
    assert exclusion["exclusionOptions"] == {"scope": "NO_MINOR_UPGRADES"}


# -- 2. A3 High and Mega: extra VPCs and subnets; Network and GKENetworkParamSet for each -----------------------


@pytest.mark.parametrize(("machine", "count"), [("a3-highgpu-8g", 4), ("a3-megagpu-8g", 8)])
def test_gke_2_a3_high_and_mega_have_4_and_8_extra_vpcs_and_subnets_of_mtu_8244(machine: str, count: int) -> None:
    recording = recorded({"machine_type": machine})
    vpcs = [record for record in google(recording, "Network") if record.name != "ml"]
    assert [record.inputs["mtu"] for record in vpcs] == [8244] * count
    subnets = [record for record in google(recording, "Subnetwork") if record.name != "ml-nodes"]
    assert len(subnets) == count
    owners = {urn for subnet in subnets for urn in subnet.property_dependencies["network"]}
    assert owners == {record.urn for record in vpcs}, "one subnet in each"


def test_gke_2_traffic_between_gpu_nics_passes_the_firewall_of_each_extra_vpc() -> None:
    recording = recorded({})
    ranges = {record.name: record.inputs["ipCidrRange"] for record in google(recording, "Subnetwork")}
    rules = google(recording, "Firewall")
    assert len(rules) == 8
    for rule in rules:
        assert rule.inputs["sourceRanges"] == [ranges[rule.name.removesuffix("-internal")]]
        assert {each["protocol"] for each in rule.inputs["allows"]} == {"tcp", "udp", "icmp"}


@pytest.mark.parametrize(("machine", "count"), [("a3-highgpu-8g", 4), ("a3-megagpu-8g", 8)])
def test_gke_2_a_kubernetes_network_of_type_device_and_a_gke_network_param_set_for_each(
    machine: str, count: int
) -> None:
    recording = recorded({"machine_type": machine})
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
        assert spec["vpcSubnet"] in subnets - {"ml-nodes"}
        assert spec["deviceMode"] == "NetDevice"
    assert len({each["spec"]["vpc"] for each in pod_networks(recording, "GKENetworkParamSet")}) == 8


def test_gke_2_additional_node_network_configs_of_each_pool_are_the_first_of_the_clusters_networks() -> None:
    recording = recorded({"name": "mega"}, {"name": "high", "machine_type": "a3-highgpu-8g"})
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


def test_gke_2_the_alternative_is_accelerator_network_profile_auto_and_no_extra_networks() -> None:
    recording = recorded({"network": {"via": "profile"}})
    pool = recording.one("NodePool", "train").inputs
    assert pool["networkConfig"]["acceleratorNetworkProfile"] == "auto"
    assert pool["nodeConfig"]["labels"]["cloud.google.com/gke-networking-dra-driver"] == "true"
    assert [record.name for record in google(recording, "Network")] == ["ml"]
    assert not pod_networks(recording, "Network")


def test_rdma_networks_are_subnets_of_one_vpc_with_the_zones_profile_and_no_firewall_of_ours() -> None:
    recording = recorded({"machine_type": "a3-ultragpu-8g", "network": {"via": "networks"}})
    vpcs = {record.name: record.inputs for record in google(recording, "Network")}
    assert vpcs.keys() == {"ml", "ml-gvnic", "ml-rdma"}
    assert vpcs["ml-rdma"]["networkProfile"] == f"projects/my-project/global/networkProfiles/{ZONE}-vpc-roce"
    assert [record.name for record in google(recording, "Firewall")] == ["ml-gvnic-internal"]
    modes = [each["spec"]["deviceMode"] for each in pod_networks(recording, "GKENetworkParamSet")]
    assert modes == ["NetDevice", *["RDMA"] * 8]


# -- 9. INSTALLATION_DISABLED goes with an own driver installer DaemonSet ---------------------------------------


def daemon_sets(*pools: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        record.inputs["metadata"]["name"]: record.inputs["spec"]["template"]["spec"]
        for record in recorded(*pools).of("DaemonSet")
        if record.inputs["metadata"]["namespace"] == "kube-system"
    }


def selected(pod: dict[str, Any]) -> dict[str, list[str]]:
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return {each["key"]: each["values"] for each in term["matchExpressions"]}


def test_gke_9_installation_disabled_goes_together_with_an_own_driver_installer_daemon_set() -> None:
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
    assert step["imagePullPolicy"] == "Never", "it is on the node"


EVERY_FABRIC = tuple({"name": machine.partition("-8g")[0], "machine_type": machine} for machine in A3_AND_NEWER)


def test_installers_reach_tainted_nodes_of_their_accelerators_before_anything_else_runs_there() -> None:
    pods = daemon_sets(*EVERY_FABRIC)
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
    pods = daemon_sets(*EVERY_FABRIC)
    pauses = [pod["containers"][0] for name, pod in pods.items() if name != "gpu-device-injector"]
    assert len(pauses) == 6
    for pause in pauses:
        assert pause["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pause["securityContext"]["allowPrivilegeEscalation"] is False
        assert pause["securityContext"]["runAsNonRoot"] is True


def test_a_selector_of_a_daemon_set_finds_its_pods_and_all_nodes_change_at_once() -> None:
    for record in recorded(*EVERY_FABRIC).of("DaemonSet"):
        if record.inputs["metadata"]["namespace"] == "kube-system":
            spec = record.inputs["spec"]
            assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
            assert spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "100%"


def test_the_scripts_of_installers_are_shell() -> None:
    scripts = [
        step["args"][0] for pod in daemon_sets(*EVERY_FABRIC).values() for step in pod.get("initContainers", [])
    ]
    assert len(scripts) >= 6
    for script in scripts:
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, f"{checked.stderr}\n{script}"


# -- the cluster as a whole -------------------------------------------------------------------------------------


def test_every_input_of_the_cluster_is_a_field_of_the_gke_api() -> None:
    access = {**EXISTING, "kubernetes": "1.35", "create": {"api_access": ["203.0.113.0/24"]}}
    api = cluster(made(*EVERY_FABRIC, {"name": "serve", "device_plugin": "provider"}, cluster=access))
    assert api.release_channel.channel == container_v1.ReleaseChannel.Channel.REGULAR
    assert api.initial_cluster_version == "1.35"
    components = container_v1.MonitoringComponentConfig.Component
    assert components.DCGM in api.monitoring_config.component_config.enable_components
    assert api.autoscaling.autoscaling_profile == (
        container_v1.ClusterAutoscaling.AutoscalingProfile.OPTIMIZE_UTILIZATION
    )
    assert api.shielded_nodes.enabled is True
    assert api.legacy_abac.enabled is False
    assert dict(api.resource_labels)["stack"] == "test"


def test_the_mapper_of_clusters_names_fields_that_the_api_has_and_refuses_others() -> None:
    assert list(unspelt(CLUSTER, container_v1.Cluster)) == []
    with pytest.raises(NotInTheApi, match="datapathProvidr"):
        cluster({**made({}), "datapathProvidr": "ADVANCED_DATAPATH"})
    with pytest.raises(NotInTheApi, match="ADVANCED_DATAPATHS"):
        cluster({**made({}), "datapathProvider": "ADVANCED_DATAPATHS"})


def test_every_input_of_the_system_pool_is_a_field_of_the_gke_api() -> None:
    pool = node_pool(recorded({}).one("NodePool", "ml-system").inputs)
    assert not pool.config.accelerators
    assert (pool.autoscaling.total_min_node_count, pool.autoscaling.total_max_node_count) == (2, 6)
    assert pool.config.shielded_instance_config.enable_secure_boot is True
    assert pool.config.workload_metadata_config.mode == container_v1.WorkloadMetadataConfig.Mode.GKE_METADATA


def test_nodes_are_private_and_reach_the_internet_by_nat_alone() -> None:
    recording = recorded({})
    assert made({})["privateClusterConfig"]["enablePrivateNodes"] is True
    (nat,) = google(recording, "RouterNat")
    subnet = recording.one("Subnetwork", "ml-nodes")
    assert nat.inputs["sourceSubnetworkIpRangesToNat"] == "LIST_OF_SUBNETWORKS"
    assert subnet.urn in nat.dependencies
    assert subnet.inputs["privateIpGoogleAccess"] is True
    (record,) = recording.of("Cluster")
    assert nat.urn in record.dependencies, "nodes pull images as soon as they are there"


@pytest.mark.parametrize(("access", "private"), [([], True), (["10.8.0.0/16"], True), (["203.0.113.0/24"], False)])
def test_the_api_server_is_reached_by_dns_with_iam_and_by_address_from_where_the_stack_says(
    access: list[str], private: bool
) -> None:
    inputs = made({}, cluster={**EXISTING, "create": {"api_access": access}})
    assert inputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["allowExternalTraffic"] is True
    assert inputs["privateClusterConfig"]["enablePrivateEndpoint"] is private
    networks = inputs["masterAuthorizedNetworksConfig"]
    assert [each["cidrBlock"] for each in networks.get("cidrBlocks", [])] == access
    assert networks["gcpPublicCidrsAccessEnabled"] is False


def test_the_pool_that_gke_demands_is_removed_and_what_becomes_of_it_is_no_change() -> None:
    (record,) = recorded({}).of("Cluster")
    assert record.inputs["removeDefaultNodePool"] is True
    assert record.inputs["initialNodeCount"] == 1
    assert set(record.ignore_changes) == {"nodeConfig", "initialNodeCount"}


def test_all_nodes_run_as_one_service_account_with_the_least_roles() -> None:
    recording = recorded({})
    (account,) = google(recording, "Account")
    grants = google(recording, "IAMMember")
    assert {grant.inputs["role"] for grant in grants} == {
        "roles/container.defaultNodeServiceAccount",
        "roles/artifactregistry.reader",
    }
    for pool in google(recording, "NodePool"):
        assert account.urn in pool.property_dependencies["nodeConfig"], pool.name
        assert {grant.urn for grant in grants} <= set(pool.dependencies) or pool.name == "ml-system"
    (record,) = recording.of("Cluster")
    assert {grant.urn for grant in grants} <= set(record.dependencies)


@pytest.mark.parametrize("production", [True, False])
def test_a_production_cluster_is_protected_twice(production: bool) -> None:
    (record,) = recorded({}, cluster={**CREATED, "production": production}).of("Cluster")
    assert record.protect is production
    assert record.inputs["deletionProtection"] is production


def test_the_kubeconfig_is_a_secret_and_nothing_in_kubernetes_comes_before_nodes_that_can_run_it() -> None:
    recording = recorded({})
    assert "kubeconfig" in recording.program.secret_outputs
    (provider,) = [each for each in recording.resources if each.type == "pulumi:providers:kubernetes"]
    assert provider.inputs["kubeconfig"] == "[secret]"
    assert recording.one("NodePool", "ml-system").urn in provider.dependencies
    for record in recording.resources:
        if record.type.startswith("kubernetes:"):
            assert record.provider.startswith(provider.urn), record.urn


def test_everything_of_google_cloud_goes_through_the_provider_of_project_and_region() -> None:
    recording = recorded({})
    (provider,) = [each for each in recording.resources if each.type == "pulumi:providers:gcp"]
    assert (provider.inputs["project"], provider.inputs["region"]) == ("my-project", "us-central1")
    of_google = [record for record in recording.resources if record.type.startswith("gcp:")]
    assert len(of_google) > 20
    assert {record.provider.rpartition("::")[0] for record in of_google} == {provider.urn}


@pytest.mark.parametrize("where", [CREATED, EXISTING], ids=["created", "existing"])
def test_every_component_of_the_cluster_registers_its_outputs(where: dict[str, Any]) -> None:
    components = [record for record in recorded({}, cluster=where).resources if ":index:Gke" in record.type]
    assert len(components) >= 5
    for component in components:
        assert component.outputs, component.urn


def built(platform: dict[str, Any]) -> Callable[[], pulumi.Output[Any]]:
    """Return the program's part for the cluster and its pools, which gives what it hands to both."""

    def program() -> pulumi.Output[Any]:
        plan = plan_platform(platform, "test")
        assert plan.kind == "environment"
        assert isinstance(plan.cluster.cloud, GkeClusterPlan)
        made, make_pools = build_gke(plan.cluster.cloud, plan.pools)
        make_pools(pulumi.ResourceOptions(providers=[made.provider]))
        return pulumi.Output.all(
            kubeconfig=made.kubeconfig,
            cluster=made.outputs.cluster,
            account=made.outputs.node_service_account,
            networks=[list(pair) for pair in made.outputs.gpu_networks],
        )

    return program


FOUND: dict[str, Any] = {
    "id": "projects/my-project/locations/us-central1/clusters/ml",
    "masterVersion": "1.35.2-gke.1269001",
    "enableAutopilot": False,
    "datapathProvider": "ADVANCED_DATAPATH",
    "enableMultiNetworking": True,
    "endpoint": "34.1.2.3",
    "workloadIdentityConfigs": [{"workloadPool": "my-project.svc.id.goog"}],
    "masterAuths": [
        {
            "clientCertificate": "",
            "clientCertificateConfigs": [],
            "clientKey": "",
            "clusterCaCertificate": "Q0E=",
        }
    ],
    "controlPlaneEndpointsConfigs": [
        {
            "dnsEndpointConfigs": [
                {
                    "allowExternalTraffic": True,
                    "enableK8sCertsViaDns": False,
                    "enableK8sTokensViaDns": False,
                    "endpoint": "gke-there.us-central1.gke.goog",
                }
            ],
            "ipEndpointsConfigs": [{"enabled": True}],
        }
    ],
}
"""A cluster that is there, as the provider writes what GKE says of it."""


@pytest.mark.parametrize("where", [CREATED, EXISTING], ids=["created", "existing"])
def test_with_every_output_unknown_the_same_resources_are_registered_as_with_all_known(
    where: dict[str, Any],
) -> None:
    preview = recorded(*EVERY_FABRIC, cluster=where)
    google, _ = deploy(built(platform_of(*EVERY_FABRIC, cluster=where)), FOUND)
    prefixes = ("gcp:", "kubernetes:networking.gke.io/", "pulumi:providers:")
    unknown = {(record.type, record.name) for record in preview.resources if record.type.startswith(prefixes)}
    known = {(kind, name) for kind, name in google.made if kind.startswith(prefixes)}
    assert unknown == known


def test_the_kubeconfig_of_a_new_cluster_is_of_its_dns_endpoint_and_holds_no_credential() -> None:
    _, outputs = deploy(built(platform_of({})))
    config = json.loads(outputs["kubeconfig"])
    assert config["clusters"][0]["cluster"] == {"server": f"https://{DNS_ENDPOINT}"}
    assert config["users"][0]["user"].keys() == {"exec"}
    assert config["users"][0]["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert outputs["account"] == "ml-nodes@example.com"


# -- a cluster that is there ------------------------------------------------------------------------------------


def test_of_a_cluster_that_is_there_nothing_is_made_but_what_its_pools_need() -> None:
    recording = recorded({}, cluster=EXISTING)
    assert not recording.of("Cluster")
    assert {record.name for record in google(recording, "NodePool")} == {"train"}
    assert len(google(recording, "Account")) == 1
    assert len(google(recording, "Network")) == len(pod_networks(recording, "Network")) == 8
    assert not google(recording, "RouterNat")
    assert "gpudirect-tcpxo-installer" in {record.name for record in recording.of("DaemonSet")}
    assert "kubeconfig" in recording.program.secret_outputs


def test_a_cluster_that_is_there_is_handed_to_its_pools_by_its_full_name() -> None:
    _, outputs = deploy(built(platform_of({}, cluster=EXISTING)), FOUND)
    assert outputs["cluster"] == FOUND["id"]
    assert outputs["networks"] == [[f"ml-gpu-{index}"] * 2 for index in range(8)]
    server = json.loads(outputs["kubeconfig"])["clusters"][0]["cluster"]
    assert server == {"server": "https://gke-there.us-central1.gke.goog"}


def test_a_cluster_without_an_open_dns_endpoint_is_reached_by_its_address() -> None:
    closed = {"enableK8sCertsViaDns": False, "enableK8sTokensViaDns": False, "endpoint": "gke-there"}
    endpoints = [{"dnsEndpointConfigs": [{**closed, "allowExternalTraffic": False}], "ipEndpointsConfigs": []}]
    _, outputs = deploy(
        built(platform_of({}, cluster=EXISTING)), {**FOUND, "controlPlaneEndpointsConfigs": endpoints}
    )
    server = json.loads(outputs["kubeconfig"])["clusters"][0]["cluster"]
    assert server == {"server": "https://34.1.2.3", "certificate-authority-data": "Q0E="}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"enableMultiNetworking": False}, "multi-networking"),
        ({"datapathProvider": "LEGACY_DATAPATH"}, "dataplane v2"),
        ({"workloadIdentityConfigs": []}, "workload identity"),
        ({"enableAutopilot": True}, "Autopilot"),
    ],
)
def test_a_cluster_that_does_not_fit_stops_the_program_before_any_pool_is_made(
    facts: dict[str, Any], words: str
) -> None:
    with pytest.raises(pulumi.RunError, match=words) as stopped:
        deploy(built(platform_of({}, cluster=EXISTING)), {**FOUND, **facts})
    assert "GKE cluster ml: 1 problem" in str(stopped.value)


def test_a_cluster_without_a_provider_of_google_cloud_says_what_it_lacks() -> None:
    plan = plan_platform(platform_of({}, cluster=EXISTING), "test")
    assert isinstance(plan.cluster.cloud, GkeClusterPlan)
    cloud = plan.cluster.cloud

    def program() -> pulumi.Output[Any]:
        return GkeCluster("ml", cloud).kubeconfig

    with pytest.raises(ValueError, match="give it a provider"):
        deploy(program, FOUND)

"""A complete GKE cluster, either created by the program or existing and looked up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from google.cloud import container_v1

from components.gke import build
from components.gke.cluster import GkeCluster
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.gke.gke_api import NotInTheApi, node_pool, unspelt
from tests.components.gke.gke_cluster_api import CLUSTER, cluster
from tests.components.gke.gke_recorded import (
    CREATED,
    EXISTING,
    RDMA_FABRICS,
    TCP_FABRICS,
    google,
    made,
    platform_of,
    pod_networks,
    recorded,
)
from tests.components.gke.known_google import DNS_ENDPOINT, NODES, deploy

# -- a new cluster -------------------------------------------------------------------------------------


def test_every_input_of_the_cluster_is_a_field_of_the_gke_api() -> None:
    access = {**EXISTING, "kubernetes": "1.35", "create": {"api_access": ["203.0.113.0/24"]}}
    api = cluster(made(*TCP_FABRICS, {"name": "serve", "device_plugin": "provider"}, cluster=access))
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
    create = {"api_access": ["10.8.0.0/16"], "system": {"min": 2, "max": 6}}
    pool = node_pool(recorded({}, cluster={**EXISTING, "create": create}).one("NodePool", "ml-system").inputs)
    assert not pool.config.accelerators
    assert (pool.autoscaling.total_min_node_count, pool.autoscaling.total_max_node_count) == (2, 6)
    assert pool.config.shielded_instance_config.enable_secure_boot is True
    assert pool.config.workload_metadata_config.mode == container_v1.WorkloadMetadataConfig.Mode.GKE_METADATA


def test_a_fixed_number_of_system_nodes_has_no_autoscaler() -> None:
    create = {"api_access": ["10.8.0.0/16"], "system": {"min": 6, "max": 6}}
    pool = recorded({}, cluster={**EXISTING, "create": create}).one("NodePool", "ml-system").inputs
    assert pool["nodeCount"] == 2
    assert not {"autoscaling", "initialNodeCount"} & pool.keys()


def test_nodes_are_private_and_reach_the_internet_only_through_nat() -> None:
    recording = recorded({})
    assert made({})["privateClusterConfig"]["enablePrivateNodes"] is True
    (nat,) = google(recording, "RouterNat")
    subnet = recording.one("Subnetwork", "ml-us-central1-nodes")
    assert nat.inputs["sourceSubnetworkIpRangesToNat"] == "LIST_OF_SUBNETWORKS"
    assert subnet.urn in nat.dependencies
    assert subnet.inputs["privateIpGoogleAccess"] is True
    (record,) = recording.of("Cluster")
    assert nat.urn in record.dependencies, "nodes pull images as soon as they exist"


@pytest.mark.parametrize(("access", "private"), [([], True), (["10.8.0.0/16"], True), (["203.0.113.0/24"], False)])
def test_the_api_server_has_a_dns_endpoint_and_limited_ip_access(access: list[str], private: bool) -> None:
    inputs = made({}, cluster={**EXISTING, "create": {"api_access": access}})
    assert inputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["allowExternalTraffic"] is True
    assert inputs["privateClusterConfig"]["enablePrivateEndpoint"] is private
    networks = inputs["masterAuthorizedNetworksConfig"]
    assert [each["cidrBlock"] for each in networks.get("cidrBlocks", [])] == access
    assert networks["gcpPublicCidrsAccessEnabled"] is False


def test_secrets_and_system_nodes_have_the_declared_keys() -> None:
    key = "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k"
    recording = recorded({}, cluster={**EXISTING, "create": {"kms_key": key, "system": {"kms_key": key}}})
    (record,) = recording.of("Cluster")
    assert record.inputs["databaseEncryption"] == {"state": "ENCRYPTED", "keyName": key}
    [system] = [one for one in recording.of("NodePool") if one.inputs.get("name") == "system"]
    assert system.inputs["nodeConfig"]["bootDiskKmsKey"] == key
    # The default node pool must also satisfy the organization policies. Otherwise, GKE refuses the cluster.
    first = record.inputs["nodeConfig"]
    assert first["bootDiskKmsKey"] == key
    assert first["metadata"] == {"disable-legacy-endpoints": "true"}
    assert {name: system.inputs["nodeConfig"][name] for name in first} == first


@pytest.mark.parametrize(
    ("machine_type", "disk"), [("n4-standard-8", "hyperdisk-balanced"), ("n2-standard-8", "pd-balanced")]
)
def test_system_nodes_boot_from_a_disk_that_their_machine_type_has(machine_type: str, disk: str) -> None:
    create = {"api_access": ["10.8.0.0/16"], "system": {"machine_type": machine_type}}
    recording = recorded({}, cluster={**EXISTING, "create": create})
    assert recording.one("NodePool", "ml-system").inputs["nodeConfig"]["diskType"] == disk
    (record,) = recording.of("Cluster")
    assert record.inputs["nodeConfig"]["diskType"] == "pd-balanced"


def test_the_dns_endpoint_can_be_closed() -> None:
    create = {"dns_access": False, "api_access": ["203.0.113.0/24"]}
    inputs = made({}, cluster={**EXISTING, "create": create})
    assert inputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["allowExternalTraffic"] is False


def test_objects_stay_when_the_address_of_the_api_server_changes() -> None:
    # Pulumi replaces the provider, and with it every object, if its cluster identifier changes.
    create = {"dns_access": False, "api_access": ["203.0.113.0/24"]}
    for platform in (platform_of({}, cluster=CREATED), platform_of({}, cluster={**EXISTING, "create": create})):
        google, outputs = deploy(built(platform))
        assert outputs["identity"] == DNS_ENDPOINT
        assert google.identifiers == [DNS_ENDPOINT]


def test_the_control_plane_reaches_webhooks_of_add_ons() -> None:
    rule = recorded({}).one("Firewall", "ml-us-central1-webhooks")
    assert rule.inputs["sourceRanges"] == ["172.16.0.0/28"]
    assert rule.inputs["allows"] == [{"protocol": "tcp", "ports": ["6443", "8082", "8443", "9443"]}]


def test_the_default_pool_of_gke_is_removed_and_its_settings_are_no_change() -> None:
    (record,) = recorded({}).of("Cluster")
    assert record.inputs["removeDefaultNodePool"] is True
    assert record.inputs["initialNodeCount"] == 1
    # The provider would replace the cluster if FQDN policies were disabled.
    assert set(record.ignore_changes) == {"nodeConfig", "initialNodeCount", "enableFqdnNetworkPolicy"}


def test_all_nodes_share_a_service_account_with_minimal_roles() -> None:
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


@pytest.mark.parametrize(
    ("settings", "protected"),
    [
        ({}, True),
        ({"production": False}, False),
        ({"protect": False}, False),
        ({"production": False, "protect": True}, True),
    ],
)
def test_a_protected_cluster_is_protected_twice(settings: dict[str, bool], protected: bool) -> None:
    (record,) = recorded({}, cluster={**CREATED, **settings}).of("Cluster")
    assert record.protect is protected
    assert record.inputs["deletionProtection"] is protected


def test_the_kubeconfig_is_secret_and_kubernetes_objects_wait_for_nodes() -> None:
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
    """Return a program that creates the cluster and its pools, and returns the cluster's outputs."""

    def program() -> pulumi.Output[Any]:
        plan = plan_platform(platform, "test")
        assert plan.kind == "environment"
        assert isinstance(plan.cluster.cloud, GkeClusterPlan)
        made, make_pools = build(plan.cluster.cloud, plan.pools, pulumi.ResourceOptions())
        make_pools(pulumi.ResourceOptions(providers=[made.provider]))
        return pulumi.Output.all(
            kubeconfig=made.kubeconfig,
            identity=made.identity,
            cluster=made.outputs.cluster,
            account=made.outputs.node_service_account,
            networks=[list(pair) for pair in made.outputs.gpu_networks],
        )

    return program


FOUND: dict[str, Any] = {
    "id": "projects/my-project/locations/us-central1/clusters/ml",
    "subnetwork": "projects/my-project/regions/us-central1/subnetworks/nodes",
    "masterVersion": "1.35.2-gke.1269001",
    "enableAutopilot": False,
    "datapathProvider": "ADVANCED_DATAPATH",
    "networkPolicies": [],
    "enableMultiNetworking": True,
    "enableFqdnNetworkPolicy": False,
    "endpoint": "34.1.2.3",
    "clusterIpv4Cidr": "10.4.0.0/14",
    "servicesIpv4Cidr": "34.118.224.0/20",
    "privateClusterConfigs": [],
    "workloadIdentityConfigs": [{"workloadPool": "my-project.svc.id.goog"}],
    "masterAuths": [
        {
            "clientCertificate": "",
            "clientCertificateConfigs": [],
            "clientKey": "",
            "clusterCaCertificate": "Q0E=",
        }
    ],
    "authenticatorGroupsConfigs": [],
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
"""An existing cluster, in the form that the Google Cloud provider returns."""


@pytest.mark.parametrize("fabrics", [TCP_FABRICS, RDMA_FABRICS], ids=["tcp", "rdma"])
@pytest.mark.parametrize("where", [CREATED, EXISTING], ids=["created", "existing"])
def test_previews_and_deploys_register_the_same_resources(
    where: dict[str, Any], fabrics: tuple[dict[str, Any], ...]
) -> None:
    preview = recorded(*fabrics, cluster=where)
    google, _ = deploy(built(platform_of(*fabrics, cluster=where)), FOUND)
    prefixes = ("gcp:", "kubernetes:networking.gke.io/", "pulumi:providers:")
    unknown = {(record.type, record.name) for record in preview.resources if record.type.startswith(prefixes)}
    known = {(kind, name) for kind, name in google.made if kind.startswith(prefixes)}
    assert unknown == known


def test_a_new_clusters_kubeconfig_uses_dns_and_contains_no_credential() -> None:
    _, outputs = deploy(built(platform_of({})))
    config = json.loads(outputs["kubeconfig"])
    assert config["clusters"][0]["cluster"] == {"server": f"https://{DNS_ENDPOINT}"}
    assert config["users"][0]["user"].keys() == {"exec"}
    assert config["users"][0]["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert outputs["account"] == "ml-us-central1-nodes@example.com"


def test_a_release_channel_too_old_for_the_pools_is_refused_with_a_fix() -> None:
    ultra = built(platform_of({"machine_type": "a3-ultragpu-8g"}))
    with pytest.raises(pulumi.RunError, match=r"1\.34\.1-gke\.1829001 or newer") as stopped:
        deploy(ultra, version="1.33.9-gke.1000")
    assert "write kubernetes: '1.34'" in str(stopped.value)
    google, _ = deploy(ultra, version="1.34.1-gke.1829001")
    assert "gcp:container/nodePool:NodePool" in {kind for kind, _ in google.made}


TEAM = {
    "name": "vision",
    "quota": {"gpus": 8},
    "priority": "training",
    "members": ["group:vision@example.com", "user:ada@example.com"],
}


def test_a_new_cluster_knows_the_google_groups_of_its_security_group() -> None:
    create = {"authenticator_groups": "gke-security-groups@example.com"}
    api = cluster(made({}, cluster={**EXISTING, "create": create}))
    assert api.authenticator_groups_config.security_group == "gke-security-groups@example.com"
    assert "authenticatorGroupsConfig" not in made({})


def test_a_cluster_in_an_existing_vpc_creates_no_vpc() -> None:
    vpc = {"project": "host-project", "name": "shared", "subnetwork": "nodes"}
    where = {**EXISTING, "create": {"network": vpc}}
    recording = recorded({"network": {"rdma": False}}, cluster=where)
    assert not any(recording.has(kind) for kind in ("Network", "Subnetwork", "Router", "RouterNat"))
    inputs = made({"network": {"rdma": False}}, cluster=where)
    assert inputs["network"] == "projects/host-project/global/networks/shared"
    assert inputs["subnetwork"] == "projects/host-project/regions/us-central1/subnetworks/nodes"
    assert inputs["ipAllocationPolicy"] == {
        "clusterSecondaryRangeName": "pods",
        "servicesSecondaryRangeName": "services",
    }


@pytest.mark.parametrize("where", [CREATED, EXISTING], ids=["created", "existing"])
def test_an_existing_node_service_account_needs_no_iam_changes(where: dict[str, Any]) -> None:
    email = "gke-nodes@my-project.iam.gserviceaccount.com"
    google, outputs = deploy(
        built({**platform_of({}, cluster={**where, "node_service_account": email}), "teams": [TEAM]}), FOUND
    )
    kinds = {kind for kind, _ in google.made}
    assert not kinds & {"gcp:serviceaccount/account:Account", "gcp:projects/iAMMember:IAMMember"}
    assert outputs["account"] == email


def test_the_class_of_hyperdisk_makes_disks_in_the_zone_of_their_first_pod() -> None:
    (made_class,) = recorded({"machine_type": "a4-highgpu-8g"}).of("StorageClass")
    assert made_class.inputs["metadata"]["name"] == "hyperdisk-balanced"
    assert made_class.inputs["provisioner"] == "pd.csi.storage.gke.io"
    assert made_class.inputs["parameters"] == {"type": "hyperdisk-balanced"}
    assert made_class.inputs["volumeBindingMode"] == "WaitForFirstConsumer"
    assert not recorded({}).has("StorageClass")


def test_a_new_cluster_scrapes_the_exporter_of_the_operator_by_its_pods() -> None:
    (monitoring,) = recorded({}).of("PodMonitoring")
    assert monitoring.inputs["apiVersion"] == "monitoring.googleapis.com/v1"
    assert monitoring.inputs["metadata"]["namespace"] == "gpu-operator"
    assert monitoring.inputs["spec"] == {
        "selector": {"matchLabels": {"app": "nvidia-dcgm-exporter"}},
        "endpoints": [{"port": "metrics", "interval": "15s"}],
    }
    assert cluster(made({})).monitoring_config.managed_prometheus_config.enabled is True
    assert not recorded({}, cluster=EXISTING).has("PodMonitoring")


@pytest.mark.parametrize(("where", "granted"), [(CREATED, True), (EXISTING, False)], ids=["created", "existing"])
def test_members_get_the_role_for_logins_only_on_a_new_cluster(where: dict[str, Any], granted: bool) -> None:
    google, _ = deploy(built({**platform_of({}, cluster=where), "teams": [TEAM]}), FOUND)
    logins = {name for kind, name in google.made if kind == "gcp:projects/iAMMember:IAMMember" and "login" in name}
    expected = {"ml-login-group:vision@example.com", "ml-login-user:ada@example.com"}
    assert logins == (expected if granted else set())


# -- an existing cluster ----------------------------------------------------------------------------------------


def test_on_an_existing_cluster_only_what_its_pools_need_is_created() -> None:
    recording = recorded({}, cluster=EXISTING)
    assert not recording.has("Cluster")
    assert {record.name for record in google(recording, "NodePool")} == {"train"}
    assert len(google(recording, "Account")) == 1
    assert len(google(recording, "Network")) == len(pod_networks(recording, "Network")) == 8
    assert not recording.has("RouterNat")
    assert "gpudirect-tcpxo-installer" in {record.name for record in recording.of("DaemonSet")}
    assert "kubeconfig" in recording.program.secret_outputs


def test_an_existing_cluster_is_passed_to_its_pools_by_its_full_name() -> None:
    _, outputs = deploy(built(platform_of({}, cluster=EXISTING)), FOUND)
    assert outputs["cluster"] == FOUND["id"]
    assert outputs["networks"] == [[f"ml-us-central1-gpu-{index}"] * 2 for index in range(8)]
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
    assert outputs["identity"] == "gke-there"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"enableMultiNetworking": False}, "multi-networking"),
        ({"datapathProvider": "LEGACY_DATAPATH"}, "dataplane v2"),
        ({"workloadIdentityConfigs": []}, "workload identity"),
        ({"enableAutopilot": True}, "Autopilot"),
        ({"clusterIpv4Cidr": "192.168.0.0/17"}, "for pods, which overlaps"),
        ({"servicesIpv4Cidr": "192.168.0.0/20"}, "for services, which overlaps"),
    ],
)
def test_a_cluster_that_does_not_fit_stops_the_program_before_any_pool_is_made(
    facts: dict[str, Any], words: str
) -> None:
    with pytest.raises(pulumi.RunError, match=words) as stopped:
        deploy(built(platform_of({}, cluster=EXISTING)), {**FOUND, **facts})
    assert "GKE cluster ml: 1 problem" in str(stopped.value)


@pytest.mark.parametrize("named", ["nodes", FOUND["subnetwork"]], ids=["name", "path"])
def test_gpu_networks_that_overlap_existing_nodes_are_refused(named: str) -> None:
    facts = {**FOUND, "subnetwork": named}
    with pytest.raises(pulumi.RunError, match=r"192\.168\.0\.0/20 for nodes, which overlaps") as stopped:
        deploy(built(platform_of({}, cluster=EXISTING)), facts, subnets={NODES: "192.168.0.0/20"})
    assert "write a different cluster.gpu_networks_cidr" in str(stopped.value)
    moved = {**EXISTING, "gpu_networks_cidr": "10.128.0.0/16"}
    deploy(built(platform_of({}, cluster=moved)), facts, subnets={NODES: "192.168.0.0/20"})


IN_SHARED_VPC = "projects/host-project/regions/us-central1/subnetworks/nodes"


@pytest.mark.parametrize("subnetwork", [FOUND["subnetwork"], IN_SHARED_VPC], ids=["own", "shared-vpc"])
def test_a_subnetwork_is_not_looked_up_without_gpu_networks(subnetwork: str) -> None:
    pool = {"network": {"rdma": False}}
    google, _ = deploy(built(platform_of(pool, cluster=EXISTING)), {**FOUND, "subnetwork": subnetwork}, subnets={})
    assert ("gcp:container/nodePool:NodePool", "train") in google.made


def test_gpu_networks_of_an_existing_cluster_in_a_shared_vpc_stop_the_program() -> None:
    """The program does not look up the subnetwork, so that it needs no permissions in the host project."""
    with pytest.raises(pulumi.RunError, match="nodes in a Shared VPC of host-project"):
        deploy(built(platform_of({}, cluster=EXISTING)), {**FOUND, "subnetwork": IN_SHARED_VPC}, subnets={})


def with_mode(name: str, mode: str | None) -> dict[str, Any]:
    metadata = [{"mode": mode}] if mode is not None else []
    return {"name": name, "nodeConfigs": [{"workloadMetadataConfigs": metadata}]}


def test_team_identities_need_node_pools_with_the_gke_metadata_server() -> None:
    pools = [with_mode("ours", "GKE_METADATA"), with_mode("old", "GCE_METADATA"), with_mode("older", None)]
    identity = {"buckets": [{"name": "acme-datasets"}]}
    platform = {**platform_of({}, cluster=EXISTING), "team_identities": {"speech": identity}}
    deploy(built(platform_of({}, cluster=EXISTING)), {**FOUND, "nodePools": pools})
    deploy(built(platform), {**FOUND, "nodePools": pools[:1]})
    with pytest.raises(pulumi.RunError, match="expose their own credentials to pods: old, older"):
        deploy(built(platform), {**FOUND, "nodePools": pools})


def test_teams_on_a_cluster_that_enforces_no_network_policies_stop_the_program() -> None:
    platform, legacy = {**platform_of({}, cluster=EXISTING), "teams": [TEAM]}, {"datapathProvider": ""}
    platform["pools"] = [{**one, "network": {"rdma": False}} for one in platform["pools"]]
    deploy(built(platform), {**FOUND, **legacy, "networkPolicies": [{"enabled": True, "provider": "CALICO"}]})
    with pytest.raises(pulumi.RunError, match="no enforcement of network policies"):
        deploy(built(platform), {**FOUND, **legacy, "networkPolicies": [{"enabled": False, "provider": ""}]})


def test_a_cluster_without_google_groups_is_deployed_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: warnings.append(text))
    platform = {**platform_of({}, cluster=EXISTING), "teams": [TEAM]}
    deploy(
        built(platform), {**FOUND, "authenticatorGroupsConfigs": [{"securityGroup": "gke-security-groups@e.com"}]}
    )
    assert warnings == []
    deploy(built(platform), FOUND)
    (warning,) = warnings
    assert "members of vision@example.com cannot log in" in warning
    assert "gcloud container clusters update ml --location us-central1 --security-group" in warning


def test_a_cluster_without_a_provider_of_google_cloud_says_what_it_lacks() -> None:
    plan = plan_platform(platform_of({}, cluster=EXISTING), "test")
    assert isinstance(plan.cluster.cloud, GkeClusterPlan)
    cloud = plan.cluster.cloud

    def program() -> pulumi.Output[Any]:
        return GkeCluster("ml", cloud).kubeconfig

    with pytest.raises(ValueError, match=r"pass a Google Cloud provider in opts\.providers"):
        deploy(program, FOUND)

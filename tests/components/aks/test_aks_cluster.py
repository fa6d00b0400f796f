"""A new AKS cluster as the program registers it in a first preview, where every output is unknown."""

from __future__ import annotations

from typing import Any

from gpu_platform.stack.loaded import plan_platform
from tests.components.aks.aks_recorded import (
    CREATE,
    CREATED,
    DISK_KEYS,
    EXISTING,
    ID,
    RESERVATIONS,
    RESERVED,
    SECRETS_KEY,
    SUBNET,
    TEAM,
    created,
    of_azure,
    platform_of,
    recorded,
)


def with_create(**create: Any) -> dict[str, Any]:
    return {**EXISTING, "create": {**CREATE, **create}}


def test_a_new_cluster_has_cilium_and_an_overlay_for_pods() -> None:
    network = created().inputs["networkProfile"]
    assert (network["networkPlugin"], network["networkPluginMode"]) == ("azure", "overlay")
    assert (network["networkDataPlane"], network["networkPolicy"]) == ("cilium", "cilium")
    assert (network["podCidr"], network["serviceCidr"]) == ("10.244.0.0/16", "10.1.0.0/16")
    assert network["dnsServiceIp"] == "10.1.0.10"


def test_only_entra_id_authenticates_and_roles_of_kubernetes_authorize() -> None:
    inputs = created().inputs
    rbac = inputs["azureActiveDirectoryRoleBasedAccessControl"]
    assert inputs["localAccountDisabled"] is True
    assert (rbac["adminGroupObjectIds"], rbac["azureRbacEnabled"]) == ([ID], False)
    assert inputs["runCommandEnabled"] is False


def test_a_new_cluster_has_workload_identity() -> None:
    inputs = created().inputs
    assert (inputs["oidcIssuerEnabled"], inputs["workloadIdentityEnabled"]) == (True, True)


def test_only_the_declared_networks_reach_a_public_api_server() -> None:
    assert created().inputs["apiServerAccessProfile"]["authorizedIpRanges"] == ["203.0.113.0/24"]


def test_an_api_server_without_networks_admits_nobody_and_the_first_up_says_so() -> None:
    cluster = {**EXISTING, "create": {"admins": [ID]}}
    assert created(cluster).inputs["apiServerAccessProfile"]["authorizedIpRanges"] == ["0.0.0.0/32"]
    cloud = plan_platform(platform_of(cluster=cluster), "test").cluster.cloud
    assert cloud is not None
    problem = cloud.first_up_problem
    assert problem is not None
    assert problem.path == "cluster.create.api_access"


def test_a_private_cluster_has_no_public_name_and_needs_an_existing_network() -> None:
    new = {**EXISTING, "create": {"admins": [ID], "private": True}}
    inputs = created(new).inputs
    assert (inputs["privateClusterEnabled"], inputs["privateClusterPublicFqdnEnabled"]) == (True, False)
    # The provider accepts dnsPrefixPrivateCluster only with a private DNS zone of the owner.
    assert (inputs["dnsPrefix"], inputs["privateDnsZoneId"]) == ("ml", "System")
    assert "dnsPrefixPrivateCluster" not in inputs
    assert inputs.get("apiServerAccessProfile") is None
    cloud = plan_platform(platform_of(cluster=new), "test").cluster.cloud
    assert cloud is not None
    assert cloud.first_up_problem is not None
    joined = {**EXISTING, "create": {**new["create"], "network": {"subnet": SUBNET}}}
    reached = plan_platform(platform_of(cluster=joined), "test").cluster.cloud
    assert reached is not None
    assert reached.first_up_problem is None


def test_the_program_creates_group_network_and_identity_before_the_cluster() -> None:
    recording = recorded()
    (cluster,) = recording.of("KubernetesCluster")
    for kind in ("ResourceGroup", "VirtualNetwork", "Subnet", "UserAssignedIdentity", "Assignment"):
        assert {one.urn for one in recording.of(kind)} <= recording.before(cluster), kind


def test_the_cluster_may_use_only_the_subnet_of_its_nodes() -> None:
    recording = recorded()
    (grant,) = recording.of("Assignment")
    assert grant.inputs["roleDefinitionName"] == "Network Contributor"
    (subnet,) = recording.of("Subnet")
    assert subnet.urn in grant.property_dependencies["scope"]


def test_the_cluster_may_use_each_reservation_group_before_nodes_are_created() -> None:
    # Both pools use the same group.
    recording = recorded(
        {**RESERVED, "name": "a"}, {**RESERVED, "name": "b", "machine_type": "Standard_NC4as_T4_v3"}
    )
    grants = [one for one in recording.of("Assignment") if one.inputs["scope"] == RESERVATIONS]
    assert [one.inputs["roleDefinitionName"] for one in grants] == ["Contributor"]
    for pool in recording.of("KubernetesClusterNodePool"):
        assert pool.inputs["capacityReservationGroupId"] == RESERVATIONS
        assert pool.inputs["zones"] == ["2"]
        assert grants[0].urn in recording.before(pool)


def test_an_existing_group_and_network_are_not_created() -> None:
    recording = recorded(cluster=with_create(resource_group="existing", network={"subnet": SUBNET}))
    assert not recording.has("ResourceGroup")
    assert not recording.has("VirtualNetwork")
    (cluster,) = recording.of("KubernetesCluster")
    assert cluster.inputs["resourceGroupName"] == "ml-group"
    assert cluster.inputs["defaultNodePool"]["vnetSubnetId"] == SUBNET


def test_the_owner_of_a_network_provides_the_path_to_the_internet() -> None:
    network = {"subnet": SUBNET, "outbound": "user-defined-routing"}
    inputs = created(with_create(network=network)).inputs
    assert inputs["networkProfile"]["outboundType"] == "userDefinedRouting"
    plan = plan_platform(platform_of(cluster=with_create(network=network)), "test")
    assert any("must include the public address of the nodes" in one.chosen for one in plan.decisions)


def test_system_nodes_are_spread_over_zones_and_rotated_through_a_temporary_pool() -> None:
    pool = created().inputs["defaultNodePool"]
    assert (pool["name"], pool["nodeCount"], pool["zones"]) == ("system", 3, ["1", "2", "3"])
    assert pool["temporaryNameForRotation"] == "systemtmp"
    assert pool["maxPods"] == 110


def test_autoscaled_system_nodes_keep_their_number() -> None:
    cluster = created(with_create(system={"min": 2, "max": 5}))
    pool = cluster.inputs["defaultNodePool"]
    assert (pool["autoScalingEnabled"], pool["minCount"], pool["maxCount"]) == (True, 2, 5)
    assert cluster.ignore_changes == ("defaultNodePool.nodeCount",)


def test_members_with_object_ids_may_fetch_a_kubeconfig() -> None:
    grants = [one for one in recorded(teams=[TEAM]).of("Assignment") if "login" in one.name]
    assert [(one.inputs["principalId"], one.inputs["roleDefinitionName"]) for one in grants] == [
        (ID, "Azure Kubernetes Service Cluster User Role")
    ]
    plan = plan_platform(platform_of(teams=[TEAM]), "test")
    notes = [one for one in plan.decisions if one.what == "logins" and one.subject == "team vision"]
    assert [one.chosen.partition(" must")[0] for one in notes] == ["user:ada@example.com"]


def test_a_production_cluster_has_an_sla_and_is_protected() -> None:
    assert (created().inputs["skuTier"], created().protect) == ("Standard", True)
    small = created({**CREATED, "production": False})
    assert (small.inputs["skuTier"], bool(small.protect)) == ("Free", False)


def test_the_driver_of_azure_files_runs_only_if_a_storage_class_needs_it() -> None:
    assert created().inputs["storageProfile"]["fileDriverEnabled"] is False
    shared = created(storage={"shared": {"type": "nfs"}})
    assert shared.inputs["storageProfile"]["fileDriverEnabled"] is True


def test_storage_classes_use_the_drivers_of_azure() -> None:
    recording = recorded(storage={"shared": {"type": "nfs"}, "fast": {"type": "disk", "disk": "premium-ssd"}})
    shared, fast = (recording.one("StorageClass", name).inputs for name in ("shared", "fast"))
    assert (shared["provisioner"], shared["parameters"]["protocol"]) == ("file.csi.azure.com", "nfs")
    assert (fast["provisioner"], fast["parameters"]) == ("disk.csi.azure.com", {"skuName": "Premium_LRS"})


def test_company_tags_are_on_every_resource_that_can_have_them() -> None:
    cluster = {**CREATED, "tags": {"cost-center": "ml"}}
    tagged = [one for one in of_azure(recorded(cluster=cluster)) if "tags" in one.inputs]
    assert len(tagged) >= 5
    assert all(one.inputs["tags"]["cost-center"] == "ml" for one in tagged)


def test_the_provider_registers_nothing_in_the_subscription() -> None:
    (provider,) = (one for one in recorded().resources if one.type == "pulumi:providers:azure")
    assert provider.inputs["resourceProviderRegistrations"] == "none"


def test_an_existing_cluster_is_only_looked_up() -> None:
    recording = recorded(cluster=EXISTING)
    assert [one.type for one in of_azure(recording)] == [
        "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
    ]


def test_one_disk_encryption_set_encrypts_the_disks_of_all_nodes() -> None:
    assert created(with_create(disk_encryption_set=DISK_KEYS)).inputs["diskEncryptionSetId"] == DISK_KEYS
    assert "diskEncryptionSetId" not in created().inputs


def test_a_key_of_a_public_vault_encrypts_secrets() -> None:
    inputs = created(with_create(kms_key=SECRETS_KEY)).inputs
    assert inputs["keyManagementService"] == {
        "keyVaultKeyId": f"https://acme.vault.azure.net/keys/secrets/{'0' * 32}",
        "keyVaultNetworkAccess": "Public",
    }
    assert "keyManagementService" not in created().inputs


def test_two_disk_encryption_sets_may_have_the_same_name() -> None:
    other = DISK_KEYS.replace("resourceGroups/data", "resourceGroups/other")
    recording = recorded(
        cluster=with_create(disk_encryption_set=DISK_KEYS), storage={"fast": {"type": "disk", "kms_key": other}}
    )
    readers = [one for one in recording.of("Assignment") if one.inputs["roleDefinitionName"] == "Reader"]
    assert {one.inputs["scope"] for one in readers} == {DISK_KEYS, other}


def test_the_control_plane_may_use_its_keys_before_the_cluster_exists() -> None:
    volumes = DISK_KEYS.replace("disks", "volumes")
    recording = recorded(
        cluster=with_create(disk_encryption_set=DISK_KEYS, kms_key=SECRETS_KEY),
        storage={"fast": {"type": "disk", "kms_key": volumes}, "same": {"type": "disk", "kms_key": DISK_KEYS}},
    )
    (cluster,) = recording.of("KubernetesCluster")
    before = [one for one in recording.of("Assignment") if one.urn in cluster.dependencies]
    roles = {(one.inputs["scope"], one.inputs["roleDefinitionName"]) for one in before}
    assert {
        (DISK_KEYS, "Reader"),
        (volumes, "Reader"),
        (SECRETS_KEY.partition("/versions")[0], "Key Vault Crypto User"),
    } <= roles
    assert len(before) == 4
    assert recording.one("StorageClass", "fast").inputs["parameters"]["diskEncryptionSetID"] == volumes

"""The replacements that a preview announces for inputs that a cloud cannot change in place.

`tests/support/played_cloud/kinds*.yaml` list these inputs for each kind of resource. Each listed input that the
program sets comes from a pool property (`catalog/facts/pool_changes.yaml`), comes from a cluster setting, or is
constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import cluster_facts
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.aks.aks_recorded import CREATED as AKS_CREATED
from tests.components.aks.aks_recorded import DISK_KEYS, agent_pool, platform_of
from tests.components.aks.aks_recorded import FORMS as AKS_FORMS
from tests.components.aks.aks_recorded import PRIVATE as AKS_PRIVATE
from tests.components.aks.aks_recorded import recorded as aks_recorded
from tests.components.eks.pool_forms import FORMS as EKS_FORMS
from tests.components.gke.gke_forms import FORMS as GKE_FORMS
from tests.components.gke.gke_forms import gke_environment, gke_pool, recorded_of
from tests.support.eks_stacks import CREATED, eks_environment
from tests.support.played_cloud.aks import CYCLED
from tests.support.played_cloud.kinds import kinds
from tests.support.recorded import Recorded, record_platform


@dataclass(frozen=True)
class Property:
    """Names of pool properties. If one of these properties changes, the preview announces a replacement."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """A cluster setting that the preview compares with the last deployment."""

    name: str


def by(*names: str) -> Property:
    return Property(names)


CLUSTER = by("cluster_name", "region", "vpc", "cluster_role")
GKE_CLUSTER = by("cluster", "project", "location", "network")
AKS_CLUSTER = by("cluster", "subscription", "resource_group", "region")
CONSTANT = "the program always sets the same value"
NAMED = "Pulumi's name of the resource, which is the same in every stack"

ANNOUNCED: Mapping[str, Mapping[str, Property | Setting | str]] = {
    "aws:eks/nodeGroup:NodeGroup": {
        "amiType": by("ami_type"),
        "capacityType": by("capacity_type"),
        "clusterName": CLUSTER,
        "instanceTypes": by("instance_types"),
        "launchTemplate.id": NAMED,
        "nodeGroupName": by("node_group_name"),
        "nodeRoleArn": by("node_role"),
        "subnetIds": by("subnet_ids", "subnets"),
    },
    "aws:eks/cluster:Cluster": {
        "name": by("cluster_name"),
        "roleArn": by("cluster_role"),
        "bootstrapSelfManagedAddons": CONSTANT,
        "accessConfig.bootstrapClusterCreatorAdminPermissions": CONSTANT,
    },
    "aws:efs/fileSystem:FileSystem": {
        "encrypted": CONSTANT,
        "kmsKeyId": Setting("file_systems"),
        "performanceMode": CONSTANT,
    },
    "aws:efs/mountTarget:MountTarget": {
        "fileSystemId": Setting("file_systems"),
        "subnetId": by("vpc", "subnets"),
    },
    "aws:iam/role:Role": {"path": by("node_role", "cluster_role")},
    "aws:ec2/vpc:Vpc": {"cidrBlock": by("vpc")},
    "aws:ec2/subnet:Subnet": {
        "vpcId": by("vpc"),
        "cidrBlock": by("vpc"),
        "availabilityZone": "part of the resource's name",
    },
    "gcp:container/nodePool:NodePool": {
        "cluster": GKE_CLUSTER,
        "project": by("project"),
        "location": by("location"),
        "name": "only the system nodes have a name, which is constant",
        "networkConfig.acceleratorNetworkProfile": by("additional_networks"),
        "networkConfig.additionalNodeNetworkConfigs": by("additional_networks", "gpu_network_ranges"),
        "placementPolicy": by("placement_policy"),
        "queuedProvisioning": by("queued_provisioning"),
        "nodeConfig.bootDiskKmsKey": by("boot_disk_kms_key"),
        "nodeConfig.ephemeralStorageLocalSsdConfig": by("local_ssd"),
        "nodeConfig.flexStart": by("provisioning"),
        "nodeConfig.guestAccelerators": by(
            "guest_accelerator", "gpu_driver_installation_config", "gpu_sharing_config", "gpu_partition_size"
        ),
        "nodeConfig.maxRunDuration": by("max_run_duration"),
        "nodeConfig.metadata": CONSTANT,
        "nodeConfig.oauthScopes": CONSTANT,
        "nodeConfig.reservationAffinity": by("provisioning", "reservation_affinity"),
        "nodeConfig.secondaryBootDisks": by("secondary_boot_disks"),
        "nodeConfig.serviceAccount": by("service_account"),
        "nodeConfig.shieldedInstanceConfig": by("shielded_instance_config"),
        "nodeConfig.spot": by("provisioning"),
    },
    "gcp:container/cluster:Cluster": {
        "name": by("cluster"),
        "location": by("location"),
        "project": by("project"),
        "network": by("network"),
        "subnetwork": by("network", "nodes_cidr"),
        "networkingMode": CONSTANT,
        "datapathProvider": CONSTANT,
        "enableFqdnNetworkPolicy": Setting("fqdn_policies"),
        "enableL4IlbSubsetting": CONSTANT,
        "ipAllocationPolicy.clusterSecondaryRangeName": by("network"),
        "ipAllocationPolicy.servicesSecondaryRangeName": by("network"),
        "masterAuth.clientCertificateConfig": CONSTANT,
        "privateClusterConfig.masterIpv4CidrBlock": by("control_plane_cidr"),
    },
    "gcp:compute/subnetwork:Subnetwork": {
        "name": "part of the VPC's name, which is derived from the cluster's name",
        "network": by("network"),
        "region": by("location"),
        "project": by("project"),
        "ipCidrRange": by("nodes_cidr", "gpu_network_ranges"),
    },
    "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool": {
        "name": "the name of the pool, which is another pool if it changes",
        "kubernetesClusterId": AKS_CLUSTER,
        "evictionPolicy": by("scale_set_priority"),
        "gpuDriver": by("gpu_profile"),
        "priority": by("scale_set_priority"),
        "proximityPlacementGroupId": by("proximity_placement_group"),
        "spotMaxPrice": by("scale_set_priority"),
    },
    "azure:containerservice/kubernetesCluster:KubernetesCluster": {
        "name": by("cluster"),
        "resourceGroupName": by("resource_group"),
        "location": by("region"),
        "dnsPrefix": by("cluster"),
        "diskEncryptionSetId": by("disk_encryption_set"),
        "nodeResourceGroup": by("cluster", "resource_group", "region"),
        "networkProfile.dnsServiceIp": by("services_cidr"),
        "networkProfile.podCidr": by("pods_cidr"),
        "networkProfile.serviceCidr": by("services_cidr"),
        "privateClusterEnabled": by("private"),
        "privateDnsZoneId": by("private"),
        "defaultNodePool.name": CONSTANT,
        "networkProfile.loadBalancerSku": CONSTANT,
        "networkProfile.networkDataPlane": CONSTANT,
        "networkProfile.networkPlugin": CONSTANT,
        "networkProfile.networkPluginMode": CONSTANT,
        "networkProfile.networkPolicy": CONSTANT,
        "oidcIssuerEnabled": CONSTANT,
        "roleBasedAccessControlEnabled": CONSTANT,
    },
    "azure:core/resourceGroup:ResourceGroup": {"name": by("resource_group"), "location": by("region")},
    "azure:network/subnet:Subnet": {
        "name": CONSTANT,
        "resourceGroupName": by("resource_group"),
        "virtualNetworkName": by("cluster"),
    },
}


def eks_stack() -> dict[str, object]:
    pools = ({**form, "name": name} for name, form in EKS_FORMS.items())
    return eks_environment(*pools, cluster=CREATED, storage={"home": {"type": "nfs", "kms_key": KEY}})


KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


def set_by(recorded: Recorded) -> Iterator[tuple[str, str]]:
    """Yield the kind and path of each input that is set, is not ignored and cannot be changed in place."""
    for record in recorded.resources:
        for path in kinds()[record.type].replaces if record.type in ANNOUNCED else ():
            value: object = record.inputs
            for key in path.split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            if value is not None and path not in record.ignore_changes:
                yield record.type, path


def test_every_input_that_forces_a_replacement_is_announced_or_constant() -> None:
    shown = set(set_by(record_platform(eks_stack())))
    for form in ("a3-mega-reserved", "a2-high", next(name for name in GKE_FORMS if "a3-ultra" in name)):
        shown |= set(set_by(recorded_of(form)))
    keys = {**AKS_CREATED, "create": {**AKS_CREATED["create"], "disk_encryption_set": DISK_KEYS}}
    for cluster in (AKS_CREATED, AKS_PRIVATE, keys):
        pools = ({**AKS_FORMS[form], "name": form} for form in ("t4", "spot", "close"))
        shown |= set(set_by(aks_recorded(*pools, cluster=cluster)))
    assert {kind for kind, _ in shown} == set(ANNOUNCED)
    missing = {(kind, path) for kind, path in shown if path not in ANNOUNCED[kind]}
    assert not missing, "a different value replaces the resource: announce it, or document why it never changes"


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_every_announced_replacement_is_in_the_catalogue_or_a_setting(cloud: str) -> None:
    platform = {"aws": "eks", "azure": "aks", "gcp": "gke"}[cloud]
    replaced = {
        name
        for (owner, name), known in load_catalog().pool_properties.items()
        if (owner, known.effect) == (platform, "replace")
    }
    stacks = {
        "aws": eks_stack(),
        "azure": platform_of(),
        "gcp": gke_environment(gke_pool("a2", machine_type="a2-highgpu-8g")),
    }
    plan = plan_platform(stacks[cloud], "test")
    assert isinstance(plan, EnvironmentPlan)
    for kind, inputs in ANNOUNCED.items():
        for path, known in inputs.items() if kind.startswith(cloud) else ():
            if isinstance(known, Property):
                assert set(known.names) <= replaced, (kind, path)
            elif isinstance(known, Setting):
                assert known.name in cluster_facts(plan), (kind, path)


@pytest.mark.parametrize("form", AKS_FORMS)
def test_inputs_that_aks_changes_only_by_moving_nodes_replace_the_pool(form: str) -> None:
    record = agent_pool({"name": form, **AKS_FORMS[form]})
    moving = {name for name in CYCLED if record.inputs.get(name) is not None}
    assert moving <= set(record.replace_on_changes)

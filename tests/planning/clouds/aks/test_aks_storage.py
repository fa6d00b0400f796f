"""Storage classes of an AKS cluster: the subnet that shares admit, and what a deleted cluster takes with it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes import classify, cluster_facts
from gpu_platform.planning.clouds.aks.names import dns_prefix
from gpu_platform.stack.loaded import plan_platform

GUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
HUB = f"/subscriptions/{GUID}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/gpu-nodes"
STORAGE = {"fast": {"type": "disk", "retain": True}, "shared": {"type": "nfs"}, "scratch": {"type": "disk"}}
POOL = {"name": "t4", "machine_type": "Standard_NC4as_T4_v3", "count": {"desired": 1}, "workload": "inference"}


def planned(create: dict[str, Any] | None, **rest: Any) -> EnvironmentPlan:
    cluster: dict[str, Any] = {"provider": "aks", "name": "ml", "subscription": GUID, "resource_group": "group"}
    cluster |= {"region": "eastus2", "kubernetes": "1.35"}
    if create is not None:
        cluster["create"] = {"admins": [GUID], "api_access": ["203.0.113.0/24"], **create}
    platform = {"kind": "environment", "cluster": cluster, "storage": STORAGE}
    plan = plan_platform({**platform, "pools": [POOL], **rest}, "ml")
    assert isinstance(plan, EnvironmentPlan)
    return plan


@pytest.mark.parametrize(
    ("create", "subnet"),
    [
        (None, {}),
        ({}, {"vnetResourceGroup": "group", "vnetName": "ml-network", "subnetName": "nodes"}),
        (
            {"network": {"subnet": HUB}},
            {"vnetResourceGroup": "net", "vnetName": "hub", "subnetName": "gpu-nodes"},
        ),
    ],
    ids=["existing", "created", "subnet"],
)
def test_the_driver_of_shares_changes_only_the_subnet_of_the_nodes(
    create: dict[str, Any] | None, subnet: dict[str, str]
) -> None:
    (shared,) = (one for one in planned(create).storage.classes if one.name == "shared")
    assert shared.parameters == {"protocol": "nfs", "skuName": "Premium_LRS", **subnet}


def test_a_new_cluster_takes_retained_volumes_with_it_and_an_existing_one_does_not() -> None:
    existing, created = planned(None), planned({"resource_group": "existing"})
    assert existing.storage.retained == ("volumes of storage class fast", "volumes of storage class shared")
    assert created.storage.retained == ()
    assert created.cluster.cloud is not None
    assert created.cluster.cloud.retained == ("the existing resource group group",)
    warned = [one.subject for one in created.decisions if one.what == "warning: retain"]
    assert warned == ["storage fast", "storage shared"]
    assert not [one for one in existing.decisions if one.what == "warning: retain"]


@pytest.mark.parametrize(
    ("cluster", "prefix"), [("ml-prod", "ml-prod"), ("ml_prod", "ml-prod"), ("a" * 53 + "-b", "a" * 53)]
)
def test_the_dns_prefix_has_only_characters_that_azure_allows(cluster: str, prefix: str) -> None:
    assert dns_prefix(cluster) == prefix


@pytest.mark.parametrize("name", ["azurefile-csi", "azurefile-csi-premium", "azureblob-fuse-premium"])
def test_a_team_gets_no_key_to_the_volumes_of_other_teams(name: str) -> None:
    plan = planned(
        {}, teams=[{"name": "vision", "quota": {"gpus": 1}, "priority": "inference", "members": [f"group:{GUID}"]}]
    )
    (team,) = plan.teams
    assert team.object_quota[f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"] == "0"


SHARE = (
    f"/subscriptions/{GUID}/resourceGroups/data/providers/Microsoft.Storage/storageAccounts/acmeml/"
    "fileServices/default/shares/home"
)
TEAMS = [
    {"name": name, "quota": {"gpus": 0}, "priority": "training", "members": [f"group:{GUID}"]}
    for name in ("speech", "vision")
]


def test_an_existing_share_is_mounted_without_keys_and_keeps_its_permissions() -> None:
    home = {"type": "existing", "system": "azure-files", "file_system": SHARE, "directory": "teams/{team}"}
    plan = planned(None, storage={"home": home}, teams=TEAMS)
    speech, vision = plan.storage.volumes
    assert (vision.driver, vision.attributes) == (
        "file.csi.azure.com",
        {
            "protocol": "nfs",
            "storageAccount": "acmeml",
            "shareName": "home",
            "mountPermissions": "0",
            "fsGroupChangePolicy": "None",
            "folderName": "teams/vision",
        },
    )
    assert speech.handle != vision.handle
    assert (vision.access_mode, vision.mount_options) == ("ReadWriteMany", ())


def test_teams_can_mount_the_same_share_read_only() -> None:
    home = {"type": "existing", "system": "azure-files", "file_system": SHARE, "read_only": True}
    plan = planned(None, storage={"home": home, "again": home}, teams=TEAMS)
    assert len({one.handle for one in plan.storage.volumes}) == 4
    assert {one.mount_options for one in plan.storage.volumes} == {("ro",)}
    assert all("folderName" not in one.attributes for one in plan.storage.volumes)


@pytest.mark.parametrize(
    ("create", "subnet"),
    [
        (None, "the subnet of the cluster's nodes"),
        ({}, "the subnet that this stack creates"),
        ({"network": {"subnet": HUB}}, f"subnet {HUB}"),
    ],
    ids=["existing", "created", "subnet"],
)
def test_check_names_the_subnet_that_the_owner_of_a_share_admits(
    create: dict[str, Any] | None, subnet: str
) -> None:
    home = {"type": "existing", "system": "azure-files", "file_system": SHARE}
    plan = planned(create, storage={"home": home}, teams=TEAMS)
    (why,) = (one.why for one in plan.decisions if (one.subject, one.what) == ("storage", "home"))
    assert f"must admit {subnet}, by a service endpoint" in why


def test_a_class_that_is_removed_takes_the_right_to_use_its_encryption_set() -> None:
    sets = f"/subscriptions/{GUID}/resourceGroups/keys/providers/Microsoft.Compute/diskEncryptionSets"
    work = {"type": "disk", "kms_key": f"{sets}/volumes"}

    def lost(of_nodes: str) -> list[str]:
        before, after = (planned({"disk_encryption_set": of_nodes}, storage=one) for one in ({"work": work}, {}))
        found = classify({"cluster": dict(cluster_facts(before))}, after, load_catalog(), live=None)
        return [one.because for one in found if "can no longer be attached" in one.because]

    (because,) = lost(f"{sets}/nodes")
    assert f"{sets}/volumes" in because
    assert lost(f"{sets}/volumes") == []

"""The resources rendered for storage on GKE: classes, the cluster's drivers, and network access."""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.deploy.recorded.properties import UNKNOWN
from tests.components.gke.gke_cluster_api import cluster as as_api
from tests.components.gke.gke_recorded import CREATED, EXISTING, google, platform_of
from tests.support.recorded import Recorded, record_platform

SHARED = {"home": {"type": "nfs"}, "checkpoints": {"type": "lustre"}}


TEAM = {"name": "vision", "quota": {"gpus": 1}, "priority": "training", "members": ["group:vision@example.com"]}
DATASETS = {"type": "bucket", "bucket": "acme-datasets", "prefix": "imagenet"}


def made(cluster: dict[str, Any] = CREATED, **storage: Any) -> Recorded:
    platform = json.loads(json.dumps({**platform_of({}, cluster=cluster), "storage": storage, "teams": [TEAM]}))
    return record_platform(platform)


def test_the_cluster_has_the_drivers_of_its_classes_by_the_names_of_the_api() -> None:
    [with_storage] = google(made(**SHARED), "Cluster")
    addons = as_api(dict(with_storage.inputs)).addons_config
    assert addons.gcp_filestore_csi_driver_config.enabled is True
    assert addons.lustre_csi_driver_config.enabled is True
    [without] = google(made(), "Cluster")
    assert as_api(dict(without.inputs)).addons_config.lustre_csi_driver_config.enabled is False


def test_managed_lustre_uses_a_peering_range_with_only_its_port_open() -> None:
    recorded = made(**SHARED)
    [network] = [one.urn for one in google(recorded, "Network") if one.name == "ml-us-central1"]
    [addresses] = recorded.of("GlobalAddress")
    assert (addresses.inputs["purpose"], addresses.inputs["prefixLength"]) == ("VPC_PEERING", 20)
    [connection] = recorded.of("Connection")
    for record in (addresses, connection):
        assert network in record.property_dependencies["network"]
    assert addresses.urn in connection.property_dependencies["reservedPeeringRanges"]
    [firewall] = [one for one in recorded.of("Firewall") if one.name == addresses.name]
    assert firewall.inputs["allows"] == [{"protocol": "tcp", "ports": ["988", "6988"]}]
    assert addresses.urn in firewall.property_dependencies["sourceRanges"]


def test_without_lustre_the_network_has_no_peering() -> None:
    assert not made(home={"type": "nfs"}).has("Connection")


def test_the_classes_of_an_existing_cluster_are_in_its_network_which_is_looked_up() -> None:
    recorded = made(EXISTING, **SHARED)
    assert recorded.one("StorageClass", "checkpoints").inputs["parameters"]["network"] == UNKNOWN
    # Whether Filestore needs a connect-mode depends on the project of the network.
    assert recorded.one("StorageClass", "home").inputs["parameters"] == UNKNOWN
    assert not recorded.has("Connection")


def test_a_lustre_class_makes_its_volumes_in_the_zone_of_the_pools() -> None:
    found = made(**SHARED).one("StorageClass", "checkpoints").inputs
    [term] = found["allowedTopologies"]
    assert term == {"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": ["us-central1-a"]}]}


def test_only_a_teams_service_accounts_read_its_bucket_prefix() -> None:
    recorded = made(datasets=DATASETS)
    members = {one.inputs["role"]: one.inputs for one in recorded.of("BucketIAMMember")}
    assert set(members) == {"roles/storage.objectViewer", "roles/storage.legacyBucketReader"}
    reads = members["roles/storage.objectViewer"]
    assert (reads["bucket"], reads["member"]) == ("acme-datasets", UNKNOWN)
    assert "objects/imagenet/" in reads["condition"]["expression"]
    assert "condition" not in members["roles/storage.legacyBucketReader"]


def test_bucket_pods_reach_the_metadata_server_and_public_https() -> None:
    [policy] = [one for one in made(datasets=DATASETS).of("NetworkPolicy") if one.name == "vision/buckets"]
    spec = policy.inputs["spec"]
    assert spec["policyTypes"] == ["Egress"]
    opened = {
        (peer["ipBlock"]["cidr"], port["port"])
        for rule in spec["egress"]
        for peer in rule["to"]
        for port in rule["ports"]
    }
    assert opened == {("169.254.169.252/32", 988), ("169.254.169.254/32", 80), ("0.0.0.0/0", 443)}
    assert "10.0.0.0/8" in spec["egress"][-1]["to"][0]["ipBlock"]["except"]
    assert not [one for one in made(home={"type": "nfs"}).of("NetworkPolicy") if one.name == "vision/buckets"]


def test_the_volume_of_a_bucket_names_it_before_what_makes_the_handle_unique() -> None:
    recorded = made(EXISTING, datasets=DATASETS)
    csi = recorded.one("PersistentVolume", "vision-datasets").inputs["spec"]["csi"]
    assert csi["volumeHandle"] == "acme-datasets:vision-datasets"
    assert recorded.has("BucketIAMMember")


def test_a_directory_of_a_filestore_share_is_an_nfs_volume_without_a_driver() -> None:
    home = {
        "type": "existing",
        "system": "filestore",
        "file_system": "us-central1-a/home",
        "address": "10.0.0.2",
        "share": "vol1",
        "directory": "{team}",
    }
    spec = made(home=home).one("PersistentVolume", "vision-home").inputs["spec"]
    assert spec["nfs"] == {"server": "10.0.0.2", "path": "/vol1/vision", "readOnly": False}
    assert "csi" not in spec

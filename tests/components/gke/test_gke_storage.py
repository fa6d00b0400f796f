"""What is rendered for storage on GKE: classes, drivers of the cluster, and the access of its network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_platform.engine.properties import UNKNOWN
from gpu_platform.program import record_stack
from gpu_platform.stacks import LoadedStack, plan_platform
from tests.components.gke.gke_cluster_api import cluster as as_api
from tests.components.gke.gke_recorded import CREATED, EXISTING, google, platform_of
from tests.support.recorded import Recorded

SHARED = {"home": {"type": "nfs"}, "checkpoints": {"type": "lustre"}}


def made(cluster: dict[str, Any] = CREATED, **storage: Any) -> Recorded:
    platform = json.loads(json.dumps({**platform_of({}, cluster=cluster), "storage": storage}))
    return Recorded(
        record_stack(LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test")))
    )


def test_the_cluster_has_the_drivers_of_its_classes_by_the_names_of_the_api() -> None:
    [with_storage] = google(made(**SHARED), "Cluster")
    addons = as_api(dict(with_storage.inputs)).addons_config
    assert addons.gcp_filestore_csi_driver_config.enabled is True
    assert addons.lustre_csi_driver_config.enabled is True
    [without] = google(made(), "Cluster")
    assert as_api(dict(without.inputs)).addons_config.lustre_csi_driver_config.enabled is False


def test_managed_lustre_reaches_the_network_by_a_peering_range_whose_port_alone_is_open() -> None:
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
    for name in SHARED:
        assert recorded.one("StorageClass", name).inputs["parameters"]["network"] == UNKNOWN
    assert not recorded.has("Connection")


def test_a_lustre_class_makes_its_volumes_in_the_zone_of_the_pools() -> None:
    found = made(**SHARED).one("StorageClass", "checkpoints").inputs
    [term] = found["allowedTopologies"]
    assert term == {"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": ["us-central1-a"]}]}

"""Read-only client for Google Cloud. It returns typed responses, and the comparisons interpret them.

The responses have the format of the REST APIs compute v1, container v1, serviceusage v1 and cloudquotas v1. They
have not been compared with the discovery documents field by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_platform.catalog.zones import google_region
from gpu_platform.online.google.answers import Cluster, Quota, Reservation, Subnet
from gpu_platform.online.google.api import Disabled, GoogleApi, Missing
from gpu_platform.planning.clouds.gke.existing_cluster import ExistingGke

PERMISSIONS: Final[Mapping[str, str]] = {
    "project": "compute.projects.get",
    "region": "compute.regions.get",
    "machine types": "compute.machineTypes.list",
    "reservation": "compute.reservations.get",
    "network": "compute.networks.get",
    "subnet": "compute.subnetworks.get",
    "cluster": "container.clusters.get",
    "bucket": "storage.buckets.get",
    "services": "serviceusage.services.get",
    "family quota": "cloudquotas.quotas.get",
}
"""IAM permission that each call needs."""

_FAMILY_QUOTA: Final = "services/compute.googleapis.com/quotaInfos/GPUS-PER-GPU-FAMILY-per-project-region"


class GoogleClient:
    """Client for one project. Methods raise NotLookedAt if Google Cloud does not answer, Missing if an object does
    not exist, and Disabled if the project has not enabled the API.
    """

    def __init__(self, project: str, api: GoogleApi | None = None) -> None:
        self._project = project
        self._api = api or GoogleApi()

    def project_quotas(self) -> Mapping[str, Quota]:
        """Return the quotas of the whole project by metric, such as GPUS_ALL_REGIONS."""
        path = f"compute/v1/projects/{self._project}"
        return _quotas(self._api.get("compute", path, PERMISSIONS["project"]))

    def region_quotas(self, region: str) -> Mapping[str, Quota]:
        """Return the quotas of a region by metric, such as NVIDIA_L4_GPUS. Raises Missing."""
        path = f"compute/v1/projects/{self._project}/regions/{region}"
        return _quotas(self._api.get("compute", path, PERMISSIONS["region"]))

    def family_quota(self, region: str, family: str) -> Quota:
        """Return the quota of a GPU family without its usage, which the API does not return. Raises Missing."""
        path = f"v1/projects/{self._project}/locations/global/{_FAMILY_QUOTA}"
        document = self._api.get("cloudquotas", path, PERMISSIONS["family quota"])
        found = [
            float(info["details"].get("value", 0))
            for info in document.get("dimensionsInfos") or ()
            if _applies(info, region, family)
        ]
        if not found:
            raise Missing
        return Quota(limit=found[0], used=None)

    def disabled_apis(self, names: Iterable[str]) -> Sequence[str]:
        """Return the names of the APIs that the project has not enabled."""
        disabled: list[str] = []
        for name in names:
            path = f"v1/projects/{self._project}/services/{name}"
            document = self._api.get("serviceusage", path, PERMISSIONS["services"])
            if document.get("state") != "ENABLED":
                disabled.append(name)
        return disabled

    def zones_offering(self, machine_type: str) -> frozenset[str]:
        """Return the names of the zones, in all regions, that offer a machine type."""
        path = f"compute/v1/projects/{self._project}/aggregated/machineTypes"
        zones: set[str] = set()
        query = {"filter": f'name="{machine_type}"'}
        while True:
            document = self._api.get("compute", path, PERMISSIONS["machine types"], **query)
            items: Mapping[str, Mapping[str, Any]] = document.get("items") or {}
            zones |= {scope.rpartition("/")[2] for scope, found in items.items() if found.get("machineTypes")}
            if not document.get("nextPageToken"):
                return frozenset(zones)
            query["pageToken"] = document["nextPageToken"]

    def reservation(self, project: str, zone: str, name: str) -> Reservation:
        """Return a reservation. Raises Missing if it does not exist."""
        path = f"compute/v1/projects/{project}/zones/{zone}/reservations/{name}"
        found = self._api.get("compute", path, PERMISSIONS["reservation"])
        specific: Mapping[str, Any] = found.get("specificReservation") or {}
        properties: Mapping[str, Any] = specific.get("instanceProperties") or {}
        policies: Mapping[str, str] = found.get("resourcePolicies") or {}
        return Reservation(
            name=name,
            zone=_last(found.get("zone", zone)),
            status=found.get("status", ""),
            machine_type=properties.get("machineType", ""),
            count=int(specific.get("count", 0)),
            in_use=int(specific.get("inUseCount", 0)),
            specific=bool(found.get("specificReservationRequired")),
            policies=tuple(sorted(_last(policy) for policy in policies.values())),
            ends=found.get("deleteAtTime", ""),
        )

    def network_exists(self, path: str) -> bool:
        """Return whether a VPC network exists at the path `projects/P/global/networks/NAME`."""
        try:
            self._api.get("compute", f"compute/v1/{path}", PERMISSIONS["network"])
        except Missing:
            return False
        return True

    def subnet(self, path: str) -> Subnet:
        """Return the subnet at the path `projects/P/regions/R/subnetworks/NAME`. Raises Missing if the subnet does
        not exist.
        """
        found = self._api.get("compute", f"compute/v1/{path}", PERMISSIONS["subnet"])
        others: Sequence[Mapping[str, str]] = found.get("secondaryIpRanges") or ()
        secondary = {one["rangeName"]: one["ipCidrRange"] for one in others}
        return Subnet(cidr=found.get("ipCidrRange", ""), secondary=secondary)

    def cluster(self, location: str, name: str) -> Cluster:
        """Return a GKE cluster. Raises Missing if it does not exist."""
        path = f"v1/projects/{self._project}/locations/{location}/clusters/{name}"
        found = self._api.get("container", path, PERMISSIONS["cluster"])
        in_vpc: Mapping[str, str] = found.get("networkConfig") or {}  # contains the host project of a Shared VPC
        network, subnetwork = (_last(found.get(what, "")) for what in ("network", "subnetwork"))
        network = in_vpc.get("network") or f"projects/{self._project}/global/networks/{network}"
        region = google_region(location)
        return Cluster(
            status=found.get("status", ""),
            facts=_facts(found, network.split("/")[1]),
            labels=found.get("resourceLabels") or {},
            network=network,
            subnetwork=in_vpc.get("subnetwork")
            or f"projects/{self._project}/regions/{region}/subnetworks/{subnetwork}",
            authorized=_authorized(found.get("masterAuthorizedNetworksConfig") or {}),
            node_pools={pool["name"]: _labels(pool) for pool in found.get("nodePools") or ()},
        )

    def bucket_location(self, name: str) -> str:
        """Return the location of a bucket in lower case, such as us-central1 or us. Raises Missing if the bucket
        does not exist.
        """
        found = self._api.get("storage", f"storage/v1/b/{name}", PERMISSIONS["bucket"])
        return str(found.get("location", "")).lower()


def _quotas(document: Mapping[str, Any]) -> Mapping[str, Quota]:
    quotas: Sequence[Mapping[str, Any]] = document.get("quotas") or ()
    return {each["metric"]: Quota(limit=float(each["limit"]), used=float(each["usage"])) for each in quotas}


def _applies(info: Mapping[str, Any], region: str, family: str) -> bool:
    dimensions: Mapping[str, str] = info.get("dimensions") or {}
    locations: Sequence[str] = info.get("applicableLocations") or ()
    return dimensions.get("gpu_family") == family and (
        dimensions.get("region") == region or ("region" not in dimensions and region in locations)
    )


def _authorized(config: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(block["cidrBlock"] for block in config.get("cidrBlocks") or ()) if config.get("enabled") else ()


def _facts(found: Mapping[str, Any], network_project: str) -> ExistingGke:
    def section(*keys: str) -> Mapping[str, Any]:
        inner: Any = found
        for key in keys:
            inner = inner.get(key) or {}
        return inner

    dns = section("controlPlaneEndpointsConfig", "dnsEndpointConfig")
    ranges = {
        "pods": found.get("clusterIpv4Cidr"),
        "services": found.get("servicesIpv4Cidr"),
        "the control plane": section("privateClusterConfig").get("masterIpv4CidrBlock"),
    }
    return ExistingGke(
        version=found.get("currentMasterVersion", ""),
        autopilot=bool(section("autopilot").get("enabled")),
        datapath=section("networkConfig").get("datapathProvider", ""),
        calico=bool(section("networkPolicy").get("enabled")),
        multi_networking=bool(section("networkConfig").get("enableMultiNetworking")),
        fqdn_policies=bool(section("networkConfig").get("enableFqdnNetworkPolicy")),
        workload_pool=section("workloadIdentityConfig").get("workloadPool"),
        security_group=section("authenticatorGroupsConfig").get("securityGroup"),
        dns_endpoint=dns.get("endpoint") if dns.get("allowExternalTraffic") else None,
        endpoint=found.get("endpoint", ""),
        certificate_authority=section("masterAuth").get("clusterCaCertificate", ""),
        network_project=network_project,
        ranges={what: cidr for what, cidr in ranges.items() if cidr},
        exposed_pools=tuple(one["name"] for one in found.get("nodePools") or () if not _conceals(one)),
    )


def _conceals(node_pool: Mapping[str, Any]) -> bool:
    """Return whether pods on the nodes reach GKE's metadata server instead of the node's metadata server."""
    config: Mapping[str, Any] = node_pool.get("config") or {}
    metadata: Mapping[str, Any] = config.get("workloadMetadataConfig") or {}
    return metadata.get("mode") == "GKE_METADATA"


def _labels(node_pool: Mapping[str, Any]) -> Mapping[str, str]:
    config: Mapping[str, Any] = node_pool.get("config") or {}
    return config.get("resourceLabels") or {}


def _last(url: str) -> str:
    return url.rpartition("/")[2]


__all__ = ["PERMISSIONS", "Disabled", "GoogleClient", "Missing"]

"""Read-only client for Azure. It returns typed responses, and the comparisons interpret them.

The responses have the format of Azure Resource Manager with the versions below. They have not been compared with
the specifications field by field.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from gpu_platform.online.azure.answers import Cluster, Group, Reserved, Size, Subnet, Usage
from gpu_platform.online.azure.api import AzureApi, Missing
from gpu_platform.planning.clouds.aks.existing_cluster import ExistingAks

ACTIONS: Final[Mapping[str, str]] = {
    "subscription": "Microsoft.Resources/subscriptions/read",
    "provider": "Microsoft.Resources/subscriptions/providers/read",
    "feature": "Microsoft.Features/providers/features/read",
    "group": "Microsoft.Resources/subscriptions/resourceGroups/read",
    "usages": "Microsoft.Compute/locations/usages/read",
    "skus": "Microsoft.Compute/skus/read",
    "reservations": "Microsoft.Compute/capacityReservationGroups/capacityReservations/read",
    "subnet": "Microsoft.Network/virtualNetworks/subnets/read",
    "encryption set": "Microsoft.Compute/diskEncryptionSets/read",
    "cluster": "Microsoft.ContainerService/managedClusters/read",
    "kubeconfig": "Microsoft.ContainerService/managedClusters/listClusterUserCredential/action",
}
"""Action that each call needs."""
_ENCRYPTION_SETS: Final = "2024-03-02"
_RESOURCES, _COMPUTE, _SKUS, _NETWORK, _AKS = "2022-12-01", "2024-07-01", "2021-07-01", "2024-05-01", "2025-05-01"


class AzureClient:
    """Client for one subscription. Methods raise NotLookedAt if Azure does not answer, and Missing if an object
    does not exist.
    """

    def __init__(self, subscription: str, api: AzureApi | None = None) -> None:
        self._root = f"/subscriptions/{subscription}"
        self._api = api or AzureApi(subscription)

    def subscription_state(self) -> str:
        """Return the state of the subscription, such as Enabled."""
        found = self._api.get(self._root, _RESOURCES, ACTIONS["subscription"])
        return str(found.get("state", ""))

    def is_registered(self, namespace: str) -> bool:
        """Return whether the subscription has registered a resource provider."""
        path = f"{self._root}/providers/{namespace}"
        found = self._api.get(path, "2021-04-01", ACTIONS["provider"])
        return found.get("registrationState") == "Registered"

    def feature_state(self, namespace: str, name: str) -> str:
        """Return the state of a preview feature in the subscription, such as Registered."""
        path = f"{self._root}/providers/Microsoft.Features/providers/{namespace}/features/{name}"
        found = self._api.get(path, "2021-07-01", ACTIONS["feature"])
        return str((found.get("properties") or {}).get("state", ""))

    def group(self, name: str) -> Group:
        """Return a resource group. Raises Missing."""
        found = self._api.get(f"{self._root}/resourceGroups/{name}", _RESOURCES, ACTIONS["group"])
        return Group(region=found.get("location", ""), tags=found.get("tags") or {})

    def usages(self, region: str) -> Mapping[str, Usage]:
        """Return the quotas of a region by name in lower case, such as standardndsh100v5family."""
        path = f"{self._root}/providers/Microsoft.Compute/locations/{region}/usages"
        found: Sequence[Mapping[str, Any]] = self._api.get(path, _COMPUTE, ACTIONS["usages"])["value"]
        return {
            str(one["name"]["value"]).lower(): Usage(limit=float(one["limit"]), used=float(one["currentValue"]))
            for one in found
        }

    def sizes(self, region: str) -> Mapping[str, Size]:
        """Return the VM sizes of a region by name in lower case."""
        query = {"$filter": f"location eq '{region}'"}
        path = f"{self._root}/providers/Microsoft.Compute/skus"
        found: Sequence[Mapping[str, Any]] = self._api.get(path, _SKUS, ACTIONS["skus"], **query)["value"]
        return {
            str(one["name"]).lower(): _size(one)
            for one in found
            if one.get("resourceType") == "virtualMachines"
            and region in (str(each).lower() for each in one.get("locations") or ())
        }

    def encryption_set_region(self, path: str) -> str:
        """Return the region of the disk encryption set with a resource ID. Raises Missing."""
        return str(self._api.get(path, _ENCRYPTION_SETS, ACTIONS["encryption set"]).get("location", ""))

    def reservations(self, group: str) -> tuple[Reserved, ...]:
        """Return the reservations of the capacity reservation group with a resource ID. Raises Missing."""
        path = f"{group}/capacityReservations"
        found: Sequence[Mapping[str, Any]] = self._api.get(path, _COMPUTE, ACTIONS["reservations"])["value"]
        return tuple(
            Reserved(
                region=str(one["location"]).lower(),
                size=str(one["sku"]["name"]),
                zone=str(next(iter(one.get("zones") or ("",)))),
                nodes=int(one["sku"]["capacity"]),
            )
            for one in found
        )

    def subnet(self, path: str) -> Subnet:
        """Return the subnet with a resource ID. Raises Missing."""
        found: Mapping[str, Any] = self._api.get(path, _NETWORK, ACTIONS["subnet"]).get("properties") or {}
        one = found.get("addressPrefix")
        return Subnet(
            cidrs=(str(one),) if one else tuple(found.get("addressPrefixes") or ()),
            has_nat=bool(found.get("natGateway")),
            has_routes=bool(found.get("routeTable")),
        )

    def cluster(self, group: str, name: str) -> Cluster:
        """Return an AKS cluster. Raises Missing."""
        found = self._api.get(self._cluster(group, name), _AKS, ACTIONS["cluster"])
        properties: Mapping[str, Any] = found.get("properties") or {}
        access: Mapping[str, Any] = properties.get("apiServerAccessProfile") or {}
        pools: Sequence[Mapping[str, Any]] = properties.get("agentPoolProfiles") or ()
        return Cluster(
            state=properties.get("provisioningState", ""),
            facts=_facts(found),
            tags=found.get("tags") or {},
            private=bool(access.get("enablePrivateCluster")),
            authorized=tuple(access.get("authorizedIPRanges") or ()),
            agent_pools={str(pool["name"]): pool.get("tags") or {} for pool in pools},
        )

    def api_server(self, group: str, name: str) -> tuple[str, str]:
        """Return the URL and the certificate authority of an API server. Raises Missing."""
        path = f"{self._cluster(group, name)}/listClusterUserCredential"
        found = self._api.post(path, _AKS, ACTIONS["kubeconfig"])
        document = yaml.safe_load(base64.b64decode(found["kubeconfigs"][0]["value"]))
        server: Mapping[str, str] = document["clusters"][0]["cluster"]
        return server["server"], server["certificate-authority-data"]

    def _cluster(self, group: str, name: str) -> str:
        provider = "providers/Microsoft.ContainerService/managedClusters"
        return f"{self._root}/resourceGroups/{group}/{provider}/{name}"


def _facts(found: Mapping[str, Any]) -> ExistingAks:
    properties: Mapping[str, Any] = found.get("properties") or {}
    network: Mapping[str, Any] = properties.get("networkProfile") or {}
    pools: Sequence[Mapping[str, Any]] = properties.get("agentPoolProfiles") or ()
    issuer: Mapping[str, Any] = properties.get("oidcIssuerProfile") or {}
    security: Mapping[str, Any] = properties.get("securityProfile") or {}
    webhook: Mapping[str, Any] = security.get("workloadIdentity") or {}
    identity: Mapping[str, Any] = found.get("identity") or {}
    return ExistingAks(
        region=str(found.get("location", "")),
        version=properties.get("currentKubernetesVersion") or properties.get("kubernetesVersion", ""),
        network_policy=str(network.get("networkPolicy") or ""),
        has_entra_id=bool(properties.get("aadProfile")),
        has_own_identity="UserAssigned" in str(identity.get("type")),
        subnet=next((str(pool["vnetSubnetID"]) for pool in pools if pool.get("vnetSubnetID")), ""),
        issuer=str(issuer.get("issuerURL") or ""),
        workload_identity=bool(webhook.get("enabled")),
    )


def _size(sku: Mapping[str, Any]) -> Size:
    offered = {str(zone) for place in sku.get("locationInfo") or () for zone in place.get("zones") or ()}
    restrictions: Sequence[Mapping[str, Any]] = sku.get("restrictions") or ()
    return Size(
        zones=frozenset(offered) - frozenset(_restricted_zones(restrictions)),
        restriction=next(
            (str(one.get("reasonCode")) for one in restrictions if one.get("type") == "Location"), ""
        ),
    )


def _restricted_zones(restrictions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in restrictions:
        where: Mapping[str, Any] = one.get("restrictionInfo") or {}
        yield from (str(zone) for zone in where.get("zones") or () if one.get("type") == "Zone")


__all__ = ["ACTIONS", "AzureClient", "Missing"]

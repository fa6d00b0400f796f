"""Sizes of Azure's virtual machines as Azure describes them: the list of SKUs, and the Retail Prices API.

The list of SKUs requires the action Microsoft.Compute/skus/read. The prices are public and need no credentials.
"""

# requests has no complete types.
# ruff: noqa: ANN401

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_platform.catalog import Catalog
from gpu_platform.online.azure.api import AzureApi
from gpu_platform.online.finding import NotLookedAt
from tools.renew.compare import DescribedType, Value

_ACTION: Final = "Microsoft.Compute/skus/read"
_PRICES: Final = "https://prices.azure.com/api/retail/prices"
_ARCHITECTURES: Final = {"x64": "amd64", "Arm64": "arm64"}
_LARGEST_EPHEMERAL_GIB: Final = 2048
_TIMEOUT: Final = (5, 60)  # seconds to connect, and to read


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of Azure."""
    command.add_argument("--region", action="append", required=True, help="compare in this region; repeatable")
    command.add_argument("--prices", action="store_true", help="also compare list prices")
    command.add_argument(
        "--subscription", help="ID of your subscription; without it, only prices, which need no credentials"
    )


def look_up(options: argparse.Namespace, ours: Collection[str], catalog: Catalog) -> Sequence[DescribedType]:
    """Return the facts of all sizes, of which `ours` are in the catalogue, and the prices of sizes with GPUs. The
    catalogue calculates the prices of other sizes from a price per vCPU, so they differ from rounded list prices.
    """
    if options.subscription:
        seen = described(AzureApi(options.subscription), options.subscription, options.region, ours)
    else:
        seen = [DescribedType(name, {}) for name in ours]
    if options.subscription and not options.prices:
        return seen
    import requests

    session = requests.Session()
    return [
        dataclasses.replace(one, usd_per_hour=list_prices(session, one.name))
        if one.name in ours and catalog.has_gpus(one.name)
        else one
        for one in seen
    ]


def described(
    api: AzureApi, subscription: str, regions: Collection[str], wanted: Collection[str]
) -> Sequence[DescribedType]:
    """Return the sizes with GPUs and the sizes in `wanted`. Raises NotLookedAt if credentials, a permission or a
    connection is missing.
    """
    found: dict[str, Mapping[str, Any]] = {}
    zones: dict[str, dict[str, tuple[str, ...]]] = {}
    for region in regions:
        path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/skus"
        query = {"$filter": f"location eq '{region}'"}
        skus: Sequence[Mapping[str, Any]] = api.get(path, "2021-07-01", _ACTION, **query)["value"]
        for sku in skus:
            name = str(sku["name"])
            if sku.get("resourceType") == "virtualMachines" and (name in wanted or _gpus(sku)):
                found[name] = sku
                zones.setdefault(name, {})[region] = tuple(f"{region}-{number}" for number in _zones(sku))
    return [DescribedType(name, _facts(sku), _gpus(sku), zones=zones[name]) for name, sku in found.items()]


def list_prices(session: Any, name: str) -> Mapping[str, float]:
    """Return the pay-as-you-go list prices of a size for Linux, in USD/h by region. Raises NotLookedAt if the API
    does not answer.
    """
    from requests import RequestException

    of_size = f"serviceName eq 'Virtual Machines' and armSkuName eq '{name}' and priceType eq 'Consumption'"
    query: Mapping[str, str] = {"api-version": "2023-01-01-preview", "$filter": of_size}
    url, prices = _PRICES, dict[str, float]()
    while url:  # the address of the next page contains the query
        try:
            answer = session.get(url, params=query, timeout=_TIMEOUT)
            document: Mapping[str, Any] = answer.json()
        except (RequestException, ValueError) as error:
            raise NotLookedAt(f"Azure's price list did not answer: {error}", "check the network") from error
        items: Iterable[Mapping[str, Any]] = document.get("Items") or ()
        prices |= {one["armRegionName"]: float(one["retailPrice"]) for one in items if _is_plain(one)}
        url, query = str(document.get("NextPageLink") or ""), dict[str, str]()
    return prices


def _is_plain(item: Mapping[str, Any]) -> bool:
    """Return whether a price is for Linux, on demand, and not for Azure Cloud Services."""
    return (
        item.get("type") == "Consumption"
        and item.get("unitOfMeasure") == "1 Hour"
        and not str(item.get("productName", "")).endswith(("Windows", "Cloud Services", "CloudServices"))
        and not str(item.get("skuName", "")).endswith(("Spot", "Low Priority"))
    )


def _zones(sku: Mapping[str, Any]) -> Sequence[str]:
    places: Iterable[Mapping[str, Any]] = sku.get("locationInfo") or ()
    return sorted({str(zone) for place in places for zone in place.get("zones") or ()})


def _capabilities(sku: Mapping[str, Any]) -> Mapping[str, str]:
    return {str(one["name"]): str(one["value"]) for one in sku.get("capabilities") or ()}


def _gpus(sku: Mapping[str, Any]) -> str:
    """Return the size's family if it has GPUs. Azure does not name the GPU."""
    return str(sku.get("family") or sku["name"]) if _capabilities(sku).get("GPUs", "0") != "0" else ""


def _facts(sku: Mapping[str, Any]) -> Mapping[str, Value]:
    has = _capabilities(sku)
    facts: dict[str, Value] = {
        "gpu_count": int(has.get("GPUs", 0)),
        "vcpu": int(has["vCPUs"]),
        "memory_mib": round(float(has["MemoryGB"]) * 1024),
    }
    if architecture := _ARCHITECTURES.get(has.get("CpuArchitectureType", "")):
        facts["arch"] = architecture
    if space := _ephemeral_gib(has):
        facts["ephemeral_os_gib"] = min(space, _LARGEST_EPHEMERAL_GIB)
    return facts


def _ephemeral_gib(has: Mapping[str, str]) -> int:
    """Return the space for an ephemeral OS disk: the cache disk or, without one, the temporary disk."""
    if has.get("EphemeralOSDiskSupported") != "True":
        return 0
    return int(has.get("CachedDiskBytes", 0)) // 2**30 or int(has.get("MaxResourceVolumeMB", 0)) // 1024

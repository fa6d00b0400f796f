"""EC2 machine types as AWS describes them: DescribeInstanceTypes, and GetProducts for list prices.

Both calls are read-only: ec2:DescribeInstanceTypes and pricing:GetProducts. Without credentials, only the names
are available, from botocore's model of the EC2 API.
"""

# boto3 and botocore have no type annotations.

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_platform.catalog import Catalog
from gpu_platform.online.aws.api import AwsApi
from tools.renew.compare import DescribedType, Value

_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_GPU_NAMES: Final = re.compile(r"[gp]\d\w*(-\w+)?\.\w+")  # families p and g; g4ad has AMD GPUs
PRICING_REGION: Final = "us-east-1"  # one of the few regions with a price list endpoint


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of AWS."""
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--region", action="append", help="compare in this region; repeatable")
    what.add_argument(
        "--names", action="store_true", help="compare only the names in botocore, without requests to AWS"
    )
    command.add_argument("--prices", action="store_true", help="also compare list prices")


def look_up(options: argparse.Namespace, ours: Collection[str], catalog: Catalog) -> Sequence[DescribedType]:
    """Return the machine types that AWS describes, of which `ours` are in the catalogue."""
    if options.names:
        new = [
            DescribedType(name, {}, gpu="unknown") for name in sorted(named_types() - catalog.machine_types.keys())
        ]
        return [*(DescribedType(name, {}) for name in ours), *new]
    seen = described({region: AwsApi(region) for region in options.region}, ours)
    if options.prices:
        api = AwsApi(PRICING_REGION)
        seen = [dataclasses.replace(one, usd_per_hour=list_prices(api, one.name)) for one in seen]
    return seen


def named_types() -> frozenset[str]:
    """Return the machine types in botocore's EC2 model that may have GPUs. A newer botocore lists more types."""
    from botocore.loaders import create_loader

    model = create_loader().load_service_model("ec2", "service-2")
    names: Iterable[str] = model["shapes"]["InstanceType"]["enum"]
    return frozenset(name for name in names if _GPU_NAMES.fullmatch(name))


def described(apis: Mapping[str, AwsApi], wanted: Collection[str]) -> Sequence[DescribedType]:
    """Return the types with NVIDIA GPUs and the types in `wanted`, from all regions. Raises NotLookedAt if
    credentials, a permission or a connection is missing.
    """
    found: dict[str, Mapping[str, Any]] = {}
    regions: dict[str, list[str]] = {}
    for region, api in apis.items():
        for one in api.pages("ec2", "DescribeInstanceTypes", "InstanceTypes"):
            name: str = one["InstanceType"]
            if name in wanted or _gpus(one):
                found[name] = one
                regions.setdefault(name, []).append(region)
    return [
        DescribedType(name, _facts(one), _gpu_name(one), zones=dict.fromkeys(regions[name], ()))
        for name, one in found.items()
    ]


def list_prices(api: AwsApi, machine_type: str) -> Mapping[str, float]:
    """Return the on-demand list prices for Linux on shared tenancy, in USD/h by region. Raises NotLookedAt if
    credentials, a permission or a connection is missing.
    """
    wanted = {
        "instanceType": machine_type,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    prices: dict[str, float] = {}
    for text in api.pages("pricing", "GetProducts", "PriceList", ServiceCode="AmazonEC2", Filters=filters):
        product: Mapping[str, Any] = json.loads(text)
        attributes: Mapping[str, str] = product["product"]["attributes"]
        if attributes.get("locationType") != "AWS Region":
            continue  # local zones have separate prices
        for term in product["terms"].get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                if price := float(dimension["pricePerUnit"].get("USD", 0)):
                    prices[attributes["regionCode"]] = price
    return prices


def _gpus(described_type: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    gpus: Sequence[Mapping[str, Any]] = described_type.get("GpuInfo", {}).get("Gpus", ())
    return [gpu for gpu in gpus if gpu.get("Manufacturer") == "NVIDIA"]


def _gpu_name(described_type: Mapping[str, Any]) -> str:
    return next((gpu["Name"] for gpu in _gpus(described_type)), "")


def _facts(described_type: Mapping[str, Any]) -> Mapping[str, Value]:
    network: Mapping[str, Any] = described_type["NetworkInfo"]
    default = network.get("DefaultNetworkCardIndex", 0)
    [card] = [one for one in network["NetworkCards"] if one["NetworkCardIndex"] == default]
    architectures: Sequence[str] = described_type["ProcessorInfo"]["SupportedArchitectures"]
    return {
        "gpu_count": sum(gpu["Count"] for gpu in _gpus(described_type)),
        "vcpu": described_type["VCpuInfo"]["DefaultVCpus"],
        "memory_mib": described_type["MemoryInfo"]["SizeInMiB"],
        "arch": next(_ARCHITECTURES[one] for one in architectures if one in _ARCHITECTURES),
        "rdma_interfaces": network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "default_enis": card["MaximumNetworkInterfaces"],
        "ips_per_eni": network["Ipv4AddressesPerInterface"],
        "ebs_volumes": described_type["EbsInfo"]["MaximumEbsAttachments"],
        "ebs_limit": described_type["EbsInfo"]["AttachmentLimitType"],
        "local_nvme_gb": described_type.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    }

"""`python -m tools.renew aws|gcp|azure`: compares the catalogue's machine types with the cloud's values.

The command sends read-only requests with your credentials and changes nothing in the cloud. It exits with code 0
if nothing differs, 1 if something differs, and 2 if the cloud could not be queried.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_platform.catalog import Catalog, load_catalog
from gpu_platform.online.aws.api import AwsApi
from gpu_platform.online.azure.api import AzureApi
from gpu_platform.online.finding import NotLookedAt
from gpu_platform.online.google.api import Disabled, GoogleApi
from tools.renew import aws, azure, google
from tools.renew.compare import Comparison, DescribedType, compare
from tools.renew.write import new_entry, write

FACTS = Path(__file__).resolve().parents[2] / "gpu_platform" / "catalog" / "facts"


def main(words: Sequence[str] | None = None) -> int:
    """Query the cloud, print the differences, and write them on request. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.renew", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cloud", choices=["aws", "gcp", "azure"])
    parser.add_argument(
        "--names", action="store_true", help="aws: compare only the names in botocore, without requests to AWS"
    )
    parser.add_argument("--region", action="append", default=[], help="compare in this region; repeatable")
    parser.add_argument("--prices", action="store_true", help="aws, azure: also compare list prices")
    parser.add_argument("--project", help="gcp: your project for the requests to Google Cloud")
    parser.add_argument("--subscription", help="azure: ID of your subscription; without it, only prices")
    parser.add_argument("--write", action="store_true", help="write the cloud's values to the catalogue's files")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    options = parser.parse_args(words)
    if options.cloud == "gcp" and not options.project:
        parser.error("gcp: add --project PROJECT")
    if options.cloud == "azure" and not (options.subscription or options.prices):
        parser.error("azure: add --subscription ID, or --prices, which need no credentials")
    if not options.region and not options.names:
        parser.error("add --region REGION, because offers and prices depend on the region")
    catalog = load_catalog()
    try:
        comparison = _compare(catalog, options)
    except NotLookedAt as reason:
        print(f"error: {reason}. Fix: {reason.fix}", file=sys.stderr)
        return 2
    except Disabled as reason:
        print(f"error: {reason}. Fix: enable it in the project", file=sys.stderr)
        return 2
    left = write(FACTS, comparison.differences) if options.write else frozenset(comparison.differences)
    if options.format == "json":
        print(json.dumps(dataclasses.asdict(comparison), indent=2, default=sorted))
    else:
        _print(comparison, written=len(comparison.differences) - len(left) if options.write else None)
    return 0 if comparison.is_equal else 1


def _compare(catalog: Catalog, options: argparse.Namespace) -> Comparison:
    ours = [name for name, machine in catalog.machine_types.items() if machine.vendor == options.cloud]
    if options.cloud == "gcp":
        seen = google.described(GoogleApi(), options.project, ours)
        return compare(catalog, google.VENDOR, seen, options.region)
    if options.cloud == "azure":
        return _compare_azure(catalog, options, ours)
    if options.names:
        named = aws.named_types()
        return compare(
            catalog, aws.VENDOR, [*(DescribedType(name, {}) for name in ours), *_new(catalog, named)], ()
        )
    seen = aws.described({region: AwsApi(region) for region in options.region}, ours)
    if options.prices:
        api = AwsApi(aws.PRICING_REGION)
        seen = [dataclasses.replace(one, usd_per_hour=aws.list_prices(api, one.name)) for one in seen]
    return compare(catalog, aws.VENDOR, seen, options.region)


def _compare_azure(catalog: Catalog, options: argparse.Namespace, ours: Sequence[str]) -> Comparison:
    """Compare the facts of all sizes, and the prices of sizes with GPUs. The prices of other sizes are those of
    their vCPUs, and differ from rounded prices.
    """
    if options.subscription:
        api = AzureApi(options.subscription)
        seen = azure.described(api, options.subscription, options.region, ours)
    else:
        seen = [DescribedType(name, {}) for name in ours]
    if options.prices:
        import requests

        session = requests.Session()
        seen = [
            dataclasses.replace(one, usd_per_hour=azure.list_prices(session, one.name))
            if one.name in ours and catalog.has_gpus(one.name)
            else one
            for one in seen
        ]
    return compare(catalog, azure.VENDOR, seen, options.region)


def _new(catalog: Catalog, named: frozenset[str]) -> list[DescribedType]:
    return [DescribedType(name, {}, gpu="unknown") for name in sorted(named - catalog.machine_types.keys())]


def _print(comparison: Comparison, written: int | None) -> None:
    for one in comparison.differences:
        print(f"{one.machine_type}: {one.where}: catalogue {one.catalogue}, cloud {one.cloud}")
    for name in comparison.gone:
        print(f"{name}: in the catalogue, but not described by the cloud")
    for seen in comparison.new:
        print(f"{seen.name}: not in the catalogue")
        if seen.facts:
            print(new_entry(seen.name, seen.gpu, seen.facts))
    if comparison.is_equal:
        print("the catalogue matches the cloud")
    elif written is None:
        print("write the differences with --write, then set the date of the source")
    else:
        print(f"{written} of {len(comparison.differences)} written: set the source's date, and review the diff")


if __name__ == "__main__":
    sys.exit(main())

"""List prices by region, and the regions and zones that offer machine types.

The samples come from copies of the price lists that the catalogue does not use, read on 2026-11-23. The AWS
samples are rows of skypilot-org/skypilot-catalog, catalogs/v8/aws/vms.csv, commit 00148f2. Each GCP sample is the
price of a machine plus the price of its GPUs, from two rows of catalogs/v8/gcp/vms.csv, commit 006059e.
"""

from __future__ import annotations

import pytest

from gpu_platform.catalog import Catalog, load_catalog


@pytest.fixture(name="catalog", scope="module")
def _catalog() -> Catalog:
    return load_catalog()


AWS = [
    ("p3dn.24xlarge", "ap-northeast-1", 42.783),
    ("p4d.24xlarge", "eu-central-1", 27.43298),
    ("p4d.24xlarge", "ap-southeast-2", 28.54493),
    ("p4de.24xlarge", "eu-central-1", 34.29122),
    ("p5.48xlarge", "us-east-2", 55.04),
    ("p5.48xlarge", "eu-north-1", 58.8928),
    ("p5.48xlarge", "us-west-1", 68.8),
    ("p5.4xlarge", "ap-southeast-3", 9.4944),
    ("p5en.48xlarge", "eu-south-2", 68.35968),
    ("p6-b200.48xlarge", "us-east-2", 113.9328),
    ("p6-b300.48xlarge", "us-west-2", 142.416),
    ("g6.xlarge", "eu-west-3", 1.0216),
    ("g6e.12xlarge", "eu-north-1", 11.12975),
    ("g6e.48xlarge", "eu-central-1", 37.67612),
    ("g6e.4xlarge", "ap-northeast-2", 3.69355),
    ("gr6.4xlarge", "ca-central-1", 1.709),
    ("g7e.8xlarge", "us-east-2", 5.26824),
]
GCP = [
    ("a2-highgpu-1g", "us-west4", 0.8328 + 3.10156),
    ("a2-highgpu-8g", "me-west1", 6.5074 + 25.81839),
    ("a2-megagpu-16g", "us-central1", 8.79698 + 46.94253),
    ("g2-standard-4", "asia-east1", 0.16997 + 0.64847),
    ("g2-standard-96", "us-east4", 3.51147 + 4.46565),
    ("g2-standard-96", "us-west4", 3.96796 + 5.04619),
]


@pytest.mark.parametrize(("machine", "region", "usd"), [*AWS, *GCP])
def test_a_regions_price_equals_another_copy_of_the_price_list(
    catalog: Catalog, machine: str, region: str, usd: float
) -> None:
    price = catalog.price(catalog.machine_types[machine], region)
    assert price is not None
    assert price.usd_per_hour == pytest.approx(usd, abs=2e-5)
    assert price.region == region


@pytest.mark.parametrize(
    ("machine", "region", "usd"),
    [
        # The source lists prices of whole machines.
        ("e2-standard-4", "europe-west4", 0.147544),
        ("n2-highmem-8", "asia-northeast1", 0.67176),
        ("n2d-standard-96", "us-east4", 4.56768),
        ("c3-standard-8", "us-central1", 0.403216),
        ("c3-standard-176-lssd", "europe-west1", 11.082653),
        ("c4-highmem-48", "europe-west3", 3.6912),
        ("n4-standard-16", "us-west1", 0.7256),
        ("t2d-standard-60", "us-east1", 2.53476),
        ("c4a-standard-72", "us-central1", 3.2328),
    ],
)
def test_a_machine_without_gpus_costs_the_sum_of_its_parts_in_each_region_of_google(
    catalog: Catalog, machine: str, region: str, usd: float
) -> None:
    price = catalog.price(catalog.machine_types[machine], region)
    assert price is not None
    assert price.usd_per_hour == pytest.approx(usd, abs=2e-6)


@pytest.mark.parametrize(
    ("machine", "region"),
    [
        ("c4a-standard-4", "me-central1"),
        ("p5e.48xlarge", "us-east-2"),  # P5e is sold only in capacity blocks
        ("p6-b200.48xlarge", "eu-central-1"),
        ("g4dn.xlarge", "us-central1"),
        ("a4-highgpu-8g", "us-central1"),
        ("a3-ultragpu-8g", "europe-west4"),
        ("dgx-h100", "us-east-1"),
    ],
)
def test_a_region_without_a_price_has_none_and_no_other_regions_price(
    catalog: Catalog, machine: str, region: str
) -> None:
    assert catalog.price(catalog.machine_types[machine], region) is None


def test_every_region_with_a_price_is_one_that_offers_the_machine_type(catalog: Catalog) -> None:
    for prices in catalog.price_lists.values():
        for name, by_region in prices.usd_per_hour.items():
            if not catalog.machine_types[name].has_gpus:
                continue  # the price lists of these machine types cover only a few regions
            offered = catalog.offered(catalog.machine_types[name])
            assert offered is not None, name
            assert set(by_region) <= set(offered.zones), name


def test_offerings_list_zones_on_gcp_but_only_regions_on_aws(catalog: Catalog) -> None:
    mega = catalog.offered(catalog.machine_types["a3-megagpu-8g"])
    assert mega is not None
    assert mega.zones["us-central1"] == ("us-central1-a", "us-central1-b", "us-central1-c")
    assert mega.zones["us-east5"] == ("us-east5-a",)
    assert "europe-west9" not in mega.zones
    blackwell = catalog.offered(catalog.machine_types["g4-standard-48"])
    assert blackwell is not None
    assert blackwell.zones["us-south1"] == ()
    p5e = catalog.offered(catalog.machine_types["p5e.48xlarge"])
    assert p5e is not None
    assert p5e.zones == dict.fromkeys(
        ("ap-southeast-2", "ap-southeast-3", "eu-north-1", "eu-west-2", "us-east-2", "us-west-2"), ()
    )
    assert catalog.offered(catalog.machine_types["dgx-h100"]) is None


@pytest.mark.parametrize(
    ("machine", "region", "usd"),
    [
        # Prices of Azure's pricing page that other public tables quote, 2026-06.
        ("Standard_ND96isr_H100_v5", "eastus", 98.32),
        ("Standard_NC40ads_H100_v5", "eastus", 6.98),
        ("Standard_NC24ads_A100_v4", "westeurope", 4.775),
        ("Standard_D4s_v5", "eastus", 0.192),
        ("Standard_D16ds_v5", "westeurope", 1.088),
    ],
)
def test_sizes_of_azure_have_prices_by_region(catalog: Catalog, machine: str, region: str, usd: float) -> None:
    price = catalog.price(catalog.machine_types[machine], region)
    assert price is not None
    assert price.usd_per_hour == pytest.approx(usd, rel=0.01)


def test_larger_sizes_of_azure_cost_in_proportion_to_their_gpus(catalog: Catalog) -> None:
    """Prices with a license of Windows are higher by an amount for each vCPU, which the T4 sizes would show."""
    sizes = (
        ("Standard_NC24ads_A100_v4", "Standard_NC48ads_A100_v4", 2),
        ("Standard_NC24ads_A100_v4", "Standard_NC96ads_A100_v4", 4),
        ("Standard_NC40ads_H100_v5", "Standard_NC80adis_H100_v5", 2),
        ("Standard_NC4as_T4_v3", "Standard_NC64as_T4_v3", 8.274),
    )
    prices = catalog.price_lists["azure-regions"].usd_per_hour
    for small, large, times in sizes:
        for region in prices[small].keys() & prices[large].keys():
            assert prices[large][region] / prices[small][region] == pytest.approx(times, rel=0.01), (large, region)

from __future__ import annotations

import pytest

from gpu_platform.catalog.zones import google_region, is_google_zone, is_zone, region_of, zone_examples
from gpu_platform.planning.clouds.eks.zones import is_local_zone, region_of_zone


@pytest.mark.parametrize("zone", ["us-central1-a", "us-central1-ai1a", "us-south1-ai1b"])
def test_zones_and_ai_zones_belong_to_a_region_of_google_cloud(zone: str) -> None:
    assert is_zone(zone)
    assert is_google_zone(zone)
    assert google_region(zone) == zone.rpartition("-")[0]
    assert google_region(google_region(zone)) == google_region(zone)


@pytest.mark.parametrize(
    ("zone", "region", "local"),
    [
        ("us-east-1a", "us-east-1", False),
        ("us-gov-west-1b", "us-gov-west-1", False),
        ("us-east-1-dfw-2a", "us-east-1", True),
    ],
)
def test_zones_and_local_zones_belong_to_a_region_of_aws(zone: str, region: str, local: bool) -> None:
    assert is_zone(zone)
    assert not is_google_zone(zone)
    assert (region_of_zone(zone), is_local_zone(zone)) == (region, local)


def test_zones_of_azure_are_numbers_without_a_region() -> None:
    assert is_zone("1")
    assert not is_zone("0")
    assert not is_zone("eastus-1")
    assert region_of("1") == ""


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("us-central1", "us-central1-a"),
        ("us-central1-ai1", "us-central1-a"),
        ("us-east-2", "us-east-2a"),
        ("ohio", "us-east-2a on EKS, us-central1-a on GKE, or 1 on AKS"),
    ],
)
def test_what_is_no_zone_gets_an_example_in_the_words_of_its_cloud(name: str, examples: str) -> None:
    assert not is_zone(name)
    assert zone_examples(name) == examples

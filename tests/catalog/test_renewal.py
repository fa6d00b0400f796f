"""`python -m tools.renew` compares the catalogue's machine types with the clouds' APIs.

Moto's server answers for EC2, with machine types copied from AWS's DescribeInstanceTypes. A small test server
answers for Google.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_platform.catalog import load_catalog
from gpu_platform.online.aws.api import AwsApi
from gpu_platform.online.azure.api import AzureApi
from gpu_platform.online.google.api import GoogleApi
from tests.support.aws_account import AwsAccount
from tests.support.google_project import MACHINE_TYPES, google_project
from tools.renew import aws, azure, google
from tools.renew.__main__ import main
from tools.renew.compare import FIELDS, Comparison, DescribedType, Difference, compare
from tools.renew.write import new_entry, with_differences

REGION = "us-east-2"
OURS = [name for name, machine in load_catalog().machine_types.items() if machine.vendor == "aws"]


@pytest.fixture(name="ec2", scope="module")
def _ec2() -> list[DescribedType]:
    account = AwsAccount(REGION)
    return list(aws.described({REGION: AwsApi(REGION, account.session())}, OURS))


def renewed(seen: list[DescribedType], vendor: str = "aws", *regions: str) -> Comparison:
    return compare(load_catalog(), vendor, seen, regions)


@pytest.mark.long
def test_the_catalogue_has_every_gpu_type_with_the_facts_of_ec2(
    ec2: list[DescribedType],
) -> None:
    assert len(ec2) > 150
    found = renewed(ec2)
    assert [one for one in found.differences if one.where in FIELDS] == []
    assert found.new == ()


def test_no_name_in_botocores_model_is_unknown() -> None:
    assert aws.named_types() > {"p5.48xlarge", "g6f.large", "p3.2xlarge"}
    assert main(["aws", "--names"]) == 0


def test_different_facts_and_types_only_in_the_cloud_are_shown(
    ec2: list[DescribedType],
) -> None:
    [p5] = [one for one in ec2 if one.name == "p5.48xlarge"]
    changed = DescribedType("p5.48xlarge", {**p5.facts, "vcpu": 200}, p5.gpu)
    found = renewed([changed, DescribedType("p9.48xlarge", {"gpu_count": 8, "local_nvme_gb": 0}, "Z1")])
    assert found.differences == (Difference("p5.48xlarge", "vcpu", 192, 200),)
    assert [new_entry(one.name, one.gpu, one.facts) for one in found.new] == [
        "  - {name: p9.48xlarge, gpu: Z1, gpu_count: 8}"
    ]


def test_types_that_the_cloud_no_longer_offers_are_shown() -> None:
    assert "p4de.24xlarge" in renewed([], "aws", "us-east-1").gone
    assert renewed([], "aws", "mars-1").gone == ()


def test_list_prices_are_for_regions_and_not_for_local_zones() -> None:
    def product(region: str, kind: str, usd: str) -> dict[str, Any]:
        dimension = {"pricePerUnit": {"USD": usd}}
        attributes = {"regionCode": region, "locationType": kind}
        return {
            "product": {"attributes": attributes},
            "terms": {"OnDemand": {"t": {"priceDimensions": {"d": dimension}}}},
        }

    account = AwsAccount(aws.PRICING_REGION)
    account.products = [
        product("us-east-1", "AWS Region", "56.0000000000"),
        product("us-west-2-lax-1", "AWS Local Zone", "66.0"),
        product("us-east-2", "AWS Region", "55.04"),
    ]
    prices = aws.list_prices(AwsApi(aws.PRICING_REGION, account.session()), "p5.48xlarge")
    assert prices == {"us-east-1": 56.0, "us-east-2": 55.04}
    assert account.asked == {"pricing:GetProducts"}
    seen = DescribedType("p5.48xlarge", {}, "H100", usd_per_hour=prices)
    found = renewed([seen], "aws", "us-east-1", "us-east-2")
    assert found.differences == (Difference("p5.48xlarge", "price us-east-1", 55.04, 56.0),)


def test_facts_zones_and_regions_are_read_from_all_zones_of_google() -> None:
    machine = {
        "name": "a3-highgpu-8g",
        "guestCpus": 208,
        "memoryMb": 1900000,
        "architecture": "X86_64",
        "accelerators": [{"guestAcceleratorType": "nvidia-h100-80gb", "guestAcceleratorCount": 8}],
    }
    zones = ("us-central1-a", "us-central1-z", "us-west9-a")
    with google_project() as project:
        items = {f"zones/{zone}": {"machineTypes": [machine]} for zone in zones}
        project.answers[MACHINE_TYPES] = {"items": items}
        seen = list(google.described(GoogleApi(), "my-project", []))
    found = {(one.where, one.cloud) for one in renewed(seen, "gcp", "us-central1", "us-west9").differences}
    assert ("memory_mib", 1900000) in found
    assert ("region us-west9", "offered") in found
    assert ("zones us-central1", "us-central1-a, us-central1-z") in found
    assert "vcpu" not in {where for where, _ in found}


class AzureAnswers:
    """A fake session of `requests`. Its responses contain the given documents, one after the other."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = iter(answers)
        self.status_code = 200

    def request(self, *_: Any, **__: Any) -> AzureAnswers:
        return self

    get = request

    def json(self) -> dict[str, Any]:
        return next(self._answers)


def azure_sku(name: str, **capabilities: str) -> dict[str, Any]:
    return {
        "name": name,
        "family": "StandardNCADSA100v4Family",
        "resourceType": "virtualMachines",
        "locationInfo": [{"location": "eastus2", "zones": ["2", "1"]}],
        "capabilities": [{"name": key, "value": value} for key, value in capabilities.items()],
    }


def test_facts_and_regions_are_read_from_the_skus_of_azure() -> None:
    a100 = {"vCPUs": "24", "MemoryGB": "220", "GPUs": "1", "CpuArchitectureType": "x64"}
    cache = {"EphemeralOSDiskSupported": "True", "CachedDiskBytes": "274877906944"}
    temporary = {"EphemeralOSDiskSupported": "True", "MaxResourceVolumeMB": "3145728"}
    answers = AzureAnswers(
        {
            "value": [
                azure_sku("Standard_NC24ads_A100_v4", **a100, **cache),
                azure_sku("Standard_NC48ads_A100_v4", **{**a100, "GPUs": "2", "vCPUs": "50"}, **temporary),
                azure_sku("Standard_NC9ads_Z1_v9", **a100),
                azure_sku("Standard_D1s_v9", vCPUs="1", MemoryGB="4"),
                {**azure_sku("Standard_NC24ads_A100_v4", **a100), "resourceType": "disks"},
            ]
        }
    )
    seen = azure.described(AzureApi("s", answers), "s", ["eastus2"], [])
    found = renewed(list(seen), "azure", "eastus2")
    assert seen[0].facts["ephemeral_os_gib"] == 256
    assert seen[0].zones == {"eastus2": ("eastus2-1", "eastus2-2")}
    assert {(one.machine_type, one.where, one.cloud) for one in found.differences} == {
        ("Standard_NC48ads_A100_v4", "vcpu", 50),
        ("Standard_NC48ads_A100_v4", "memory_mib", 225280),
        ("Standard_NC48ads_A100_v4", "ephemeral_os_gib", 2048),
    }
    assert [one.name for one in found.new] == ["Standard_NC9ads_Z1_v9"]


def test_list_prices_of_azure_are_for_linux_on_demand() -> None:
    def item(
        region: str, price: float, product: str = "Virtual Machines NCads", sku: str = "NC24ads"
    ) -> dict[str, Any]:
        kind = {"type": "Consumption", "unitOfMeasure": "1 Hour"}
        return {"armRegionName": region, "retailPrice": price, "productName": product, "skuName": sku, **kind}

    answers = AzureAnswers(
        {
            "Items": [
                item("eastus2", 3.673),
                item("eastus2", 4.777, "Virtual Machines NCads Windows"),
                item("eastus2", 0.9, sku="NC24ads Spot"),
                item("eastus2", 0.8, sku="NC24ads Low Priority"),
            ],
            "NextPageLink": "https://prices.azure.com/more",
        },
        {"Items": [item("mars", 9.5), item("eastus2", 3.0, "NCads Cloud Services")]},
    )
    prices = azure.list_prices(answers, "Standard_NC24ads_A100_v4")
    assert prices == {"eastus2": 3.673, "mars": 9.5}
    seen = DescribedType("Standard_NC24ads_A100_v4", {}, usd_per_hour=prices)
    found = renewed([seen], "azure", "eastus2", "mars")
    assert [(one.where, one.cloud) for one in found.differences] == [("price mars", 9.5)]


FACTS = """\
# A comment that stays.
machine_types:
  - {<<: &aws {vendor: aws, source: {title: T, date: 2026-01-01}},
     name: p5.48xlarge, gpu: h100-80gb, gpu_count: 8, vcpu: 192, memory_mib: 2097152}  # its own
  - {<<: *aws, name: p5.4xlarge, gpu: h100-80gb, gpu_count: 1, vcpu: 16, memory_mib: 262144}
    usd_per_hour:
      p5.4xlarge: {us-east-1: 6.88, us-gov-west-1: 8.256}
"""


def test_writing_changes_only_the_entry_and_names_the_rest() -> None:
    differences = [
        Difference("p5.48xlarge", "vcpu", 192, 200),
        Difference("p5.4xlarge", "rdma_interfaces", 0, 1),
        Difference("p5.4xlarge", "price us-gov-west-1", 8.256, 9.5),
        Difference("p5.4xlarge", "price us-east-2", None, 7.0),
        Difference("p5.4xlarge", "region us-west-2", "not offered", "offered"),
    ]
    text, done = with_differences(FACTS, differences)
    assert done == frozenset(differences[:3])
    expected = (
        FACTS.replace("vcpu: 192", "vcpu: 200")
        .replace("262144}", "262144, rdma_interfaces: 1}")
        .replace("8.256", "9.5")
    )
    assert text == expected


def test_what_is_written_is_read_again_by_the_catalogue() -> None:
    text, done = with_differences(
        FACTS.split("    usd_per_hour")[0], [Difference("p5.4xlarge", "arch", "amd64", "arm64")]
    )
    assert done
    [_, entry] = yaml.safe_load(text)["machine_types"]
    assert (entry["arch"], entry["memory_mib"]) == ("arm64", 262144)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["aws"], "one of the arguments --region --names is required"),
        (["gcp", "--region", "us-central1"], "required: --project"),
        (["azure"], "required: --region"),
    ],
)
def test_what_is_missing_on_the_command_line_is_named(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err

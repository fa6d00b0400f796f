"""If files in the catalogue are inconsistent, the loader reports the file, the entry and what is missing."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.catalog import read_catalog

FACTS = Path(str(resources.files("gpu_platform.catalog") / "facts"))
SOURCE = "source: {title: a test, date: 2026-11-22}"


class Broken(NamedTuple):
    """A mistake that replaces a text of a facts file, and the expected place and words of the problem."""

    file: str
    old: str
    new: str
    path: str
    words: tuple[str, ...]


def added(file: str, kind: str, entry: str, path: str, *words: str) -> Broken:
    return Broken(file, f"\n{kind}:\n", f"\n{kind}:\n  - {{{entry}, {SOURCE}}}\n", path, words)


AWS, GCP = "machine_types_aws.yaml", "machine_types_gcp.yaml"
MACHINE = "gpu_count: 1, vcpu: 4, memory_mib: 16384"

BROKEN: dict[str, Broken] = {
    "a machine type of an unknown EC2 family": added(
        AWS,
        "machine_types",
        f"name: p9.48xlarge, vendor: aws, gpu: t4, {MACHINE}",
        f"{AWS}: machine_types[p9.48xlarge].name",
        "'p9', which is not an entry of families of aws",
    ),
    "a machine type of an unknown Compute Engine family": added(
        GCP,
        "machine_types",
        f"name: a9-highgpu-8g, vendor: gcp, gpu: t4, accelerator_label: x, {MACHINE}",
        f"{GCP}: machine_types[a9-highgpu-8g].name",
        "'a9-highgpu', which is not an entry of families of gcp",
    ),
    "a machine type with an unknown GPU": added(
        AWS,
        "machine_types",
        f"name: p5.9xlarge, vendor: aws, gpu: h100-81gb, {MACHINE}",
        f"{AWS}: machine_types[p5.9xlarge].gpu",
        "'h100-81gb', which is not an entry of gpus",
        "h100-80gb",
    ),
    "a GKE machine type without the name that the API uses for its GPU": added(
        GCP,
        "machine_types",
        f"name: a2-highgpu-9g, vendor: gcp, gpu: a100-40gb, {MACHINE}",
        f"{GCP}: machine_types[a2-highgpu-9g].accelerator_label",
        "add accelerator_label",
    ),
    "an EC2 type without the limits of its network interfaces": added(
        AWS,
        "machine_types",
        f"name: p5.9xlarge, vendor: aws, gpu: h100-80gb, default_enis: 4, {MACHINE}",
        f"{AWS}: machine_types[p5.9xlarge]",
        "add default_enis and ips_per_eni",
    ),
    "more NUMA nodes than GPUs": added(
        AWS,
        "machine_types",
        f"name: p5.9xlarge, vendor: aws, gpu: h100-80gb, numa_nodes: [0, 1], {MACHINE}",
        f"{AWS}: machine_types[p5.9xlarge].numa_nodes",
        "2 NUMA nodes for 1 GPU",
    ),
    "a machine type with two entries": added(
        AWS,
        "machine_types",
        f"name: p5.48xlarge, vendor: aws, gpu: h100-80gb, {MACHINE}",
        f"{AWS}: machine_types[p5.48xlarge]",
        "a second entry p5.48xlarge",
    ),
    "a machine type without its GPU": added(
        AWS,
        "machine_types",
        f"name: p5.9xlarge, vendor: aws, {MACHINE}",
        f"{AWS}: machine_types[p5.9xlarge]",
        "gpu and gpu_count together, or neither for a machine without GPUs",
    ),
    "a price for an unknown machine type": added(
        "prices_aws.yaml",
        "price_lists",
        "name: x, vendor: aws, usd_per_hour: {p5.47xlarge: {us-east-1: 1}}",
        "prices_aws.yaml: price_lists[x].usd_per_hour.p5.47xlarge",
        "'p5.47xlarge', which is not an entry of machine_types of aws",
        "p5.48xlarge",
    ),
    "a price for another vendor's machine type": added(
        "prices_gcp.yaml",
        "price_lists",
        "name: x, vendor: gcp, usd_per_hour: {p5.48xlarge: {us-east1: 1}}",
        "prices_gcp.yaml: price_lists[x].usd_per_hour.p5.48xlarge",
        "'p5.48xlarge', which is not an entry of machine_types of gcp",
    ),
    "a negative price": added(
        "prices_aws.yaml",
        "price_lists",
        "name: x, vendor: aws, usd_per_hour: {p5.48xlarge: {us-west-9: -1}}",
        "prices_aws.yaml: price_lists[x].usd_per_hour.p5.48xlarge.us-west-9",
        "-1",
        "greater than 0",
    ),
    "a second price in the same region": added(
        "prices_aws.yaml",
        "price_lists",
        "name: x, vendor: aws, usd_per_hour: {p5.48xlarge: {us-east-2: 1}}",
        "prices_aws.yaml: price_lists[aws-regions].usd_per_hour.p5.48xlarge",
        "a second price in us-east-2 (first: prices_aws.yaml: price_lists[x].usd_per_hour.p5.48xlarge)",
    ),
    "a price per vCPU for an unknown machine type": added(
        "prices_gcp_cpu.yaml",
        "part_prices",
        "name: x, vendor: gcp, machine_types: [e9-standard-2], regions: {us-east1: {vcpu: 1}}",
        "prices_gcp_cpu.yaml: part_prices[x].machine_types",
        "'e9-standard-2', which is not an entry of machine_types of gcp",
    ),
    "a second price per vCPU in the same region": added(
        "prices_gcp_cpu.yaml",
        "part_prices",
        "name: x, vendor: gcp, machine_types: [e2-standard-2], regions: {us-east1: {vcpu: 1}}",
        "prices_gcp_cpu.yaml: part_prices[gcp-e2].machine_types",
        "a second price of e2-standard-2 in us-east1 (first: prices_gcp_cpu.yaml: part_prices[x].machine_types)",
    ),
    "an offering for an unknown machine type": added(
        "offerings_gcp.yaml",
        "offerings",
        "name: x, vendor: gcp, machine_types: [a3-megagpu-9g], regions: {us-east5: [a]}",
        "offerings_gcp.yaml: offerings[x].machine_types",
        "'a3-megagpu-9g', which is not an entry of machine_types of gcp",
        "a3-megagpu-8g",
    ),
    "a zone that is not a letter": added(
        "offerings_gcp.yaml",
        "offerings",
        "name: x, vendor: gcp, machine_types: [a3-megagpu-8g], regions: {us-east5: [us-east5-a]}",
        "offerings_gcp.yaml: offerings[x].regions.us-east5.0",
        "us-east5-a",
    ),
    "a family that has no machine types": added(
        "machine_families.yaml",
        "families",
        "vendor: aws, name: p9",
        "machine_families.yaml: families[aws/p9]",
        "a family without machine types",
    ),
    "a quota for an unknown family": added(
        "quotas.yaml",
        "gpu_quotas",
        "vendor: aws, families: [p9], capacity: spot, name: P9, unit: vCPU",
        "quotas.yaml: gpu_quotas[P9].families",
        "'p9', which is not an entry of families of aws",
    ),
    "limits of active checks for an unknown GPU": Broken(
        "burn_in.yaml",
        "gpus: [h100-80gb, h200-141gb]",
        "gpus: [h100-80gb, h200-141]",
        "burn_in.yaml: burn_in_limits[host-hopper].gpus",
        ("'h200-141'", "did you mean 'h200-141gb'"),
    ),
    "an operator release whose default driver is not in its list of drivers": Broken(
        "operator_releases.yaml",
        "default_driver: ",
        "default_driver: 580.1.1  # ",
        "operator_releases.yaml: operator_releases[",
        ("'580.1.1'", "one of drivers: "),
    ),
    "a MIG layout with an unknown profile": Broken(
        "gpus.yaml", "balanced: {1g.5gb:", "balanced: {1g.6gb:", "gpus.yaml: gpus[", ("'1g.6gb'", "mig.profiles")
    ),
    "an add-on without a pinned version for a Kubernetes version": Broken(
        "eks_addons.yaml", '"1.36":', '"1.39":', "eks_addons.yaml: eks_addons[", ("none for Kubernetes",)
    ),
    "a file that is not YAML": Broken("gpus.yaml", "gpus:", "gpus: [", "gpus.yaml", ("valid YAML",)),
    "a list of facts that the catalogue does not define": Broken(
        "quotas.yaml", "gpu_quotas:", "gpu_quotes:", "quotas.yaml: gpu_quotes", ("Extra inputs",)
    ),
}


def problems_of(folder: Path) -> list[Problem]:
    with pytest.raises(BadInput) as caught:
        read_catalog(folder)
    assert str(caught.value).startswith("the catalogue (gpu_platform/catalog/facts): ")
    return list(caught.value.problems)


def test_the_unchanged_facts_are_consistent() -> None:
    assert read_catalog(FACTS).machine_types


@pytest.mark.parametrize("name", BROKEN)
def test_a_catalogue_that_does_not_fit_together_is_one_clear_error(name: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    shutil.copytree(FACTS, tmp_path / "facts")
    file = tmp_path / "facts" / broken.file
    text = file.read_text("utf-8")
    assert broken.old in text
    file.write_text(text.replace(broken.old, broken.new, 1), "utf-8")

    found = [problem for problem in problems_of(tmp_path / "facts") if problem.path.startswith(broken.path)]
    assert found
    assert all(word in str(found[0]) for word in broken.words), found


def test_all_mistakes_of_the_catalogue_are_shown_at_once(tmp_path: Path) -> None:
    shutil.copytree(FACTS, tmp_path / "facts")
    (tmp_path / "facts" / "machine_families.yaml").write_text("{}", "utf-8")

    paths = {problem.path.partition(":")[0] for problem in problems_of(tmp_path / "facts")}
    of_cpu = {"machine_types_aws_cpu.yaml", "machine_types_gcp_cpu.yaml", "machine_types_azure_cpu.yaml"}
    assert paths == {AWS, GCP, "machine_types_azure.yaml", "quotas.yaml", "burn_in.yaml", *of_cpu}

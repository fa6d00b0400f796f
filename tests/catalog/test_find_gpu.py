"""GPU names as NVML, GPU Feature Discovery, the clouds and users spell them."""

from __future__ import annotations

import re

import pytest

from gpu_platform.catalog import load_catalog


@pytest.mark.parametrize(
    ("spelling", "model"),
    [
        ("Tesla T4", "t4"),
        ("Tesla-T4", "t4"),
        ("NVIDIA T4", "t4"),
        ("nvidia-tesla-t4", "t4"),
        ("Tesla-V100-SXM2-16GB", "v100-16gb"),
        ("NVIDIA-A10G", "a10g"),
        ("nvidia-l4", "l4"),
        ("NVIDIA-L40S", "l40s"),
        ("NVIDIA A30", "a30"),
        ("A100-SXM4-40GB", "a100-40gb"),
        ("nvidia-tesla-a100", "a100-40gb"),
        ("A100-PCIE-40GB", "a100-40gb-pcie"),
        ("NVIDIA-A100-SXM4-80GB", "a100-80gb"),
        ("nvidia-a100-80gb", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA-H100-80GB-HBM3", "h100-80gb"),
        ("nvidia-h100-mega-80gb", "h100-80gb"),
        ("H100", "h100-80gb"),
        ("NVIDIA H100 PCIe", "h100-80gb-pcie"),
        ("NVIDIA-H100-NVL", "h100-94gb"),
        ("GH200", "gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA H200", "h200-141gb"),
        ("nvidia-h200-141gb", "h200-141gb"),
        ("nvidia_b200", "b200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("nvidia-gb200", "gb200"),
        ("nvidia-rtx-pro-6000", "rtx-pro-6000"),
        ("rtx-pro-server-6000", "rtx-pro-6000"),
        ("NVIDIA-RTX-PRO-4500-Blackwell-Server-Edition", "rtx-pro-4500"),
    ],
)
def test_a_known_spelling_finds_its_gpu(spelling: str, model: str):
    gpu = load_catalog().find_gpu(spelling)
    assert gpu is not None
    assert gpu.model == model


@pytest.mark.parametrize("spelling", ["A100", "a100", "V100", "RTX 4090", "", "nvidia"])
def test_an_ambiguous_or_unknown_spelling_finds_nothing(spelling: str):
    assert load_catalog().find_gpu(spelling) is None


def test_every_product_label_finds_its_own_gpu():
    catalog = load_catalog()
    assert [catalog.find_gpu(gpu.product_label) for gpu in catalog.gpus.values()] == list(catalog.gpus.values())


def test_no_spelling_belongs_to_two_gpus():
    owners: dict[str, str] = {}
    for gpu in load_catalog().gpus.values():
        for spelling in (gpu.model, gpu.product, *gpu.aliases):
            folded = re.sub(r"[\s_-]+", "", spelling.casefold()).removeprefix("nvidia")
            assert owners.setdefault(folded, gpu.model) == gpu.model, spelling

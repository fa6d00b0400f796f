"""PCI ids of MIG-capable GPUs, which the `device-filter` of a mig-parted config goes by.

Source: NVIDIA/gpu-operator 26.7.0, default-mig-parted-config; NVIDIA/mig-parted README; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# NVML product name, device id in the upper and vendor id (10DE) in the lower 16 bits.
_BY_PRODUCT: Final[Mapping[str, int]] = {
    "NVIDIA A30": 0x20B710DE,
    "NVIDIA A100-SXM4-40GB": 0x20B010DE,
    "NVIDIA A100-SXM4-80GB": 0x20B210DE,
    "NVIDIA A100-PCIE-40GB": 0x20F110DE,
    "NVIDIA A100 80GB PCIe": 0x20B510DE,
    "NVIDIA H100 80GB HBM3": 0x233010DE,
    "NVIDIA H100 PCIe": 0x233110DE,
    "NVIDIA H100 NVL": 0x232110DE,
    "NVIDIA H200": 0x233510DE,
    "NVIDIA H200 NVL": 0x233B10DE,
    "NVIDIA GH200 480GB": 0x234210DE,
    "NVIDIA B200": 0x290110DE,
    "NVIDIA GB200": 0x294110DE,
    "NVIDIA B300 SXM6 AC": 0x318210DE,
    "NVIDIA GB300": 0x31C210DE,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 0x2BB510DE,
}


def device_id(product: str) -> int | None:
    """Return the PCI id of a product, or None where it is not known; no filter matches None."""
    return _BY_PRODUCT.get(product)

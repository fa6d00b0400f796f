"""Writes what a simulated node shows beside NVML: PCI devices in sysfs, and the kernel's log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sandbox.nvml._hardware import SimulatedNode

_IDENTITIES: Final = {  # vendor, device and class, by which the node agent recognises the kinds
    "gpu": ("0x10de", "0x2330", "0x030200"),
    "efa": ("0x1d0f", "0xefa2", "0x020000"),
    "mlx5": ("0x15b3", "0x101e", "0x020000"),
    "gvnic": ("0x1ae0", "0x0042", "0x020000"),
}


def write_sysfs(node: SimulatedNode, root: Path) -> None:
    """Write the PCI devices of a node as sysfs has them, below `root`."""
    flat = root / "bus/pci/devices"
    flat.mkdir(parents=True)
    for device in node.pci_devices or ():
        folder = root.joinpath("devices", *device.bridges, device.address)
        folder.mkdir(parents=True)
        for file, text in zip(("vendor", "device", "class"), _IDENTITIES[device.kind], strict=True):
            (folder / file).write_text(f"{text}\n")
        for name, mtu in device.interfaces.items():
            (folder / "net" / name).mkdir(parents=True)
            (folder / "net" / name / "mtu").write_text(f"{mtu}\n")
        (flat / device.address).symlink_to(folder)
    for address, numa_node in node.numa_files.items():
        (flat / address).mkdir(exist_ok=True)
        (flat / address / "numa_node").write_text(f"{numa_node}\n")


def devices(node: SimulatedNode) -> str:
    """Return the text of /proc/devices, as far as the node agent reads it."""
    lines = ["Character devices:", "195 nvidia", "509 nvidia-caps"]
    return "\n".join([*lines, *(["234 nvidia-caps-imex-channels"] if node.imex_channels else [])]) + "\n"


def kernel_log(node: SimulatedNode) -> Iterator[str]:
    """Yield what the driver has written to the kernel's log, in the format of /dev/kmsg."""
    for number, (code, (domain, bus, slot), age) in enumerate(node.xids, 1):
        microseconds = round((time.monotonic() - age) * 1e6)
        text = f"NVRM: Xid (PCI:{domain:04x}:{bus:02x}:{slot:02x}): {code}, pid='<unknown>', name=<unknown>"
        yield f"3,{number},{microseconds},-;{text}"

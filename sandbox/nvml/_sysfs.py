"""Writes the simulated sysfs (PCI devices) and kernel log of a node."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sandbox.nvml._hardware import SimulatedNode

_IDENTITIES: Final = {  # vendor, device and class, from which the node agent determines the kind of device
    "gpu": ("0x10de", "0x2330", "0x030200"),
    "efa": ("0x1d0f", "0xefa2", "0x020000"),
    "mlx5": ("0x15b3", "0x101e", "0x020000"),
    "infiniband": ("0x15b3", "0x101e", "0x020700"),
    "gvnic": ("0x1ae0", "0x0042", "0x020000"),
}


_written: dict[tuple[int, str], Path] = {}
"""Directory trees that were written, by process ID and contents. Each forked process writes its own trees."""


def sysfs_of(node: SimulatedNode) -> Path:
    """Return the root of a sysfs with a node's PCI devices. It exists until the process ends.

    The tree is read-only, so nodes with the same devices share it. Writing its hundreds of files takes longer than
    the node agent takes to read the node.
    """
    key = os.getpid(), repr((node.pci_devices, sorted(node.numa_files.items())))
    if key not in _written:
        root = Path(tempfile.mkdtemp(prefix="simulated-sysfs-"))
        atexit.register(_remove, root, os.getpid())
        _write_sysfs(node, root)
        _written[key] = root
    return _written[key]


def _remove(root: Path, writer: int) -> None:
    if os.getpid() == writer:  # a forked process must not delete the tree when it ends
        shutil.rmtree(root, ignore_errors=True)


def _write_sysfs(node: SimulatedNode, root: Path) -> None:
    """Write the PCI devices of a node below `root`, in the layout of sysfs."""
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
    """Return the lines of /proc/devices that the node agent reads."""
    lines = ["Character devices:", "195 nvidia", "509 nvidia-caps"]
    return "\n".join([*lines, *(["234 nvidia-caps-imex-channels"] if node.imex_channels else [])]) + "\n"


def limits(node: SimulatedNode) -> str:
    """Return the lines of /proc/self/limits that the node agent reads."""
    limit = node.locked_memory if node.locked_memory is not None and node.locked_memory >= 0 else "unlimited"
    return f"Max locked memory         {limit}            {limit}            bytes\n"


def kernel_log(node: SimulatedNode) -> Iterator[str]:
    """Yield the driver's messages in the kernel log, in the format of /dev/kmsg."""
    for number, (code, (domain, bus, slot), age, text) in enumerate(node.xids):
        microseconds = round((time.monotonic() - age) * 1e6)
        line = (
            f"Xid (PCI:{domain:04x}:{bus:02x}:{slot:02x}): {code}{text}"
            if code
            else "loading NVIDIA UNIX Kernel Module"
        )
        yield f"3,{number},{microseconds},-;NVRM: {line}"

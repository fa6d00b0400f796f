"""Checks the number, the MTU and the placement of the NICs that connect GPUs of several nodes.

The NICs are read from the PCI devices in sysfs, which look the same in a container as on the host. Sources: Linux,
drivers/infiniband/hw/efa (efa_main.c: 0xefa0 to 0xefa4, one number per generation) and
drivers/net/ethernet/google/gve (gve.h: 0x0042; newer Google machines have other numbers); nvmlGpuTopologyLevel_t
for the words PIX and PXB; read 2026-11-25.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from validators.agent.expectations import Expectation
from validators.agent.outcome import FAIL, PASS, UNKNOWN, Outcome, compared, not_expected, unanswered
from validators.agent.snapshot import GpuSnapshot, Reading, Snapshot

SYSFS_VARIABLE = "GPU_PLATFORM_SYSFS"  # path of sysfs; a sandbox sets it to a missing folder
DEVICES_VARIABLE = "GPU_PLATFORM_PROC_DEVICES"  # path of /proc/devices; a sandbox sets it to its own file
PROC_VARIABLE = "GPU_PLATFORM_PROC"  # path of the host's /proc; a sandbox sets it to a folder without processes
_KERNEL, _KERNEL_PID = "kthreadd", 2  # a kernel thread, visible only if all processes of the host are visible
_MANAGER = "nv-fabricmanager"[:15]  # the kernel keeps only this many characters of a process name
_IMEX_CHANNELS = "nvidia-caps-imex-channels"
EFA, MLX5, INFINIBAND, GVNIC = "efa", "mlx5", "infiniband", "gvnic"
KINDS: Mapping[str, str] = {
    EFA: "EFA device",
    MLX5: "RDMA NIC (mlx5)",
    INFINIBAND: "InfiniBand NIC",
    GVNIC: "gVNIC interface",
}
_NVIDIA = "0x10de"
_MELLANOX = "0x15b3"
_NETWORK_CLASSES = ("0x02", "0x0c06")  # Ethernet and InfiniBand controllers
_INFINIBAND_CLASSES = ("0x0207", "0x0c06")  # the second is from before PCI had a class for InfiniBand networks
_AMAZON, _EFA = "0x1d0f", "0xefa"  # all generations of EFA
_GOOGLE, _GVNIC = "0x1ae0", "0x0042"
_INTERFACE_OF_NODE = "eth0"  # Google Cloud: interface in the cluster's network, whose MTU is not checked
_OF_NODE = (
    "run node-check on the host of an idle node: a container sees only its own interfaces, and interfaces that "
    "pods use are not visible on the host"
)
_HIDDEN = "no PCI device of a GPU is visible in sysfs"

PciDevice = tuple[str, str, tuple[str, ...]]
"""Kind ("gpu" or one of KINDS), address, and addresses of the bridges above the device, from the host bridge down.
"""


def read_pci() -> list[list[Any]]:
    """Return the GPUs and NICs in sysfs, each with its kind, its address and the bridges above it."""
    root = os.path.join(os.environ.get(SYSFS_VARIABLE, "/sys"), "bus/pci/devices")
    found: list[list[Any]] = []
    for address in sorted(os.listdir(root)):
        folder = os.path.join(root, address)
        kind = _kind(_text(folder, "vendor"), _text(folder, "device"), _text(folder, "class"))
        if kind:
            above = os.path.realpath(folder).split(os.sep)
            first = next((place for place, part in enumerate(above) if part.startswith("pci")), len(above) - 1)
            found.append([kind, address, above[first:-1]])
    return found


def read_interfaces() -> list[list[Any]]:
    """Return the fabric's network interfaces in sysfs, each with the kind of NIC, its name and its MTU.

    A container sees only its own interfaces, unless it mounts the host's sysfs.
    """
    root = os.path.join(os.environ.get(SYSFS_VARIABLE, "/sys"), "bus/pci/devices")
    found: list[list[Any]] = []
    for kind, address, _ in read_pci():
        folder = os.path.join(root, address, "net")
        if kind in KINDS and os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                found.append([kind, name, int(_text(os.path.join(folder, name), "mtu"))])
    return found


class NoDriverListedError(Exception):
    """/proc/devices belongs to a kernel without NVIDIA's driver.

    The file then does not describe the driver that answers NVML calls.
    """


def has_imex_channels() -> bool:
    """Return whether the driver offers IMEX channels.

    They are a kind of character device that is also visible in containers. Raises NoDriverListedError if no device
    kind of the driver is listed (nvidia, nvidia-caps, ...), as in a container with a separate kernel. Source:
    NVIDIA, IMEX Service for NVLink Networks, "IMEX Channels"; read 2026-11-25.
    """
    with open(os.environ.get(DEVICES_VARIABLE, "/proc/devices"), encoding="ascii") as opened:
        kinds = [words[-1] for line in opened if (words := line.split())]
    if not any(kind.startswith("nvidia") for kind in kinds):
        raise NoDriverListedError
    return _IMEX_CHANNELS in kinds


def read_daemons() -> list[str]:
    """Return the names of the host's processes that the check `fabric-manager` needs, if they are visible.

    A container usually sees only its own processes and no kernel threads, so the list is usually empty.
    """
    root = os.environ.get(PROC_VARIABLE, "/proc")
    if _name(root, str(_KERNEL_PID)) != _KERNEL:
        return []
    names = {_name(root, pid) for pid in os.listdir(root) if pid.isdigit()}
    return [_KERNEL, *({_MANAGER} & names)]


def read_locked_memory() -> int:
    """Return how many bytes a process in a container may lock, or -1 if the number is unlimited.

    Containers inherit the limit from the container runtime, and Kubernetes has no field for it.
    """
    with open(os.path.join(os.environ.get(PROC_VARIABLE, "/proc"), "self/limits"), encoding="ascii") as opened:
        soft = next(line.split()[3] for line in opened if line.startswith("Max locked memory"))
    return -1 if soft == "unlimited" else int(soft)


def _name(root: str, pid: str) -> str | None:
    try:
        return _text(os.path.join(root, pid), "comm")
    except (OSError, UnicodeDecodeError):  # the process has ended, or its name is not ASCII
        return None


def _text(folder: str, file: str) -> str:
    with open(os.path.join(folder, file), encoding="ascii") as opened:
        return opened.read().strip().lower()


def _kind(vendor: str, device: str, pci_class: str) -> str:
    if vendor == _NVIDIA and pci_class.startswith("0x03"):
        return "gpu"
    if vendor == _AMAZON and device.startswith(_EFA):
        return EFA
    if vendor == _MELLANOX and pci_class.startswith(_NETWORK_CLASSES):
        return INFINIBAND if pci_class.startswith(_INFINIBAND_CLASSES) else MLX5
    google = vendor == _GOOGLE and (device == _GVNIC or pci_class.startswith(_NETWORK_CLASSES))
    return GVNIC if google else ""


def fabric_nics(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that the node has at least as many fabric NICs as it was created with."""
    devices = snapshot.pci_devices
    counts = {kind: sum(one[0] == kind for one in devices.value or ()) for kind in KINDS}
    observed = ", ".join(_counted(count, kind) for kind, count in counts.items() if count) or "none"
    if expectation is None:
        return not_expected("" if devices.value is None else observed)
    [(kind, count)] = expectation.value.items()
    expected = _counted(count, kind)
    if devices.value is None:
        return unanswered(devices, expected)
    if not any(one[0] == "gpu" for one in devices.value):
        return Outcome(UNKNOWN, expected, _HIDDEN, "run node-check on the node itself")
    remedy = (
        "run lspci on the node: if NICs are missing there, replace the node; if all nodes of the pool lack them, "
        "compare the network interfaces that they are created with"
    )
    return compared(counts[kind] >= count, expected, observed, remedy)


def fabric_mtu(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that the fabric's network interfaces have the MTU of their networks.

    Interfaces that a pod uses are in the pod's network namespace. The agent cannot see these interfaces, so the
    check does not require them.
    """
    found = snapshot.interfaces
    if expectation is None:
        return not_expected(", ".join(f"{name} {mtu}" for _, name, mtu in found.value or ()))
    [(kind, mtu)] = expectation.value.items()
    expected = f"{mtu} on each {KINDS[kind]}"
    if found.value is None:
        return unanswered(found, expected)
    sizes = [f"{name} {size}" for one, name, size in found.value if one == kind and name != _INTERFACE_OF_NODE]
    if not sizes:
        return Outcome(UNKNOWN, expected, "no network interface of these NICs is visible", _OF_NODE)
    other = [one for one in sizes if not one.endswith(f" {mtu}")]
    remedy = (
        "compare the MTU of the VPC networks with the plan, then replace the node, because it keeps the MTU that "
        "its network had when the node was created"
    )
    return compared(not other, expected, ", ".join(other) or f"{mtu} on {_counted(len(sizes), kind)}", remedy)


def locked_memory(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that pods may lock as much memory as they register with RDMA NICs.

    Pods that do not run as root cannot have CAP_IPC_LOCK, so the limit applies to them. If a registration fails,
    NCCL may use TCP. Sources: Linux, drivers/infiniband/core/umem.c (ib_umem_get);
    NVIDIA/nvidia-container-toolkit#2037; bottlerocket-core-kit, schnauzer (oci_defaults: unlimited with EFA,
    because the default of 8 MiB is too low); read 2026-11-30.
    """
    limit = snapshot.locked_memory
    observed = "" if limit.value is None else "unlimited" if limit.value < 0 else f"{limit.value // 1024} KiB"
    if expectation is None:
        return not_expected(observed)
    if limit.value is None:
        return unanswered(limit, "unlimited")
    remedy = (
        "set LimitMEMLOCK=infinity for the nodes' container runtime (docs/validation.md, The NICs of the fabric); "
        "burn-in shows whether NCCL uses TCP"
    )
    return compared(limit.value < 0, "unlimited", observed, remedy)


def fabric_manager(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that the fabric manager is still running.

    When it ends, GPUs stay registered, but failed links are not retrained.
    """
    daemons = snapshot.daemons.value or []
    if _KERNEL not in daemons:
        return not_expected("" if expectation is None else "processes of the host are not visible in a container")
    observed = "runs" if _MANAGER in daemons else "does not run"
    if expectation is None:
        return not_expected(observed)
    remedy = (
        "start the fabric manager (see systemctl status nvidia-fabricmanager and its log, or the driver's pod); "
        "if jobs have failed since it ended, drain the node and reset its GPUs"
    )
    return compared(_MANAGER in daemons, "runs", observed, remedy)


def imex_domain(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that jobs can share memory with other nodes of the rack, through one clique and IMEX channels."""
    cliques: dict[tuple[str, int], list[str]] = {}
    for gpu in snapshot.gpus:
        if gpu.fabric_domain.value is not None:
            cliques.setdefault(gpu.fabric_domain.value, []).append(str(gpu.index))
    clusters = list(dict.fromkeys(cluster for cluster, _ in cliques))
    shown = ", ".join(
        f"clique {clique}"
        + (f" of rack {clusters.index(cluster) + 1}" if len(clusters) > 1 else "")
        + (f" (GPUs {', '.join(gpus)})" if len(cliques) > 1 else "")
        for (cluster, clique), gpus in cliques.items()
    )
    channels = snapshot.imex_channels
    if expectation is None:
        return not_expected(shown if any(set(cluster) - {"0"} for cluster, _ in cliques) else "")
    expected = "all GPUs in one clique of the rack, and IMEX channels"
    silent = next((gpu.fabric_domain for gpu in snapshot.gpus if gpu.handle.ok and not gpu.fabric_domain.ok), None)
    if not cliques or silent is not None:
        return unanswered(silent or Reading(problem="not-called", call="nvmlDeviceGetGpuFabricInfoV"), expected)
    alone = [cluster for cluster, _ in cliques if not set(cluster) - {"0"}]
    if len(cliques) > 1 or alone:
        remedy = (
            "the fabric manager has not put the GPUs into one partition of the rack: compare nvidia-smi -q "
            "(Fabric) on all its nodes, see check fabric-state, and replace the node if only this node differs"
        )
        return Outcome(FAIL, expected, "no cluster" if alone and len(cliques) == 1 else shown, remedy)
    if channels.value is None:
        return unanswered(channels, expected)
    remedy = (
        "the driver was loaded without IMEX channels (see dmesg), so ComputeDomains cannot work on this node: "
        "reload the driver, or reboot the node"
    )
    return compared(channels.value, expected, shown + ("" if channels.value else ", no IMEX channels"), remedy)


def nic_affinity(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the GPU has a fabric NIC behind its PCIe switch.

    The expectation is the kind of NIC if the switches are visible in sysfs. On virtual machines that hide them, it
    contains the addresses of the NICs for each GPU.
    """
    devices = snapshot.pci_devices
    if expectation is None:
        return not_expected()
    if not isinstance(expectation.value, str):
        return _known_neighbours(gpu, expectation.value, devices)
    expected = "a NIC behind the same PCIe switch (PIX or PXB)"
    if devices.value is None:
        return unanswered(devices, expected)
    kind = expectation.value
    nearest = {
        one[1]: min((_level(one[2], nic[2]) for nic in devices.value if nic[0] == kind), default=_FAR)
        for one in devices.value
        if one[0] == "gpu"
    }
    own = nearest.get(_address(gpu))
    if own is None or all(level >= _HOST_BRIDGE for level in nearest.values()):
        hidden = "the machine does not show its PCIe switches" if own is not None else _HIDDEN
        return Outcome(UNKNOWN, expected, hidden, "normal on a virtual machine; on bare metal, see lspci -t")
    remedy = "its NIC is missing or in another slot: compare lspci -t with the other GPUs, and replace the node"
    verdict = PASS if own < _HOST_BRIDGE else FAIL
    return Outcome(verdict, expected, f"{_LEVELS[own]} at best", "" if verdict == PASS else remedy)


def _known_neighbours(
    gpu: GpuSnapshot, neighbours: Mapping[str, Sequence[str]], devices: Reading[Sequence[PciDevice]]
) -> Outcome:
    """Check that the NICs next to the GPU are on the PCI bus, at the addresses in NCCL's topology file."""
    address = _address(gpu)
    nics = neighbours.get(address, ())
    expected = f"NIC {', '.join(nics)}" if nics else f"a GPU at one of {', '.join(neighbours)}"
    if devices.value is None:
        return unanswered(devices, expected)
    if not nics:
        remedy = "compare lspci -D with the topology file (NCCL_TOPO_FILE): NCCL ignores the file for this GPU"
        return compared(False, expected, f"GPU at {address or 'an unknown address'}", remedy)
    found = [one[1] for one in devices.value if one[1] in nics]
    remedy = "run lspci -D on the node: if the NIC is missing there, replace the node"
    return compared(len(found) == len(nics), expected, f"NIC {', '.join(found)}" if found else "no NIC", remedy)


_LEVELS = ("PIX", "PXB", "PHB", "SYS")
_HOST_BRIDGE, _FAR = 2, 3


def _level(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the distance between two devices as an index in `_LEVELS`. The arguments are the bridges above each
    device.
    """
    common = sum(1 for _ in _shared(one, two))
    if common < 1:
        return _FAR
    if common == 1:
        return _HOST_BRIDGE
    # Each port below a switch is a separate bridge, so devices on one switch differ only in their ports.
    return 0 if max(len(one), len(two)) - common <= 1 else 1


def _shared(one: Sequence[str], two: Sequence[str]) -> Sequence[str]:
    count = 0
    for left, right in zip(one, two):
        if left != right:
            break
        count += 1
    return one[:count]


def _address(gpu: GpuSnapshot) -> str:
    if gpu.pci.value is None:
        return ""
    domain, bus, slot = gpu.pci.value
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def _counted(count: int, kind: str) -> str:
    return f"{count} {KINDS[kind]}{'' if count == 1 else 's'}"

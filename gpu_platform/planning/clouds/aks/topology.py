"""Write NCCL's topology file for virtual machines of Azure with InfiniBand, which hide their PCIe switches.

Without the file, NCCL considers each NIC far from each GPU, and does not let NICs read the memory of GPUs. The
file has the format of NCCL's dumps (NCCL_TOPO_DUMP_FILE). Sources: NCCL user guide, "Environment variables";
Azure/azhpc-images, topology; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree

from gpu_platform.catalog import InfinibandSeries
from gpu_platform.catalog.models import PcieSwitch
from gpu_platform.planning.clouds.section import PodFile

_DIRECTORY: Final = "/etc/nccl-topology"
_GPU_CLASS: Final = "0x030200"
_NIC_CLASS: Final = "0x020700"
_BRIDGE_CLASS: Final = "0x060400"
_LINK_WIDTH: Final = "16"


def topology_file(series: InfinibandSeries) -> PodFile:
    """Return the ConfigMap with the topology file of a series."""
    return PodFile(
        config_map=f"nccl-topology-{series.name}",
        directory=_DIRECTORY,
        data={_file_name(series): _document(series)},
    )


def topology_path(series: InfinibandSeries) -> str:
    """Return the path of the topology file in pods."""
    return f"{_DIRECTORY}/{_file_name(series)}"


def neighbours(series: InfinibandSeries) -> dict[str, tuple[str, ...]]:
    """Return the addresses of the NICs behind each GPU's switch. The keys are the addresses of the GPUs."""
    return {gpu: switch.nics for numa in series.numa_nodes for switch in numa.switches for gpu in switch.gpus}


def _file_name(series: InfinibandSeries) -> str:
    return f"{series.name}.xml"


def _document(series: InfinibandSeries) -> str:
    system = ElementTree.Element("system", version="1")
    bridges = _bridge_addresses()
    for numa in series.numa_nodes:
        cpu = ElementTree.SubElement(
            system,
            "cpu",
            numaid=str(numa.node),
            affinity=numa.affinity,
            arch="x86_64",
            vendor=series.cpu.vendor,
            familyid=str(series.cpu.family),
            modelid=str(series.cpu.model),
        )
        for switch in numa.switches:
            _add_switch(cpu, next(bridges), switch, series.link_speed)
    ElementTree.indent(system)
    return ElementTree.tostring(system, encoding="unicode") + "\n"


def _bridge_addresses() -> Iterator[str]:
    """Yield addresses for the switches, which have no address on a virtual machine."""
    for number in range(1, 32):
        yield f"ffff:ff:{number:02x}.0"


def _add_switch(cpu: ElementTree.Element, address: str, switch: PcieSwitch, speed: str) -> None:
    # NCCL combines switches of known vendors, so the identity of these switches is 0.
    unknown = dict.fromkeys(("vendor", "device", "subsystem_vendor", "subsystem_device"), "0x0000")
    bridge = _add_device(cpu, address, _BRIDGE_CLASS, speed)
    bridge.attrib.update(unknown)
    for gpu, nic in zip(switch.gpus, switch.nics, strict=True):
        _add_device(bridge, gpu, _GPU_CLASS, speed)
        _add_device(bridge, nic, _NIC_CLASS, speed)


def _add_device(above: ElementTree.Element, address: str, pci_class: str, speed: str) -> ElementTree.Element:
    attributes = {"busid": address, "class": pci_class, "link_speed": speed, "link_width": _LINK_WIDTH}
    return ElementTree.SubElement(above, "pci", attributes)

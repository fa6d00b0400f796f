"""Checks of the GPUs of a node against each other: identity, firmware, and how they reach each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from validators.agent.expectations import Expectation
from validators.agent.outcome import FAIL, PASS, UNKNOWN, Outcome, compared, not_expected, unanswered
from validators.agent.snapshot import Reading, Snapshot
from validators.agent.xids import Xid, worst_action

P2P_OK = 0
_MOST_XIDS = 8  # that a report shows, the newest first
# nvmlGpuP2PStatus_t
_P2P_STATES = {
    1: "not supported by the chipset",
    2: "not supported by the GPU",
    3: "not supported by the topology",
    4: "disabled by the driver's settings",
    5: "not supported",
    6: "unknown",
}
_FIRMWARE = (
    ("VBIOS", "vbios"),
    ("InfoROM", "inforom"),
    ("GSP firmware", "gsp_firmware"),
)


def unique(snapshot: Snapshot, name: str) -> Outcome:
    """Check that no two GPUs have the same UUID or serial number; not applicable where they have none."""
    owners: dict[str, list[str]] = {}
    for gpu in snapshot.gpus:
        reading: Reading[str] = getattr(gpu, name)
        if reading.value is None:
            return unanswered(reading, "unique") if name == "uuid" or reading.supported else not_expected("none")
        owners.setdefault(reading.value, []).append(f"GPU {gpu.index}")
    shared = [f"{' and '.join(gpus)} are {value}" for value, gpus in owners.items() if len(gpus) > 1]
    remedy = "reboot the node; replace the GPU if this does not help"
    return compared(not shared, "unique", ", ".join(shared) or "unique", remedy)


def firmware(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Compare the firmware of each GPU with that of most GPUs of its product."""
    odd: list[str] = []
    for gpu in snapshot.gpus:
        alike = [other for other in snapshot.gpus if other.name.value == gpu.name.value]
        for title, name in _FIRMWARE:
            found: Reading[str] = getattr(gpu, name)
            most = _most([getattr(other, name) for other in alike])
            if found.value is not None and found.value != most:
                odd.append(f"GPU {gpu.index}: {title} {found.value}, not {most}")
    first = snapshot.gpus[0] if snapshot.gpus else None
    known = [
        f"{title} {getattr(first, name).value}" for title, name in _FIRMWARE if first and getattr(first, name).ok
    ]
    observed = "; ".join(odd) or ", ".join(["equal", *known])
    if expectation is None:
        return not_expected(observed)
    remedy = "the GPU was replaced or flashed separately: give it the firmware of the others, or replace the node"
    return compared(not odd, "equal on all GPUs", observed, remedy)


def _most(readings: Sequence[Reading[str]]) -> str:
    counts = Counter(reading.value for reading in readings if reading.value is not None)
    return counts.most_common(1)[0][0] if counts else ""


def peer_access(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that each pair of GPUs can use the other's memory over NVLink."""
    expected = "every pair of GPUs over NVLink"
    if any(gpu.mig_mode.value and gpu.mig_mode.value[0] for gpu in snapshot.gpus):
        return not_expected("MIG mode does not use NVLink")
    without: dict[str, list[str]] = {}
    for gpu in snapshot.gpus:
        if not gpu.handle.ok:  # see gpu-count
            continue
        if gpu.peers.value is None:
            if expectation is None or not gpu.peers.supported:
                return not_expected("" if gpu.peers.supported else "not supported")
            return unanswered(gpu.peers, expected)
        for other, (_, status) in gpu.peers.value.items():
            if status != P2P_OK:
                without.setdefault(_P2P_STATES.get(status, f"status {status}"), []).append(f"{gpu.index}-{other}")
    pairs = [f"{', '.join(found)}: {state}" for state, found in without.items()]
    observed = "; ".join(pairs) or "every pair"
    if expectation is None:
        return not_expected(observed)
    remedy = (
        "see nvidia-smi topo -p2p n, the fabric manager (systemctl status nvidia-fabricmanager) and check "
        "nvlink-count; NCCL would use PCIe or the network between these GPUs"
    )
    if without and any(gpu.mig_mode.supported and not gpu.mig_mode.ok for gpu in snapshot.gpus):
        return Outcome(UNKNOWN, expected, f"{observed}; MIG mode unknown", "see check mig-mode")
    return Outcome(FAIL, expected, observed, remedy) if without else Outcome(PASS, expected, observed)


def xids(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that there was no recent Xid error after which the node needs something.

    From the kernel's log where it is readable, and from NVML's events, which miss what happened between passes.
    """
    logged = [Xid(code, (domain, bus, slot), age) for code, domain, bus, slot, age in snapshot.xids.value or ()]
    places = {gpu.pci.value: f"GPU {gpu.index}" for gpu in snapshot.gpus if gpu.pci.value is not None}
    names = [f"{places.get(each.pci) or _address(each.pci)}: {each}" for each in logged]
    known = {(each.code, places.get(each.pci)) for each in logged}
    told = [
        (Xid(code, (0, 0, 0), age), f"GPU {index}" if index >= 0 else "a GPU")
        for code, index, age in snapshot.events.value or ()
    ]
    new = [(each, where) for each, where in told if (each.code, where) not in known]
    names += [f"{where}: {each}" for each, where in new]
    found = [*logged, *(each for each, _ in new)]
    if snapshot.xids.value is None and not found:
        return not_expected("the kernel's log is not readable")
    shown = ", ".join(list(dict.fromkeys(reversed(names)))[:_MOST_XIDS]) or "none"
    if expectation is None:
        return not_expected(shown)
    failing = [each for each in found if each.fails]
    return compared(not failing, "none in the last hour that needs a repair", shown, worst_action(failing))


def _address(pci: tuple[int, int, int]) -> str:
    domain, bus, slot = pci
    return f"PCI {domain:04x}:{bus:02x}:{slot:02x}"

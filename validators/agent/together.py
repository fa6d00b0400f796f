"""Checks that compare the GPUs of a node with each other: identity, firmware and peer access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from validators.agent.expectations import Expectation
from validators.agent.outcome import FAIL, PASS, UNKNOWN, Outcome, compared, not_expected, unanswered
from validators.agent.snapshot import Reading, Snapshot

P2P_OK = 0
# Two GPUs with this name share a board with a Grace CPU, so they have the same serial number.
# Source: nvidia-smi output of nodes with GB200 and GB300 in NVIDIA/k8s-test-infra and its pull request 727.
# Folder: tests/e2e/go/assertions/nvidiasmi/testdata/hardware; read 2026-11-29.
_TWO_ON_A_BOARD = "NVIDIA GB"
# values of nvmlGpuP2PStatus_t
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
    """Check that values are unique: the UUIDs of GPUs, or the serial numbers of boards, depending on `name`.

    The check of serial numbers is not applicable if the GPUs have none.
    """
    owners: dict[str, list[str]] = {}
    in_pairs = all((gpu.name.value or "").startswith(_TWO_ON_A_BOARD) for gpu in snapshot.gpus)
    most = 2 if name == "serial" and in_pairs else 1
    for gpu in snapshot.gpus:
        reading: Reading[str] = getattr(gpu, name)
        if reading.value is None:
            return unanswered(reading, "unique") if name == "uuid" or reading.supported else not_expected("none")
        owners.setdefault(reading.value, []).append(f"GPU {gpu.index}")
    shared = [f"{' and '.join(gpus)} are {value}" for value, gpus in owners.items() if len(gpus) > most]
    remedy = "reboot the node; replace the GPU if this does not help"
    return compared(not shared, "unique", ", ".join(shared) or "unique", remedy)


def firmware(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Compare the firmware of each GPU with the most common firmware among the GPUs of the same product."""
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
    remedy = "the GPU was replaced or flashed separately: flash it like the other GPUs, or replace the node"
    return compared(not odd, "equal on all GPUs", observed, remedy)


def _most(readings: Sequence[Reading[str]]) -> str:
    counts = Counter(reading.value for reading in readings if reading.value is not None)
    return counts.most_common(1)[0][0] if counts else ""


def peer_access(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that all pairs of GPUs can access each other's memory over NVLink."""
    expected = "every pair of GPUs over NVLink"
    if any(gpu.mig_mode.value and gpu.mig_mode.value[0] for gpu in snapshot.gpus):
        return not_expected("MIG mode does not use NVLink")
    without: dict[str, list[str]] = {}
    for gpu in snapshot.gpus:
        if not gpu.handle.ok:  # the check `gpu-count` reports this GPU
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

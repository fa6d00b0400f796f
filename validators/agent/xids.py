"""Xid errors that the NVIDIA driver writes to the kernel's log: what they mean, and what to do.

Source: NVIDIA, Xid Errors, "Xid Catalog" (docs.nvidia.com/deploy/xid-errors), by the immediate action of each
code; read 2026-11-25. The words are our own. Codes that a job causes or that need nothing fail no check.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

KMSG_VARIABLE = "GPU_PLATFORM_KMSG"  # path of the kernel's log; a sandbox sets it to a file of its own
RECENT_SECONDS = 3600  # older ones are shown: a reset or a repair may have followed
_RECORD_BYTES = 8192  # the kernel's longest record
_MOST_RECORDS = 100_000

RESTART_APP = "restart the application"
NOTHING = "nothing"
RESET = "drain the node and reset the GPU"
REBOOT = "drain and power-cycle the node; replace it if this happens again"
MEMORY = "drain the node and reset the GPU, so that the row is remapped; replace the GPU if it happens again"
LINK = "drain the node and reset all of its GPUs; replace the node if links fail again (see nvlink-count)"
CABLES = "check the power cables of the GPU, or replace the node"
SOFTWARE = "update driver and firmware"
SUPPORT = "collect nvidia-bug-report.sh, and drain and replace the node if this happens again"
_HARMLESS = (RESTART_APP, NOTHING)
# The worst first: the remedy of several errors is that of the worst.
_ORDER = (REBOOT, CABLES, MEMORY, LINK, RESET, SUPPORT, SOFTWARE, RESTART_APP, NOTHING)


def _codes(text: str) -> list[int]:
    """Return the numbers of `8 11 39-41`."""
    found: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


_ACTIONS: Mapping[int, str] = {
    code: action
    for action, codes in {
        RESTART_APP: "8 11 13 25 31-32 39-41 60 68-72 75-77 80 82-86 88-89 94 96-105 126-135 139",
        NOTHING: "14 37-38 43-45 63 66-67 92-93 106-107 121 137 141 152-154 157 160-165",
        RESET: "46 62 95 109-110 119-120 136 143 155-156 158",
        MEMORY: "48 64 140 168 171-172",
        LINK: "74 144-150",
        REBOOT: "79 151 167 169",
        CABLES: "54",
        SOFTWARE: "78",
    }.items()
    for code in _codes(codes)
}
_MEANINGS: Mapping[int, str] = {
    13: "exception in a kernel of the job",
    31: "the job accessed memory that it does not have",
    43: "the job's channel was reset",
    45: "cleaned up after another error",
    48: "uncorrectable memory error",
    54: "power cable not connected",
    62: "microcontroller halted",
    63: "memory row remapped or page retired",
    64: "memory row could not be remapped",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "many correctable memory errors",
    94: "memory error that one application had",
    95: "memory error that any application may have",
    109: "context switch timed out",
    119: "GSP firmware does not answer",
    120: "error of the GSP firmware",
    136: "link training failed",
    140: "unrecovered memory error",
    143: "GPU could not be initialised",
    154: "the driver asks for another recovery action",
    158: "fatal timeout of the GPU",
    **dict.fromkeys(range(144, 151), "NVLink error"),
}
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\S*\): (\d+)")


@dataclass(frozen=True)
class Xid:
    """One Xid error: its code, the PCI address (domain, bus, device) of the GPU, and its age."""

    code: int
    pci: tuple[int, int, int]
    seconds_ago: int

    @property
    def action(self) -> str:
        """What to do."""
        return _ACTIONS.get(self.code, SUPPORT)

    @property
    def fails(self) -> bool:
        """Whether the node needs something because of it."""
        return self.action not in _HARMLESS and self.seconds_ago <= RECENT_SECONDS

    def __str__(self) -> str:
        meaning = f" ({_MEANINGS[self.code]})" if self.code in _MEANINGS else ""
        return f"Xid {self.code}{meaning} {_age(self.seconds_ago)} ago"


def worst_action(found: list[Xid]) -> str:
    """Return what to do after several errors."""
    actions = {each.action for each in found}
    return next((action for action in _ORDER if action in actions), NOTHING)


def read_xids() -> list[list[int]]:
    """Return code, PCI domain, bus, device and age in seconds of the Xid errors in the kernel's log.

    Raises OSError where this process may not read it.
    """
    now = time.monotonic()
    found: list[list[int]] = []
    for record in _records(os.environ.get(KMSG_VARIABLE, "/dev/kmsg")):
        fields, _, text = record.partition(";")
        match = _XID.search(text)
        if match:
            address = [int(part, 16) for part in match.groups()[:3]]
            written = int(fields.split(",")[2]) / 1e6
            found.append([int(match[4]), *address, max(0, round(now - written))])
    return found


def _records(path: str) -> Iterator[str]:
    """Yield the records of the kernel's log (Documentation/ABI/testing/dev-kmsg); one read returns one record."""
    log = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for _ in range(_MOST_RECORDS):
            try:
                data = os.read(log, _RECORD_BYTES)
            except BlockingIOError:  # no more
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten while it was read
                    continue
                raise
            if not data:
                return
            yield from (line for line in data.decode(errors="replace").splitlines() if line and line[0].isdigit())
    finally:
        os.close(log)


def _age(seconds: int) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"

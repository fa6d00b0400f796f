"""Reads the Xid errors that the NVIDIA driver writes to the kernel log. `xid_check.py` classifies them."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from typing import Any

KMSG_VARIABLE = "GPU_PLATFORM_KMSG"  # path of the kernel log; a sandbox sets it to its own file
DRIVER_LOADED = 0  # pseudo code for a line about loading the driver, which initialises every GPU
LOG_BEGINS = -1  # no Xid of NVIDIA: marks the oldest record of a log that no longer begins at boot
NO_ERRORS = (DRIVER_LOADED, LOG_BEGINS)
_RECORD_BYTES = 8192  # maximum length of a record in the kernel log
_MOST_RECORDS = 100_000
_MOST_TEXT = 200  # maximum number of characters that are kept from a line
# The message for an error in a MIG instance contains the instance IDs after the PCI address.
# Example: `(PCI:0000:3b:00 GPU-I:05 GPU-CI:00)`.
# Source: NVIDIA/open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc/kernel_rc.c, read 2026-11-29.
# The pattern must match from the start of a line, where only the driver writes this text.
# A kernel line about a failed program contains a file name that a pod chooses, so it may contain any text.
# Source: Linux, mm/memory.c, print_vma_addr; read 2026-11-29.
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)[^)]*\): (\d+)(.*)")
_LOADED = "NVRM: loading NVIDIA "
# Process names reveal what teams run, so they are removed from reports and recordings and never affect a check.
# A pod chooses the process name, which may contain commas and blanks.
# A process name has up to 15 bytes (Linux, TASK_COMM_LEN).
# The log shows unprintable bytes as \xNN (kernel/printk/printk.c, msg_add_ext_text).
# Read 2026-11-29.
# The driver's text follows a comma, so the name ends at the last possible comma.
# If the name has at most two bytes, the channel after it (Ch 00000008) is removed too.
_PROCESS_NAME = re.compile(r", name=(?:(?:\\x[0-9a-f]{2}|.){0,15}(?=, )|[^,]*)")


def read_xids() -> list[list[Any]]:
    """Return the Xid errors in the kernel log, each as a list: code, PCI domain, PCI bus, PCI device, age in
    seconds, and text.

    An entry with the code DRIVER_LOADED means that the driver was loaded. If the log no longer begins at boot,
    the first entry is LOG_BEGINS. Raises OSError if this process may not read the log.
    """
    now = time.monotonic()
    found: list[list[Any]] = []
    for number, record in enumerate(_records(os.environ.get(KMSG_VARIABLE, "/dev/kmsg"))):
        fields, _, text = record.partition(";")
        match, loaded = _XID.match(text), text.startswith(_LOADED)
        if number and not match and not loaded:
            continue
        _, sequence, microseconds, *_ = fields.split(",")
        age = max(0, round(now - int(microseconds) / 1e6))
        if not number and int(sequence):  # the first record after boot has the number 0
            found.append([LOG_BEGINS, 0, 0, 0, age, ""])
        if match:
            address = [int(part, 16) for part in match.groups()[:3]]
            detail = _PROCESS_NAME.sub("", match[5])[:_MOST_TEXT]
            found.append([int(match[4]), *address, age, detail])
        elif loaded:
            found.append([DRIVER_LOADED, 0, 0, 0, age, ""])
    return found


def _records(path: str) -> Iterator[str]:
    """Yield the records of the kernel log (Documentation/ABI/testing/dev-kmsg). Each read returns one record."""
    log = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for _ in range(_MOST_RECORDS):
            try:
                data = os.read(log, _RECORD_BYTES)
            except BlockingIOError:  # no more records
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # the record was overwritten while it was being read
                    continue
                raise
            if not data:
                return
            yield from (line for line in data.decode(errors="replace").splitlines() if line and line[0].isdigit())
    finally:
        os.close(log)

"""Reads the Xid errors that the NVIDIA driver writes to the kernel's log; `xid_check.py` judges them."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from typing import Any

KMSG_VARIABLE = "GPU_PLATFORM_KMSG"  # path of the kernel's log; a sandbox sets it to a file of its own
DRIVER_LOADED = 0  # in place of a code: the driver was loaded, which initialises every GPU
LOG_BEGINS = -1  # in place of a code: the oldest record of a log that has lost those since the boot
NO_ERRORS = (DRIVER_LOADED, LOG_BEGINS)
_RECORD_BYTES = 8192  # the kernel's longest record
_MOST_RECORDS = 100_000
_MOST_TEXT = 200  # characters of a line that are kept
# Errors of a MIG instance have its number behind the address: `(PCI:0000:3b:00 GPU-I:05 GPU-CI:00)`. Source:
# NVIDIA/open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc/kernel_rc.c, read 2026-11-29.
# The driver's lines begin so. The kernel's lines about a program may contain anything: they have the name of the
# file in which it failed, which a pod chooses (Linux, mm/memory.c, print_vma_addr; read 2026-11-29).
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)[^)]*\): (\d+)(.*)")
_LOADED = "NVRM: loading NVIDIA "
# What teams run is in no report and no recording, and decides nothing. A pod chooses the name, commas and blanks
# included: up to 15 bytes (Linux, TASK_COMM_LEN), of which the log has those that are not printable as \xNN
# (kernel/printk/printk.c, msg_add_ext_text). The driver's text follows a comma, so the last one that the name can
# end at counts; the channel behind a name of two bytes goes with it. Read 2026-11-29.
_PROCESS_NAME = re.compile(r", name=(?:(?:\\x[0-9a-f]{2}|.){0,15}(?=, )|[^,]*)")


def read_xids() -> list[list[Any]]:
    """Return the Xid errors in the kernel's log: code, PCI domain, bus and device, age in seconds, and text.

    Loads of the driver are among them, with the code DRIVER_LOADED. A log that no longer begins at the boot has
    LOG_BEGINS first. Raises OSError where this process may not read the log.
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
        if not number and int(sequence):  # the first record after the boot has the number 0
            found.append([LOG_BEGINS, 0, 0, 0, age, ""])
        if match:
            address = [int(part, 16) for part in match.groups()[:3]]
            detail = _PROCESS_NAME.sub("", match[5])[:_MOST_TEXT]
            found.append([int(match[4]), *address, age, detail])
        elif loaded:
            found.append([DRIVER_LOADED, 0, 0, 0, age, ""])
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

"""Classifies Xid errors by the catalogue's table, which the agent receives as the expectation of the check `xid`.

A fault that only a reset or a boot clears remains until a reset or boot is detected. The kernel log shows when the
driver was loaded, and which recovery the driver requests (Xid 154). If a counter restarts, there was a reset
between two passes. The log loses its oldest records, so the agent remembers them (`history.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validators.agent.expectations import Expectation, xid_codes
from validators.agent.outcome import FAIL, PASS, UNKNOWN, Outcome, not_expected
from validators.agent.snapshot import Snapshot
from validators.agent.xids import DRIVER_LOADED, LOG_BEGINS, NO_ERRORS

RECENT_SECONDS = 3600  # time in seconds for which a fault counts if no reset or boot is needed to clear it
_MOST_XIDS = 8  # maximum number of errors in a report
_PID = re.compile(r"pid=(\d+)")
_EXPECTED = "no error that requires a repair of the node"
_REPEATED = (
    "run another program on the GPU, or an active check (gpu-platform burn-in): replace the GPU if it fails too; "
    "otherwise the program is at fault"
)


@dataclass(frozen=True)
class Xid:
    """One Xid error with its code, its location, its age, and the rest of its line in the kernel log.

    With `asks_nothing`, NVML reported the error without a line, and the driver requests no recovery of the GPU.
    """

    code: int
    where: str
    seconds_ago: int
    text: str = ""
    asks_nothing: bool = False


class XidTable:
    """The classes of Xid errors, worst first, and the texts in log lines that determine the class."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._classes: Sequence[Mapping[str, Any]] = value["classes"]
        self._texts = [(frozenset(xid_codes(one["codes"])), one) for one in value["texts"]]
        self._named = {str(one["name"]): one for one in self._classes}
        self._by_code = {code: one for one in self._classes for code in xid_codes(one["codes"])}
        self._others = next(one for one in self._classes if not one["codes"])
        self._meanings = {
            code: str(words)
            for one in self._classes
            for codes, words in one["meanings"].items()
            for code in xid_codes(codes)
        }

    @classmethod
    def of(cls, expectation: Expectation | None) -> XidTable:
        """Return the table of Xid errors in an expectation. Without an expectation, no error fails the check."""
        return cls(_NO_TABLE if expectation is None else expectation.value)

    def class_of(self, xid: Xid) -> Mapping[str, Any]:
        """Return the class of an error. For some codes, the text of the line determines the class."""
        texts = [text for codes, text in self._texts if xid.code in codes]
        named = [self._named[text["class"]] for text in texts if text["text"] in xid.text]
        if xid.asks_nothing:  # without a log line, the text is unknown, but the driver's request is known
            named = [one for one in (self._named[text["class"]] for text in texts) if not one["ends"]]
        return named[0] if named else self._by_code.get(xid.code, self._others)

    def kind_of(self, xid: Xid) -> tuple[str, str]:
        """Return the kind of an error: its class, and its process if errors of this class are counted by process.

        The last error of each kind determines how long a GPU's fault lasts.
        """
        one, match = self.class_of(xid), _PID.search(xid.text)
        return str(one["name"]), match[1] if match and one["processes"] else ""

    def outlasts_an_hour(self, xid: Xid) -> bool:
        """Return whether an error counts for more than an hour.

        It does so if the fault lasts until a reset or boot, or if the line reports a reset or the end of earlier
        faults.
        """
        return xid.code in NO_ERRORS or self.ends_faults(xid) or self.class_of(xid)["ends"] in ("reset", "boot")

    def ends_faults(self, xid: Xid) -> bool:
        """Return whether this line reports that earlier faults of the GPU have ended."""
        return any(
            xid.code in codes and one["ends_faults"] and one["text"] in xid.text for codes, one in self._texts
        )

    def fails(self, xid: Xid, resets: Sequence[tuple[str, int]]) -> bool:
        """Return whether the node still needs a repair after an error.

        `resets` contains the detected resets, each as a pair of GPU ("" for all GPUs) and age in seconds.
        """
        ends = self.class_of(xid)["ends"]
        if ends == "reset":
            return not any(age < xid.seconds_ago for where, age in resets if where in ("", xid.where))
        return ends == "boot" or (ends == "hour" and xid.seconds_ago <= RECENT_SECONDS)

    def remedy(self, found: Sequence[Xid]) -> str:
        """Return the remedy for the worst of several errors."""
        names = {self.class_of(xid)["name"] for xid in found}
        return next((str(one["remedy"]) for one in self._classes if one["name"] in names), "")

    def describe(self, xid: Xid) -> str:
        """Return an error as text, with its meaning if it is known."""
        meaning = f" ({self._meanings[xid.code]})" if xid.code in self._meanings else ""
        return f"{xid.where}: Xid {xid.code}{meaning} {_age(xid.seconds_ago)} ago"

    def repeated(self, found: Sequence[Xid]) -> list[str]:
        """Return the GPUs on which so many processes had errors that the GPU itself may be the cause."""
        processes: dict[tuple[str, str], set[str]] = {}
        for xid in found:
            match, one = _PID.search(xid.text), self.class_of(xid)
            if match and one["processes"] and xid.seconds_ago <= RECENT_SECONDS:
                processes.setdefault((xid.where, str(one["name"])), set()).add(match[1])
        return [
            f"{where}: Xid errors in {len(pids)} processes in an hour"
            for (where, name), pids in processes.items()
            if len(pids) >= self._named[name]["processes"]
        ]


_NO_TABLE: Mapping[str, Any] = {
    "classes": [{"name": "unknown", "codes": "", "remedy": "", "ends": "", "processes": 0, "meanings": {}}],
    "texts": [],
}


def xids(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Check that there was no Xid error after which the node still needs a repair.

    Errors are read from the kernel log, if it is readable, and from NVML events, which miss errors between passes.
    """
    logged, events, resets = _read(snapshot)
    known = {(xid.code, xid.where) for xid in logged}
    found = [*logged, *(xid for xid in events if (xid.code, xid.where) not in known)]
    if snapshot.xids.value is None and not found:
        return not_expected("the kernel log is not readable")
    table = XidTable.of(expectation)
    resets += [(xid.where, xid.seconds_ago) for xid in found if table.ends_faults(xid)]
    failing = [xid for xid in found if table.fails(xid, resets)]
    repeated = table.repeated(found)
    names = [*map(table.describe, reversed(failing)), *repeated, *map(table.describe, reversed(found))]
    shown = ", ".join(list(dict.fromkeys(names))[:_MOST_XIDS]) or "none"
    for age in (line[4] for line in snapshot.xids.value or () if line[0] == LOG_BEGINS):
        shown += f"; errors in the kernel log before the last {_age(age)} are not known"
    if expectation is None:
        return not_expected(shown)
    if failing:
        return Outcome(FAIL, _EXPECTED, shown, table.remedy(failing))
    return Outcome(UNKNOWN, _EXPECTED, shown, _REPEATED) if repeated else Outcome(PASS, _EXPECTED, shown)


def _read(snapshot: Snapshot) -> tuple[list[Xid], list[Xid], list[tuple[str, int]]]:
    """Return the errors in the kernel log, the errors from NVML events, and the resets that were detected."""
    places = {gpu.pci.value: f"GPU {gpu.index}" for gpu in snapshot.gpus if gpu.pci.value is not None}
    actions = {gpu.index: gpu.recovery_action.value for gpu in snapshot.gpus}
    logged: list[Xid] = []
    resets = [(f"GPU {index}", age) for index, age in snapshot.resets.value or ()]
    for code, domain, bus, slot, age, text in snapshot.xids.value or ():
        pci = (domain, bus, slot)
        if code == DRIVER_LOADED:
            resets.append(("", age))
        elif code != LOG_BEGINS:
            logged.append(Xid(code, places.get(pci) or _address(pci), age, text))
    events = [
        Xid(code, f"GPU {index}" if index >= 0 else "a GPU", age, asks_nothing=actions.get(index) == 0)
        for code, index, age in snapshot.events.value or ()
    ]
    return logged, events, resets


def _address(pci: tuple[int, int, int]) -> str:
    domain, bus, slot = pci
    return f"PCI {domain:04x}:{bus:02x}:{slot:02x}"


def _age(seconds: int) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"

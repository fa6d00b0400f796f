"""The node agent's report on one node, as JSON and as text."""

from __future__ import annotations

import datetime
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from validators.agent import AGENT_VERSION
from validators.agent.checks import run_checks, verdict_of
from validators.agent.expectations import Expectation, Expectations, health_of
from validators.agent.outcome import FAIL, NO_INSTANCES, NOT_APPLICABLE, PASS, UNKNOWN
from validators.agent.snapshot import DRIVER_NOT_LOADED, OTHER_DRIVER, Snapshot

VERSION = 1
_EXIT_CODES = {PASS: 0, FAIL: 1, UNKNOWN: 3}
_GONE = (DRIVER_NOT_LOADED, OTHER_DRIVER)
_MARKS = {FAIL: "FAIL", UNKNOWN: "????", PASS: "pass", NOT_APPLICABLE: "n/a "}  # in order of display

Report = dict[str, Any]


@dataclass(frozen=True)
class Identity:
    """The node that the report is about, and the agent's pod. The pod's fields are "" outside a cluster."""

    node: str
    pod_name: str = ""
    pod_uid: str = ""
    namespace: str = ""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Identity:
        """Return the values from the downward API. Without them, the host name is used as the node's name."""
        return cls(
            environment.get("NODE_NAME") or socket.gethostname(),
            environment.get("POD_NAME", ""),
            environment.get("POD_UID", ""),
            environment.get("POD_NAMESPACE", ""),
        )


class Reader(Protocol):
    """Reads Snapshots from a node or from a recording."""

    def read(self, deadline_seconds: float) -> Snapshot:
        """Return the Snapshot within the time limit."""
        ...


def check_node(
    reader: Reader,
    expectations: Expectations | None,
    identity: Identity,
    deadline_seconds: float,
    *,
    health: Mapping[str, Expectation] | None = None,
    mig_config: str = "",
) -> Report:
    """Read NVML, run every check and return the report.

    Without `expectations`, only health is checked, including the additional expectations in `health`. `mig_config`
    is the layout that the node's label requests, or "" if it is not known.
    """
    started = time.monotonic()
    snapshot = reader.read(deadline_seconds)
    expected = health_of(snapshot, health) if expectations is None else expectations
    checks = run_checks(snapshot, expected, mig_config)
    return {
        "version": VERSION,
        "node": identity.node,
        "pool": expected.pool,
        "machine_type": expected.machine_type,
        "pod_uid": identity.pod_uid,
        "expectations_hash": expected.hash,
        "agent_version": AGENT_VERSION,
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "duration_seconds": round(time.monotonic() - started, 3),
        "verdict": verdict_of(checks),
        "checks": checks,
    }


def content_of(report: Report) -> object:
    """Return a value that changes when the report must be published again.

    It contains no times, no observed values and no passed checks. The loss of MIG instances is included, because
    it taints the node, although only an observed value changes.
    """
    quiet = (PASS, NOT_APPLICABLE)  # checks that compare passes are not applicable in the first pass
    verdicts = [
        (entry["id"], entry["device"], entry["verdict"])
        for entry in report["checks"]
        if entry["verdict"] not in quiet
    ]
    return report["expectations_hash"], report["pod_uid"], verdicts, loses_instances(report)


def loses_instances(report: Report) -> bool:
    """Return whether a GPU with expected instances has MIG mode off, has no instances, or has lost its driver."""
    return any(
        (entry["id"] == "mig-mode" and entry["verdict"] == FAIL and entry["expected"] == "on")
        or (entry["id"] == "mig-instances" and entry["verdict"] == FAIL and entry["observed"] == NO_INSTANCES)
        or (entry["id"] == "mig-instances" and entry["verdict"] == UNKNOWN and entry["observed"].endswith(_GONE))
        for entry in report["checks"]
    )


def exit_code(report: Report) -> int:
    """Return the exit code of a report: 0 for pass, 1 for fail, 3 for unknown."""
    return _EXIT_CODES[report["verdict"]]


def as_text(report: Report) -> str:
    """Return a report as text. Failed and unknown checks come first, with their remedies."""
    nvml, *others = report["checks"]
    unread = [entry["id"] for entry in others if entry["observed"] == nvml["observed"]]
    shown = [nvml, *(entry for entry in others if entry["observed"] and entry["id"] not in unread)]
    lines = [f"{report['node']}: {report['verdict']} ({report['duration_seconds']} s)"]
    order = list(_MARKS)
    for entry in sorted(shown, key=lambda each: order.index(each["verdict"])):
        where = f" {entry['device']}" if entry["device"] else ""
        lines.append(f"  {_MARKS[entry['verdict']]} {entry['id']}{where}: {entry['observed']}")
        if entry["remediation"]:
            source = f" ({entry['source']})" if entry["source"] else ""
            lines.append(f"       expected: {entry['expected']}{source}")
            lines.append(f"       remedy: {entry['remediation']}")
    if unread:
        lines.append(f"  {_MARKS[UNKNOWN]} unknown for the same reason: {', '.join(unread)}")
    return "\n".join(lines)

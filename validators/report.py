"""Validation report on all nodes of a stack, from the node agents' reports and the cluster checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from gpu_platform.base import names
from gpu_platform.base.errors import ExitCode
from gpu_platform.planning.expectations.section import Expectations, NodeExpectation
from validators.agent.outcome import FAIL, NOT_APPLICABLE, PASS, UNKNOWN
from validators.cluster import LeftPod, check_node
from validators.devices import check_devices, check_nics
from validators.nvlink import check_domain
from validators.reservations import ExpectedReservation, check_reservation
from validators.result import CheckResult, MalformedReport, Severity, Verdict, overall
from validators.scheduling import notes

VERSION: Final = 1
REPORT_KEY: Final = "report.json"  # key in the ConfigMap of a report
_EXIT_CODES: Final = {
    PASS: ExitCode.GOOD,
    FAIL: ExitCode.FINDING,
    UNKNOWN: ExitCode.UNKNOWN,
    NOT_APPLICABLE: ExitCode.GOOD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPool:
    """Expectations for one pool: for its node agents' reports, its cluster checks and its number of nodes.

    In a pool without hardware expectations (a CPU pool), no agent runs on the nodes, so no reports are required.
    `selector` selects the pool's nodes. `least` and `most` are the minimum and maximum number of nodes, and `why`
    is the reason why the number may vary. `usual` is the number in the stack file, if an autoscaler may change it.
    """

    hardware: Expectations
    node: NodeExpectation
    selector: Mapping[str, str]
    least: int
    most: int
    usual: int | None = None
    why: str = ""
    added_taints: tuple[tuple[str, str], ...] = ()
    """Key and effect of the taints that the cloud adds to the pool's nodes."""
    reservations: tuple[ExpectedReservation, ...] = ()
    """Reservations that Karpenter must have found for the pool's nodes."""
    replacement: str = ""
    """The resource that creates the pool's nodes, and how to replace a node.

    Empty if no resource in the stack recreates the nodes.
    """

    @property
    def size(self) -> str:
        """Expected number of nodes as text for the user."""
        if self.least == self.most:
            return _nodes(self.least)
        return f"{self.least} to {_nodes(self.most)}" + (f", {self.why}" if self.why else "")

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.node.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Results of all checks of one node, or of the pool itself if `node` is None.

    `duration_seconds` is the duration of the agent's check, or 0 if there is no report. `reported` is the time at
    which the agent wrote its report, or "" if there is none. `notes` describes a cordon, and taints that are not
    part of the stack. Notes do not fail the node.
    """

    node: str | None
    pool: str
    machine_type: str
    checks: tuple[CheckResult, ...]
    duration_seconds: float = 0.0
    reported: str = ""
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name of the node or pool as text for the user."""
        return self.node or f"(pool {self.pool})"

    @property
    def verdict(self) -> Verdict:
        """Combined verdict of all checks."""
        return overall(self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the node's entry in the JSON report."""
        return {
            "node": self.node,
            "pool": self.pool,
            "machine_type": self.machine_type,
            "verdict": self.verdict,
            "reported": self.reported,
            "checks": [check.to_json() for check in self.checks],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Report on all nodes of all pools.

    A pool has an entry if its number of nodes, its NVLink domain or a reservation is not as expected. `time` is
    the time of the comparison, or "" if it is not known.
    """

    nodes: tuple[NodeReport, ...]
    time: str = ""

    @property
    def verdict(self) -> Verdict:
        """Combined verdict: the worst of `fail`, `unknown` and `pass`, or `not-applicable` if no check applies."""
        return overall(check for node in self.nodes for check in node.checks)

    @property
    def oldest_seconds(self) -> float | None:
        """Age of the oldest node agent report in seconds, or None if there is no report or no time."""
        written = [_time(node.reported) for node in self.nodes if node.reported]
        ages = [_time(self.time) - time for time in written if time] if self.time else []
        return max(ages, default=None)

    @property
    def exit_code(self) -> ExitCode:
        """Exit code for a command that prints this report."""
        return _EXIT_CODES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        counts = {
            verdict: sum(node.verdict == verdict for node in self.nodes if node.node)
            for verdict in (PASS, FAIL, UNKNOWN)
        }
        return {
            "version": VERSION,
            "time": self.time,
            "verdict": self.verdict,
            "summary": counts,
            "nodes": [node.to_json() for node in self.nodes],
        }


def build_report(
    pools: Sequence[ExpectedPool],
    nodes: Sequence[Mapping[str, Any]],
    reports: Mapping[str, Mapping[str, Any]],
    pod_uids: Mapping[str, str] | None = None,
    slices: Sequence[Mapping[str, Any]] | None = None,
    node_classes: Sequence[Mapping[str, Any]] | None = None,
    time: str = "",
    left: Mapping[str, Sequence[LeftPod]] | None = None,
    behind: Sequence[str] = (),
) -> ValidationReport:
    """Return the report on all nodes. `time` is in ISO 8601.

    - `nodes` contains `v1/Node` objects, and `reports` the agents' reports by node (`reports_of`).
    - `pod_uids` contains the UID of each node's current agent pod (`pod_uids_of`). If None, UIDs are not checked.
    - `slices` contains the ResourceSlices, for pools with DRA.
    - `node_classes` contains the EC2NodeClasses, for Karpenter pools with a reservation.
    - `left` contains the GPU pods that an eviction does not remove, by node.
    - `behind` contains the nodes whose unfinished driver upgrades delay the upgrades of other nodes.
    """
    found: list[NodeReport] = []
    for pool in pools:
        members = sorted(
            (node for node in nodes if _selected(node, pool.selector)), key=lambda node: node["metadata"]["name"]
        )
        strays = [node for node in nodes if node not in members and _was_of(pool, node, reports)]
        if checks := _pool_checks(pool, members, node_classes, strays):
            report = NodeReport(node=None, pool=pool.name, machine_type=pool.hardware.machine_type, checks=checks)
            found.append(report)
        found += [_node_report(pool, node, reports, pod_uids, slices, left or {}, behind) for node in members]
    return ValidationReport(tuple(found), time)


def reports_of(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the agents' reports in the ConfigMaps, by node. A report that is not valid JSON becomes `{}`."""
    reports: dict[str, Mapping[str, Any]] = {}
    for config_map in config_maps:
        if names.VALIDATION_REPORT_LABEL not in _labels(config_map):
            continue
        node = config_map["metadata"]["name"].removeprefix("node-validation-")
        try:
            data: Mapping[str, str] = config_map.get("data") or {}
            report: object = json.loads(data.get(REPORT_KEY, ""))
        except ValueError:
            report = None
        reports[node] = cast("Mapping[str, Any]", report) if isinstance(report, dict) else {}
    return reports


def pod_uids_of(pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the UID of the agent's pod on each node. Terminating pods are ignored."""
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["uid"]
        for pod in pods
        if pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and _labels(pod).get(names.NAME_LABEL) == names.VALIDATION_APP
    }


def _labels(document: Mapping[str, Any]) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def _selected(node: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    labels = _labels(node)
    return all(labels.get(key) == value for key, value in selector.items())


def _was_of(pool: ExpectedPool, node: Mapping[str, Any], reports: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a node's agent has reported for a pool, even if the node has lost the pool's labels."""
    return reports.get(node["metadata"]["name"], {}).get("pool") == pool.name


def _pool_checks(
    pool: ExpectedPool,
    nodes: Sequence[Mapping[str, Any]],
    node_classes: Sequence[Mapping[str, Any]] | None,
    strays: Sequence[Mapping[str, Any]],
) -> tuple[CheckResult, ...]:
    """Return the results of pool-level checks that do not pass.

    `strays` contains the nodes that have lost the pool's labels.
    """
    size, domain = _size(pool, len(nodes), strays), check_domain(pool.node, nodes)
    found = (check_reservation(reservation, node_classes) for reservation in pool.reservations)
    return tuple(check for check in (size, domain, *found) if check is not None and check.verdict != PASS)


def _size(pool: ExpectedPool, found: int, strays: Sequence[Mapping[str, Any]]) -> CheckResult | None:
    """Check the number of nodes in a pool. Return None if it passes.

    The result is not applicable if the pool has no nodes and does not need any.
    """
    verdict: Verdict
    severity: Severity = "critical"
    expected, remedy = pool.size, ""
    if not pool.least <= found <= pool.most:
        verdict = FAIL
        remedy = "check the provider's capacity and quotas, and the autoscaler's log"
        if strays:
            labels = " ".join(f"{key}={value}" for key, value in pool.selector.items())
            named = " ".join(str(node["metadata"]["name"]) for node in strays)
            remedy = f"restore the labels of the pool's nodes: kubectl label --overwrite node {named} {labels}"
        if found > pool.most:
            remedy += "; an upgrade in progress temporarily adds nodes"
    elif not found:
        verdict = NOT_APPLICABLE
    elif pool.usual is not None and found < pool.usual:
        verdict, severity = UNKNOWN, "info"
        expected = f"{_nodes(pool.usual)} ({pool.size})"
        remedy = "an autoscaler may have removed nodes; otherwise check the provider's capacity and quotas"
    else:
        return None
    return CheckResult(
        id="pool-size",
        verdict=verdict,
        expected=expected,
        observed=_nodes(found) if found else "no nodes to validate",
        severity=severity,
        source=f"stack: count of pool {pool.name}",
        remediation=remedy,
    )


def _time(text: str) -> float:
    """Convert a time in ISO 8601 to seconds since the epoch. Return 0 for other text."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _node_report(
    pool: ExpectedPool,
    node: Mapping[str, Any],
    reports: Mapping[str, Mapping[str, Any]],
    pod_uids: Mapping[str, str] | None,
    slices: Sequence[Mapping[str, Any]] | None,
    left: Mapping[str, Sequence[LeftPod]],
    behind: Sequence[str],
) -> NodeReport:
    name: str = node["metadata"]["name"]
    report = reports.get(name)
    why = _why_not_counted(report, pool, None if pod_uids is None else pod_uids.get(name, ""))
    duration, reported = 0.0, ""
    if not pool.hardware.by_agent:
        checks: list[CheckResult] = []
    elif report is not None and report.get("version") == VERSION and _is_of_other_expectations(report, pool):
        checks = [_no_report(why, name, _OTHER_EXPECTATIONS)]
    elif report is None or why:
        checks = [_no_report(why or "no report", name)]
    else:
        try:
            checks = [CheckResult.from_json(entry) for entry in report["checks"]]
            duration = float(report["duration_seconds"])
            reported = str(report.get("time", ""))
        except MalformedReport as error:
            checks = [_no_report(f"an invalid report: {error}", name)]
        except (KeyError, TypeError, ValueError):
            checks = [
                _no_report("an invalid report: checks or duration_seconds missing or of the wrong type", name)
            ]
    of_kubernetes = check_node(node, pool.node, left=left.get(name, ()), behind=behind)
    return NodeReport(
        node=name,
        pool=pool.name,
        machine_type=pool.hardware.machine_type,
        checks=(
            *(with_replacement(_with_upgrade(check, of_kubernetes), pool.replacement) for check in checks),
            *of_kubernetes,
            *check_devices(name, slices, pool.node),
            *check_nics(name, slices, pool.node),
        ),
        duration_seconds=duration,
        reported=reported,
        notes=notes(node, pool.node, pool.added_taints),
    )


def _with_upgrade(check: CheckResult, of_kubernetes: Sequence[CheckResult]) -> CheckResult:
    """Add a reference to the node's driver upgrade to the result of the agent's driver check.

    The agent itself cannot see the upgrade.
    """
    upgraded = any(one.id == "driver-upgrade" and one.needs_attention for one in of_kubernetes)
    if check.id != "driver-version" or not check.needs_attention or not upgraded:
        return check
    return replace(check, remediation="see this node's driver-upgrade check")


def with_replacement(check: CheckResult, replacement: str) -> CheckResult:
    """Set the field `replacement` of a check if the check's remedy may include a replacement."""
    if not check.needs_attention or not replacement or "replace" not in check.remediation:
        return check
    return replace(check, replacement=replacement)


def _why_not_counted(report: Mapping[str, Any] | None, pool: ExpectedPool, pod_uid: str | None) -> str:
    """Return why a report does not count, or "" if it counts or is missing.

    A report does not count if it is outdated, has an unknown format, or is based on expectations that differ from
    the pool's expectations.
    """
    if report is None:
        return ""
    if report.get("version") != VERSION:
        return f"a report of version {report.get('version')!r}"
    if _is_of_other_expectations(report, pool):
        return f"a report based on expectations {report.get('expectations_hash')!r}, not {pool.hardware.hash!r}"
    if pod_uid is not None and report.get("pod_uid") != pod_uid:
        return "an outdated report from an earlier pod" if pod_uid else "a report, but no agent pod"
    return ""


_OTHER_EXPECTATIONS: Final = (
    "the agent uses the expectations of another stack or of an earlier stack file: run `gpu-platform up`, which "
    "passes it the expectations of this file"
)


def _is_of_other_expectations(report: Mapping[str, Any], pool: ExpectedPool) -> bool:
    return report.get("expectations_hash") != pool.hardware.hash


def _no_report(observed: str, node: str, remedy: str = "") -> CheckResult:
    return CheckResult(
        id="node-agent",
        verdict=UNKNOWN,
        expected="a report of the node agent",
        observed=observed,
        source="always: every node of a pool is validated",
        remediation=remedy
        or (
            f"kubectl get pods -n {names.VALIDATION_NAMESPACE} -o wide --field-selector spec.nodeName={node}, "
            "then describe the pod and read its log; if no DaemonSet validate-* is left, `gpu-platform up` "
            "creates them again"
        ),
    )

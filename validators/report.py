"""Validation report of all nodes of a stack, from the node agents' reports and the cluster checks."""

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
REPORT_KEY: Final = "report.json"  # in a report's ConfigMap
_EXIT_CODES: Final = {
    PASS: ExitCode.GOOD,
    FAIL: ExitCode.FINDING,
    UNKNOWN: ExitCode.UNKNOWN,
    NOT_APPLICABLE: ExitCode.GOOD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPool:
    """Expectations for one pool: for the node agent, for the cluster checks, and the number of nodes.

    Without expectations of hardware (a CPU pool) no agent runs on the nodes, and none must have reported.
    `selector` selects its nodes; `least` and `most` are the bounds of their number. `usual`: the number in the
    stack file, if an autoscaler may change it; `why`: what sets the number within the bounds.
    """

    hardware: Expectations
    node: NodeExpectation
    selector: Mapping[str, str]
    least: int
    most: int
    usual: int | None = None
    why: str = ""
    added_taints: tuple[tuple[str, str], ...] = ()
    """Key and effect of the taints that the cloud adds to its nodes."""
    reservations: tuple[ExpectedReservation, ...] = ()
    """The reservations that Karpenter must have found for its nodes."""
    replacement: str = ""
    """What creates its nodes, and how one is replaced; empty: nothing of the stack creates them anew."""

    @property
    def size(self) -> str:
        """Expected number of nodes, for a reader."""
        if self.least == self.most:
            return _nodes(self.least)
        return f"{self.least} to {_nodes(self.most)}" + (f", {self.why}" if self.why else "")

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.node.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Results of all checks of one node; `node` None: of the pool.

    `duration_seconds` is the duration of the agent's check, 0 without a report. `reported`: when the agent's
    report was written, "" without one. `notes`: a cordon and taints of others, which fail nothing.
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
        """Name of the node or pool, for a reader."""
        return self.node or f"(pool {self.pool})"

    @property
    def verdict(self) -> Verdict:
        """Verdict over all checks."""
        return overall(self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the JSON report."""
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
    """Report of all nodes of all pools.

    A pool has an entry if its number of nodes or its reservation is not as expected. `time`: of the comparison, ""
    if it is not known.
    """

    nodes: tuple[NodeReport, ...]
    time: str = ""

    @property
    def verdict(self) -> Verdict:
        """Fail if a node fails, else unknown if a node is unknown, else pass; not-applicable without nodes."""
        return overall(check for node in self.nodes for check in node.checks)

    @property
    def oldest_seconds(self) -> float | None:
        """Age of the oldest report of a node agent; None without reports or without a time."""
        written = [_time(node.reported) for node in self.nodes if node.reported]
        ages = [_time(self.time) - time for time in written if time] if self.time else []
        return max(ages, default=None)

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of a command that prints this report."""
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
    """Return the report of all nodes, at a time in ISO 8601.

    `nodes` are `v1/Node` objects, `reports` the agents' reports by node (`reports_of`), `pod_uids` the current
    agent pod of each node (`pod_uids_of`; None: unknown and not checked), `slices` the ResourceSlices for pools
    with DRA, `node_classes` the EC2NodeClasses for pools of Karpenter with a reservation, `left` the GPU pods that
    no eviction removes, by node, `behind` the nodes whose driver upgrades do not end and keep others from theirs.
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
    """Return the agents' reports by node from their ConfigMaps; `{}` for a report that is not valid JSON."""
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
    """Return the UID of the agent's pod on each node, without terminating pods."""
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
    """Return whether the agent of a node has reported for a pool, whose labels the node may have lost."""
    return reports.get(node["metadata"]["name"], {}).get("pool") == pool.name


def _pool_checks(
    pool: ExpectedPool,
    nodes: Sequence[Mapping[str, Any]],
    node_classes: Sequence[Mapping[str, Any]] | None,
    strays: Sequence[Mapping[str, Any]],
) -> tuple[CheckResult, ...]:
    """Return the results of the checks of a pool itself that do not pass. `strays`: nodes that were in it."""
    size, domain = _size(pool, len(nodes), strays), check_domain(pool.node, nodes)
    found = (check_reservation(reservation, node_classes) for reservation in pool.reservations)
    return tuple(check for check in (size, domain, *found) if check is not None and check.verdict != PASS)


def _size(pool: ExpectedPool, found: int, strays: Sequence[Mapping[str, Any]]) -> CheckResult | None:
    """Return the result of the check of a pool's number of nodes, None if it passes.

    Not applicable, instead of a pass, for a pool without nodes that may have none.
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
            remedy = f"label again what was in the pool: kubectl label --overwrite node {named} {labels}"
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
    """Return seconds since the epoch of a time in ISO 8601; 0 for another text."""
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
            checks = [_no_report("an invalid report: checks or duration_seconds missing or of another type", name)]
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
    """Return the agent's check of the driver with the upgrade of the node, which the agent cannot see."""
    upgraded = any(one.id == "driver-upgrade" and one.needs_attention for one in of_kubernetes)
    if check.id != "driver-version" or not check.needs_attention or not upgraded:
        return check
    return replace(check, remediation="see the check driver-upgrade of this node")


def with_replacement(check: CheckResult, replacement: str) -> CheckResult:
    """Return a check whose remedy may be to replace something, with the resource that creates the node anew."""
    if not check.needs_attention or not replacement or "replace" not in check.remediation:
        return check
    return replace(check, replacement=replacement)


def _why_not_counted(report: Mapping[str, Any] | None, pool: ExpectedPool, pod_uid: str | None) -> str:
    """Return why a report is outdated or has an unknown format, or ""."""
    if report is None:
        return ""
    if report.get("version") != VERSION:
        return f"a report of version {report.get('version')!r}"
    if _is_of_other_expectations(report, pool):
        return f"a report for other expectations, {report.get('expectations_hash')!r}, not {pool.hardware.hash!r}"
    if pod_uid is not None and report.get("pod_uid") != pod_uid:
        return "an outdated report, of an earlier pod" if pod_uid else "a report, but no pod of the agent"
    return ""


_OTHER_EXPECTATIONS: Final = (
    "the agent compares the node with what another stack, or an earlier stack file, says of its pool: "
    "`gpu-platform up` gives it the expectations of this file"
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
            "then describe the pod and read its log; where no DaemonSet validate-* is left, `gpu-platform up` "
            "makes them again"
        ),
    )

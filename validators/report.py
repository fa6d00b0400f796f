"""One report over all nodes of a stack: the node agents' reports and the cluster checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform import names
from gpu_platform.errors import ExitCode
from gpu_platform.planning.expectations.section import Expectations, NodeExpectation
from validators.agent.outcome import FAIL, NOT_APPLICABLE, PASS, UNKNOWN
from validators.cluster import check_node
from validators.devices import check_devices
from validators.result import CheckResult, MalformedReport, Severity, Verdict, overall

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
    """What a pool should be: on its nodes, in the API, and how many nodes.

    `selector` finds its nodes, at `least` and at `most` so many. `usual`: how many the stack asks for, where
    something else may have changed that since; `why`: who has the number between the bounds.
    """

    hardware: Expectations
    node: NodeExpectation
    selector: Mapping[str, str]
    least: int
    most: int
    usual: int | None = None
    why: str = ""

    @property
    def size(self) -> str:
        """How many nodes, for people."""
        if self.least == self.most:
            return _nodes(self.least)
        return f"{self.least} to {_nodes(self.most)}" + (f", {self.why}" if self.why else "")

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.node.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Every check of one node; `node` None: of the pool itself.

    `duration_seconds` is what the agent took, 0 where there is no report of it.
    """

    node: str | None
    pool: str
    machine_type: str
    checks: tuple[CheckResult, ...]
    duration_seconds: float = 0.0

    @property
    def title(self) -> str:
        """What was looked at, for people."""
        return self.node or f"(pool {self.pool})"

    @property
    def verdict(self) -> Verdict:
        """The verdict over all checks."""
        return overall(self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the node's part of the JSON report."""
        return {
            "node": self.node,
            "pool": self.pool,
            "machine_type": self.machine_type,
            "verdict": self.verdict,
            "checks": [check.to_json() for check in self.checks],
        }


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Every node of every pool; a pool is an entry too where there is something to say of its number of nodes."""

    nodes: tuple[NodeReport, ...]

    @property
    def verdict(self) -> Verdict:
        """Fail if a node fails, else unknown if one could not tell, else pass; without nodes neither."""
        return overall(check for node in self.nodes for check in node.checks)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that prints this report."""
        return _EXIT_CODES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Return the whole report as plain JSON values."""
        counts = {
            verdict: sum(node.verdict == verdict for node in self.nodes if node.node)
            for verdict in (PASS, FAIL, UNKNOWN)
        }
        return {
            "version": VERSION,
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
) -> ValidationReport:
    """Return the report over all nodes.

    `nodes` are `v1/Node` objects, `reports` the agents' reports by node (`reports_of`), `pod_uids` the agent's
    pod on each node now (`pod_uids_of`; None: not known, so not held against a report), `slices` the
    ResourceSlices, which pools with DRA are held against.
    """
    found: list[NodeReport] = []
    for pool in pools:
        members = sorted(
            (node for node in nodes if _selected(node, pool.selector)), key=lambda node: node["metadata"]["name"]
        )
        if (size := _size(pool, len(members))) is not None:
            report = NodeReport(node=None, pool=pool.name, machine_type=pool.hardware.machine_type, checks=(size,))
            found.append(report)
        found += [_node_report(pool, node, reports, pod_uids, slices) for node in members]
    return ValidationReport(tuple(found))


def reports_of(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the agents' reports by node, out of their ConfigMaps; a text that is no report is kept as `{}`."""
    reports: dict[str, Mapping[str, Any]] = {}
    for config_map in config_maps:
        labels = config_map["metadata"].get("labels") or {}
        if names.VALIDATION_REPORT_LABEL not in labels:
            continue
        node = config_map["metadata"]["name"].removeprefix("node-validation-")
        try:
            report: Any = json.loads((config_map.get("data") or {}).get(REPORT_KEY, ""))
        except ValueError:
            report = {}
        reports[node] = report if isinstance(report, dict) else {}
    return reports


def pod_uids_of(pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the UID of the agent's pod on each node; pods on their way out do not count."""
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["uid"]
        for pod in pods
        if pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and (pod["metadata"].get("labels") or {}).get(names.NAME_LABEL) == names.VALIDATION_APP
    }


def _selected(node: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _size(pool: ExpectedPool, found: int) -> CheckResult | None:
    """Return what is to be said of a pool's number of nodes, None where there is nothing.

    No nodes where there may be none: nothing was proven, and that is no pass.
    """
    verdict: Verdict
    severity: Severity = "critical"
    expected, remedy = pool.size, ""
    if not pool.least <= found <= pool.most:
        verdict = FAIL
        remedy = "see why nodes are missing or too many: capacity at the provider, quota, the autoscaler's log"
        if found > pool.most:
            remedy += "; an upgrade that is under way adds nodes for a time"
    elif not found:
        verdict = NOT_APPLICABLE
    elif pool.usual is not None and found < pool.usual:
        verdict, severity = UNKNOWN, "info"
        expected = f"{_nodes(pool.usual)} ({pool.size})"
        remedy = "an autoscaler may have taken nodes away; else see capacity at the provider, and quota"
    else:
        return None
    return CheckResult(
        id="pool-size",
        verdict=verdict,
        expected=expected,
        observed=_nodes(found) if found else "no nodes: nothing to prove",
        severity=severity,
        source=f"stack: count of pool {pool.name}",
        remediation=remedy,
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _node_report(
    pool: ExpectedPool,
    node: Mapping[str, Any],
    reports: Mapping[str, Mapping[str, Any]],
    pod_uids: Mapping[str, str] | None,
    slices: Sequence[Mapping[str, Any]] | None,
) -> NodeReport:
    name: str = node["metadata"]["name"]
    report = reports.get(name)
    why = _why_not_counted(report, pool, None if pod_uids is None else pod_uids.get(name, ""))
    duration = 0.0
    if report is None or why:
        checks = [_no_report(why or "no report", name)]
    else:
        try:
            checks = [CheckResult.from_json(entry) for entry in report["checks"]]
            duration = float(report["duration_seconds"])
        except (MalformedReport, KeyError, TypeError, ValueError) as error:
            checks = [_no_report(f"a report that cannot be read: {error}", name)]
    return NodeReport(
        node=name,
        pool=pool.name,
        machine_type=pool.hardware.machine_type,
        checks=(*checks, *check_node(node, pool.node), *check_devices(name, slices, pool.node)),
        duration_seconds=duration,
    )


def _why_not_counted(report: Mapping[str, Any] | None, pool: ExpectedPool, pod_uid: str | None) -> str:
    """Return why a report says nothing about the node as it should be now, or ""."""
    if report is None:
        return ""
    if report.get("version") != VERSION:
        return f"a report of version {report.get('version')!r}"
    if report.get("expectations_hash") != pool.hardware.hash:
        return f"a stale report: of expectations {report.get('expectations_hash')!r}, not {pool.hardware.hash!r}"
    if pod_uid is not None and report.get("pod_uid") != pod_uid:
        return "a stale report: of a pod that is gone" if pod_uid else "a report, but no pod of the agent"
    return ""


def _no_report(observed: str, node: str) -> CheckResult:
    return CheckResult(
        id="node-agent",
        verdict=UNKNOWN,
        expected="a report of the node agent",
        observed=observed,
        source="always: every node of a pool is proven",
        remediation=(
            f"kubectl get pods -n {names.VALIDATION_NAMESPACE} -o wide --field-selector spec.nodeName={node}, "
            "then describe the pod and read its log"
        ),
    )

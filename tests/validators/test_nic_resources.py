"""The NIC resources of a node, compared with the plan of its pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_platform.base.errors import ExitCode
from gpu_platform.live.node_reports import collect_report
from tests.support.eks_stacks import plan_eks
from validators.cluster import check_node
from validators.result import CheckResult

EFA = "vpc.amazonaws.com/efa"
(POOL,) = plan_eks({}).pools


def node(efa: str | None, capacity: str = "32") -> dict[str, Any]:
    """Return the only node of the pool, which is healthy apart from its EFA interfaces."""
    expected = POOL.node_expectation
    offered = {"cpu": "192", "nvidia.com/gpu": "8"} | ({} if efa is None else {EFA: efa})
    return {
        "metadata": {"name": "ip-10-0-0-1", "labels": dict(expected.labels)},
        "spec": {"taints": [dict(taint) for taint in expected.taints]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": offered,
            "capacity": offered | ({} if efa is None else {EFA: capacity}),
        },
    }


class Cluster:
    """A fake cluster that contains only one node."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self._node = node

    def objects(self, _version: str, kind: str, **_: str) -> Iterator[Mapping[str, Any]]:
        yield from [self._node] if kind == "Node" else []


def of_efa(node: Mapping[str, Any]) -> CheckResult:
    return next(check for check in check_node(node, POOL.node_expectation) if check.device == EFA)


@pytest.mark.parametrize(("efa", "observed"), [(None, "none"), ("0", "none"), ("31", "31")])
def test_a_node_with_too_few_efa_interfaces_fails_validation(efa: str | None, observed: str) -> None:
    report = collect_report(Cluster(node(efa)), plan_eks({}))  # pyrefly: ignore[bad-argument-type]
    failed = [(one.node, check) for one in report.nodes for check in one.checks if check.verdict == "fail"]
    assert [(name, check.name, check.expected, check.observed) for name, check in failed] == [
        ("ip-10-0-0-1", f"allocatable {EFA}", "32", observed)
    ]
    assert report.exit_code is ExitCode.FINDING


def test_a_node_with_every_efa_interface_passes() -> None:
    assert of_efa(node("32")).verdict == "pass"


def test_unhealthy_efa_interfaces_are_distinguished_from_missing_ones() -> None:
    assert "unhealthy" in of_efa(node("30")).remediation
    assert "created with" in of_efa(node("30", capacity="30")).remediation
    assert "spec.nodeName=ip-10-0-0-1" in of_efa(node(None)).remediation

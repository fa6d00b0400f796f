"""`validate` compares a Karpenter pool's capacity reservation with the reservation that its EC2NodeClass found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest

from gpu_platform.base.errors import ExitCode
from gpu_platform.live.node_reports import collect_report
from gpu_platform.planning import EnvironmentPlan
from tests.support.eks_stacks import plan_eks
from tests.support.karpenter_forms import BLOCK, FORMS, RESERVED, TRAIN
from validators.report import ValidationReport

OWN = "cr-0a1b2c3d4e5f60718"
OTHER = "cr-1a1b2c3d4e5f60718"
ON_RESERVATION = {**TRAIN, "zones": None, "capacity": RESERVED}


def listed(reservation: str = OWN, **rest: str) -> dict[str, str]:
    """Return an entry of `status.capacityReservations` as Karpenter writes it."""
    return {
        "id": reservation,
        "availabilityZone": "us-east-2a",
        "instanceMatchCriteria": "targeted",
        "instanceType": "p5.48xlarge",
        "ownerID": "123456789012",
        "reservationType": "default",
        "state": "active",
        **rest,
    }


def node_class(*reservations: dict[str, str], **rest: Any) -> dict[str, Any]:
    """Return the pool's EC2NodeClass, which Karpenter reports as ready whether or not it found a reservation."""
    ready = [{"type": one, "status": "True"} for one in ("CapacityReservationsReady", "Ready")]
    found = {"capacityReservations": list(reservations)} if reservations else {}
    return {"metadata": {"name": "train"}, "status": {"conditions": ready, **found}, **rest}


class Cluster:
    """A fake cluster with EC2NodeClasses and without nodes."""

    def __init__(self, *node_classes: Mapping[str, Any]) -> None:
        self._node_classes = node_classes
        self.read: list[str] = []

    def objects(self, version: str, kind: str, **_: str) -> Iterator[Mapping[str, Any]]:
        self.read.append(f"{version} {kind}")
        yield from self._node_classes if kind == "EC2NodeClass" else ()


def report_of(
    *node_classes: Mapping[str, Any], plan: EnvironmentPlan | None = None, now: datetime | None = None
) -> ValidationReport:
    # pyrefly: ignore[bad-argument-type]
    return collect_report(Cluster(*node_classes), plan or plan_eks(ON_RESERVATION), now)


def findings(report: ValidationReport) -> list[tuple[str, str, str, str]]:
    """Return the entries that need attention as (pool, check, verdict, observed)."""
    return [
        (one.title, check.name, check.verdict, check.observed)
        for one in report.nodes
        for check in one.checks
        if check.needs_attention
    ]


@pytest.mark.parametrize(
    ("found", "observed"),
    [
        ((), "no reservation"),
        ((listed(OTHER),), f"{OTHER} of p5.48xlarge in us-east-2a"),
        ((listed(instanceType="p4d.24xlarge"),), f"{OWN} of p4d.24xlarge in us-east-2a"),
        ((listed(availabilityZone="us-east-2b"),), f"{OWN} of p5.48xlarge in us-east-2b"),
    ],
)
def test_a_reservation_that_karpenter_has_not_found_fails_validation(
    found: tuple[dict[str, str], ...], observed: str
) -> None:
    report = report_of(node_class(*found))
    assert findings(report) == [("(pool train)", f"capacity-reservation {OWN}", "fail", observed)]
    assert report.exit_code is ExitCode.FINDING


def test_a_finding_names_expected_value_source_and_command() -> None:
    [check] = [check for one in report_of(node_class()).nodes for check in one.checks if check.needs_attention]
    assert check.expected == f"{OWN} of p5.48xlarge in us-east-2a"
    assert check.source == "stack: pools[0].capacity"
    assert f"describe-capacity-reservations --capacity-reservation-ids {OWN}" in check.remediation


def test_a_pool_without_its_ec2nodeclass_fails() -> None:
    other = node_class(listed(), metadata={"name": "develop"})
    assert findings(report_of(other)) == [
        ("(pool train)", f"capacity-reservation {OWN}", "fail", "no EC2NodeClass train")
    ]


def test_a_reservation_that_karpenter_has_not_looked_for_yet_is_unknown() -> None:
    report = report_of(node_class(status={}))
    assert [finding[2] for finding in findings(report)] == ["unknown"]
    assert report.exit_code is ExitCode.UNKNOWN


@pytest.mark.parametrize("capacity", [RESERVED, BLOCK])
def test_a_reservation_that_karpenter_has_found_passes(capacity: dict[str, Any]) -> None:
    report = report_of(node_class(listed()), plan=plan_eks({**ON_RESERVATION, "capacity": capacity}))
    assert (findings(report), report.exit_code) == ([], ExitCode.GOOD)


@pytest.mark.parametrize("form", [FORMS["development"], {"capacity": RESERVED}])
def test_pools_without_a_reservation_and_node_groups_read_no_ec2nodeclass(form: dict[str, Any]) -> None:
    cluster = Cluster()
    report = collect_report(cluster, plan_eks(form))  # pyrefly: ignore[bad-argument-type]
    assert "karpenter.k8s.aws/v1 EC2NodeClass" not in cluster.read
    assert not [check for one in report.nodes for check in one.checks if check.id == "capacity-reservation"]


BLOCKS = [
    {"reservation": OWN, "zone": "us-east-2a", "starts": "2026-12-01T11:30:00Z", "ends": "2026-12-14T11:30:00Z"},
    {"reservation": OTHER, "zone": "us-east-2b", "starts": "2026-12-14T11:30:00Z", "ends": "2026-12-21T11:30:00Z"},
]


@pytest.mark.parametrize(
    ("now", "missing", "size"),
    [
        ("2026-11-25T00:00:00Z", [], f"{OWN} has not begun; it begins at 2026-12-01T11:30:00Z"),
        ("2026-12-02T00:00:00Z", [OWN], "created by Karpenter for pending pods"),
        ("2026-12-14T11:00:00Z", [], f"{OTHER} has not begun; it begins at 2026-12-14T11:30:00Z"),
        ("2026-12-15T00:00:00Z", [OTHER], "created by Karpenter for pending pods"),
        ("2026-12-21T11:00:00Z", [], f"{OTHER} has ended; its nodes were drained at 2026-12-21T10:50:00Z"),
    ],
)
def test_karpenter_must_have_found_a_block_only_while_it_can_have_nodes(
    now: str, missing: list[str], size: str
) -> None:
    plan = plan_eks({**TRAIN, "zones": None, "capacity": {"type": "capacity-block", "blocks": BLOCKS}})
    report = report_of(node_class(), plan=plan, now=datetime.fromisoformat(now))
    checks = [check for node in report.nodes for check in node.checks]
    assert [check.device for check in checks if check.id == "capacity-reservation"] == missing
    (of_size,) = [check for check in checks if check.id == "pool-size"]
    assert (of_size.verdict, size in of_size.expected) == ("not-applicable", True)
    assert report.exit_code is (ExitCode.FINDING if missing else ExitCode.GOOD)


def test_a_managed_pool_needs_its_nodes_only_once_its_block_begins() -> None:
    block = {"type": "capacity-block", **BLOCKS[0]}
    plan = plan_eks({"count": {"desired": 2}, "capacity": block})
    before = report_of(plan=plan, now=datetime.fromisoformat("2026-11-25T00:00:00Z"))
    assert before.exit_code is ExitCode.GOOD
    (check,) = before.nodes[0].checks
    assert "has not begun" in check.expected
    during = report_of(plan=plan, now=datetime.fromisoformat("2026-12-02T00:00:00Z"))
    assert "has not begun" not in during.nodes[0].checks[0].expected

"""Checks that Karpenter found the capacity reservation of a pool. All functions are pure.

Karpenter sets the condition CapacityReservationsReady of an EC2NodeClass to True even if it finds nothing
(karpenter-provider-aws, pkg/controllers/nodeclass/capacityreservation.go; read 2026-11-23). A deployment therefore
succeeds even if the reservation does not exist. Karpenter lists only active reservations (its
pkg/providers/capacityreservation/types.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validators.agent.outcome import FAIL, PASS, UNKNOWN
from validators.result import CheckResult, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedReservation:
    """Capacity reservation that Karpenter must have found for a pool's EC2NodeClass. `source` is its place in the
    stack file.
    """

    node_class: str
    reservation: str
    machine_type: str
    zone: str
    source: str

    @property
    def text(self) -> str:
        """Expected reservation in the EC2NodeClass status, as text for the user."""
        return _text(self.reservation, self.machine_type, self.zone)


def check_reservation(
    expected: ExpectedReservation, node_classes: Iterable[Mapping[str, Any]] | None
) -> CheckResult:
    """Check one reservation of a pool.

    `node_classes` contains the cluster's EC2NodeClasses, or is None if they were not read.
    """
    verdict, observed = _found(expected, node_classes)
    return CheckResult(
        id="capacity-reservation",
        device=expected.reservation,
        verdict=verdict,
        expected=expected.text,
        observed=observed,
        source=expected.source,
        remediation="" if verdict == PASS else _remedy(verdict, expected),
    )


def _found(expected: ExpectedReservation, node_classes: Iterable[Mapping[str, Any]] | None) -> tuple[Verdict, str]:
    if node_classes is None:
        return UNKNOWN, "EC2NodeClasses were not read"
    node_class = next((one for one in node_classes if one["metadata"]["name"] == expected.node_class), None)
    if node_class is None:
        return FAIL, f"no EC2NodeClass {expected.node_class}"
    status: Mapping[str, Any] = node_class.get("status") or {}
    if not status:
        return UNKNOWN, "an EC2NodeClass without a status"
    listed: Sequence[Mapping[str, Any]] = status.get("capacityReservations") or ()
    texts = [_text(one["id"], one.get("instanceType"), one.get("availabilityZone")) for one in listed]
    return PASS if expected.text in texts else FAIL, ", ".join(texts) or "no reservation"


def _text(reservation: str, machine_type: str | None, zone: str | None) -> str:
    return f"{reservation} of {machine_type} in {zone}"


def _remedy(verdict: Verdict, expected: ExpectedReservation) -> str:
    if verdict == UNKNOWN:
        return "Karpenter has not evaluated the reservation: see its controller's log, then validate again"
    return (
        "Karpenter creates no node for the pool: compare id, instance type, zone and state with aws ec2 "
        f"describe-capacity-reservations --capacity-reservation-ids {expected.reservation}; Karpenter finds "
        "only active reservations that this account owns or that are shared with it, and finds a capacity "
        "block only after its start"
    )

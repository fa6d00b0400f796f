"""Types for the upgrade report, with the support status of versions and the steps of an upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_platform.planning.upgrades.support import Support


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningVersions:
    """Versions that a cluster reports.

    `kubernetes` is the version of its API server as text (`v1.35.2-eks-4f4795d`). `kubelets` and `drivers` contain
    the versions on nodes by pool. `images` contains the images of the platform's workloads, by `Kind name`.
    """

    kubernetes: str
    operator: str | None = None
    kubelets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    drivers: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of software, with its planned version, its running version (None if it was not read), its newest
    version, and its support status.
    """

    subject: str
    planned: str | None
    running: str | None
    support: Support
    newest: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the item for a JSON report."""
        until = self.support.until
        return {
            "subject": self.subject,
            "planned": self.planned,
            "running": self.running,
            "status": self.support.status.value,
            "until": until.isoformat() if until is not None else None,
            "newest": self.newest,
            "because": self.support.text,
            "source": self.support.source or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of an upgrade: an edit to the stack file, followed by `up`.

    `edits` contains new values by their paths in the stack file. It is empty if the step is only `up`. `why` is
    the reason for the step and for its position. `order` lists what happens in the step, in order.
    `replaces_nodes` indicates whether all nodes are drained, even if no resource of the stack changes.
    """

    subject: str
    old: str
    new: str
    edits: Mapping[str, str]
    why: str
    order: str
    replaces_nodes: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the step for a JSON report."""
        return {
            "subject": self.subject,
            "from": self.old,
            "to": self.new,
            "edits": dict(self.edits),
            "why": self.why,
            "order": self.order,
        }

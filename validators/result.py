"""One answer of one check, from the node agent or from the cluster checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from validators.agent.checks import verdict_of
from validators.agent.outcome import FAIL, NOT_APPLICABLE, UNKNOWN

Verdict = Literal["pass", "fail", "not-applicable", "unknown"]
Severity = Literal["critical", "warning", "info"]


class MalformedReport(Exception):
    """A node's report is not of the form that the agent writes; the text says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found. `device` is the part of the node it looked at: `GPU 3`, a resource name, a label.

    A failed check stops a node whatever its severity; one that could not tell stops it only if critical.
    """

    id: str
    verdict: Verdict
    expected: str
    observed: str
    device: str | None = None
    severity: Severity = "critical"
    source: str = ""
    remediation: str = ""

    @property
    def needs_attention(self) -> bool:
        """Whether someone has to look: it failed, or could not tell."""
        return self.verdict in (FAIL, UNKNOWN)

    @property
    def name(self) -> str:
        """The check and what it looked at, for people."""
        return f"{self.id} {self.device}" if self.device else self.id

    def to_json(self) -> dict[str, Any]:
        """Return the form that the agent's report has."""
        return asdict(self)

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> CheckResult:
        """Read an entry of a report; fields that a newer agent adds are left out.

        Raises MalformedReport.
        """
        try:
            result = cls(**{name: entry[name] for name in cls.__slots__})
        except (KeyError, TypeError) as error:
            raise MalformedReport(f"check without {error}") from None
        texts = (result.id, result.expected, result.observed, result.source, result.remediation)
        if not all(isinstance(text, str) for text in (*texts, result.device or "")):
            raise MalformedReport(f"check {result.id!r} with a field that is not text")
        if result.verdict not in get_args(Verdict) or result.severity not in get_args(Severity):
            raise MalformedReport(f"check {result.id}: {result.verdict!r}, {result.severity!r}")
        return result


def overall(results: Iterable[CheckResult]) -> Verdict:
    """Return the verdict over checks, as the agent gives it; where none of them applies, that is no pass."""
    found = list(results)
    if found and all(each.verdict == NOT_APPLICABLE for each in found):
        return NOT_APPLICABLE
    verdict: Any = verdict_of([{"verdict": each.verdict, "severity": each.severity} for each in found])
    return verdict

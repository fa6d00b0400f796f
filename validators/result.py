"""Result of one check, from the node agent or from the cluster checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from validators.agent.checks import verdict_of
from validators.agent.outcome import FAIL, NOT_APPLICABLE, UNKNOWN

Verdict = Literal["pass", "fail", "not-applicable", "unknown"]
Severity = Literal["critical", "warning", "info"]


_OF_THE_STACK: Final = "replacement"  # the only field that agents do not report


class MalformedReport(Exception):
    """A node's report does not have the agent's format. The message contains the place in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one check. `device` is the checked part of the node, such as `GPU 3`, a resource name or a label.

    A node fails if any of its checks fails. A node is unknown if a critical check is unknown.
    """

    id: str
    verdict: Verdict
    expected: str
    observed: str
    device: str | None = None
    severity: Severity = "critical"
    source: str = ""
    remediation: str = ""
    replacement: str = ""
    """The resource that creates the node again, and how to replace the node.

    Set only if the remedy may be to replace the node.
    """

    @property
    def needs_attention(self) -> bool:
        """Whether the verdict is `fail` or `unknown`."""
        return self.verdict in (FAIL, UNKNOWN)

    @property
    def remedy(self) -> str:
        """Remedy as a sentence for the user, including the resource that replaces the node."""
        if not self.replacement:
            return self.remediation
        return f"{self.remediation}. To replace the node: {self.replacement}"

    @property
    def name(self) -> str:
        """Id of the check and the checked device, as text for the user."""
        return f"{self.id} {self.device}" if self.device else self.id

    def to_json(self) -> dict[str, Any]:
        """Return the check's entry in the JSON report."""
        return asdict(self)

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> CheckResult:
        """Parse an entry of an agent's report. Fields of a newer agent are ignored.

        Raises MalformedReport if a field is missing or invalid.
        """
        try:
            result = cls(**{name: entry[name] for name in cls.__slots__ if name != _OF_THE_STACK})
        except (KeyError, TypeError) as error:
            raise MalformedReport(f"check without {error}") from None
        texts: list[Any] = [result.id, result.device or "", result.expected, result.observed]
        texts += [result.source, result.remediation]
        if not all(isinstance(text, str) for text in texts):
            raise MalformedReport(f"check {result.id!r} with a field that is not a string")
        if result.verdict not in get_args(Verdict) or result.severity not in get_args(Severity):
            raise MalformedReport(
                f"check {result.id!r} with verdict {result.verdict!r} and severity {result.severity!r}"
            )
        return result


def overall(results: Iterable[CheckResult]) -> Verdict:
    """Combine the verdicts of checks by the agent's rule.

    The result is `not-applicable` if there are checks but none is applicable.
    """
    found = list(results)
    if found and all(each.verdict == NOT_APPLICABLE for each in found):
        return NOT_APPLICABLE
    verdict: Any = verdict_of([{"verdict": each.verdict, "severity": each.severity} for each in found])
    return verdict

"""Types of the admission rules of a team's namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRule:
    """One rule: a CEL expression that must be true, and a message with what is wrong and the fix.

    `message_expression`: the message as CEL, where it names a part of the object.
    """

    id: str
    expression: str
    message: str
    message_expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSubject:
    """The object that a rule evaluates, as CEL: `pod` has metadata and spec, `asks`: whether it requests GPUs."""

    pod: str
    asks: str

    @property
    def spec(self) -> str:
        return f"{self.pod}.spec"


POD: Final = AdmissionSubject(pod="object", asks="variables.asksForGpus")
TEMPLATE: Final = AdmissionSubject(pod="each.template", asks="each.asks")


def units_of(resource: str) -> str:
    """Return how many units of a resource the container `one` has by its limits."""
    return (
        f"has(one.resources) && has(one.resources.limits) && '{resource}' in one.resources.limits ? "
        f"quantity(string(one.resources.limits['{resource}'])).asInteger() : 0"
    )


def of_all(of: AdmissionSubject, kind: str, expression: str) -> str:
    """Return that an expression of `one` holds for all containers of a kind."""
    return f"(!has({of.spec}.{kind}) || {of.spec}.{kind}.all(one, {expression}))"

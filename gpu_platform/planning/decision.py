"""Types for a decision with its reason, and for a part of the Plan together with its decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision with its subject, the choice and the reason. `check` prints it, so that defaults are visible."""

    subject: str
    what: str
    chosen: str
    why: str


@dataclass(frozen=True, slots=True)
class Decided(Generic[T_co]):
    """A part of the Plan, with the decisions about it that `check` prints."""

    value: T_co
    decisions: tuple[Decision, ...] = ()

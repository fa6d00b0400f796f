"""One choice of the program and its reason, and a part of the Plan together with its choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision: its subject, the choice and the reason. `check` prints it, so that defaults are visible."""

    subject: str
    what: str
    chosen: str
    why: str


@dataclass(frozen=True, slots=True)
class Decided(Generic[T_co]):
    """A part of the Plan, with the decisions that `check` prints for it."""

    value: T_co
    decisions: tuple[Decision, ...] = ()

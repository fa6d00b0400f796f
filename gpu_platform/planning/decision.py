"""One choice of the program and its reason, and a part of the Plan together with its choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing that was chosen, for whom, and why: printed by `check`, so that no default is silent."""

    subject: str
    what: str
    chosen: str
    why: str


@dataclass(frozen=True, slots=True)
class Decided(Generic[T_co]):
    """A part of the Plan, and the choices behind it that a reader should know of."""

    value: T_co
    decisions: tuple[Decision, ...] = ()

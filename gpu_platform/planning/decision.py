"""Types for decisions with their reasons, and for sections of the Plan with the decisions about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision: its subject, the choice and the reason. `gpu-platform check` prints it, so that defaults are
    visible.
    """

    subject: str
    what: str
    chosen: str
    why: str


@dataclass(frozen=True, slots=True)
class Decided(Generic[T_co]):
    """A section of the Plan, with the decisions about it that `gpu-platform check` prints."""

    value: T_co
    decisions: tuple[Decision, ...] = ()

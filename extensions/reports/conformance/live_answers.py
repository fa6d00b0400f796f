"""Checks the answers against a live cluster: whether the objects exist and their conditions are True."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from extensions.reports.conformance.answers import Answer, LiveObject, Status


class Reader(Protocol):
    """Client that reads a single object."""

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        """Return the object, or None if it does not exist or its kind is unknown."""
        ...


def observe(found: Sequence[Answer], client: Reader) -> tuple[Answer, ...]:
    """Return the answers with evidence from the cluster.

    If evidence is missing, the status is at most partially implemented.
    """
    return tuple(_observe(answer, client) for answer in found)


def _observe(answer: Answer, client: Reader) -> Answer:
    states = [(one, _state(one, client)) for one in answer.objects]
    observed = tuple(f"{one}: {state}" for one, state in states)
    missing = [f"{one} is {state}" for one, state in states if state not in _GOOD]
    if not missing:
        return replace(answer, observed=observed)
    status = Status.PARTIAL if answer.status is Status.IMPLEMENTED else answer.status
    return replace(
        answer, status=status, observed=observed, missing="; ".join([*filter(None, [answer.missing]), *missing])
    )


_GOOD = ("present", "True")


def _state(wanted: LiveObject, client: Reader) -> str:
    found = client.get(wanted.api_version, wanted.kind, wanted.name, wanted.namespace or "")
    if found is None:
        return "missing"
    if wanted.condition is None:
        return "present"
    conditions = cast("Sequence[Mapping[str, str]]", found.get("status", {}).get("conditions", []))
    states = [one.get("status", "Unknown") for one in conditions if one.get("type") == wanted.condition]
    return states[0] if states and states[0] == "True" else f"not {wanted.condition}"

"""The resource kinds of the simulated clouds, read from `kinds.yaml`, `kinds_azure.yaml` and
`kinds_google.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource. `kinds.yaml` documents its fields."""

    id: str
    name: str | None = None
    replaces: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    blocked_by: Mapping[str, str] = field(default_factory=dict[str, str])
    recomputed: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _kind(fields: Mapping[str, Any]) -> Kind:
    given: dict[str, Any] = {**fields, "replaces": tuple(fields.get("replaces", ()))}
    return Kind(**given)


@cache
def kinds() -> Mapping[str, Kind]:
    """Return the kinds by Pulumi type."""
    return {
        name: _kind(fields)
        for file in ("kinds.yaml", "kinds_azure.yaml", "kinds_google.yaml")
        for name, fields in yaml.safe_load((Path(__file__).parent / file).read_text("utf-8")).items()
    }

"""Names of the admission policies that every team has."""

from __future__ import annotations

from typing import Final

PREFIXES: Final = ("pods-of", "templates-of", "services-of", "claims-of", "scalers-of", "routes-of", "objects-of")
"""Prefixes of the policies' names, which are followed by the team's name."""

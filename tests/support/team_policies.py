"""Names of the admission policies that every team has."""

from __future__ import annotations

from typing import Final

PREFIXES: Final = ("pods-of", "templates-of", "services-of", "claims-of", "scalers-of", "routes-of", "objects-of")
"""Beginnings of their names; the team's follows."""

"""Reads an AICR recipe: the output of `aicr recipe`, or an overlay from the AICR repository.

Source: NVIDIA/aicr, pkg/recipe/metadata.go and criteria.go (aicr.nvidia.com/v1alpha1), 2026-03-21.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_platform.base.errors import BadInput, Problem

_KINDS = ("RecipeResult", "RecipeMetadata")
_LONGEST = 1_000_000  # maximum size in bytes; a recipe has a few kilobytes


class _Part(BaseModel):
    """A part of a recipe. Unknown fields are ignored, because other AICR versions have more fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Constraint(_Part):
    """A condition such as `K8s.server.version: ">= 1.32.4"`."""

    name: str
    value: str
    severity: Literal["error", "warning"] = "error"
    remediation: str = ""


class ComponentRef(_Part):
    """A component of the recipe, such as gpu-operator v25.10.1."""

    name: str
    version: str = ""


class Criteria(_Part):
    """Criteria that a recipe applies to. `any` or an empty string matches everything."""

    service: str = "any"
    accelerator: str = "any"
    intent: str = "any"
    os: str = "any"


class _Phase(_Part):
    constraints: tuple[Constraint, ...] = ()


class Recipe(_Part):
    """A recipe: its criteria, constraints and components."""

    criteria: Criteria = Criteria()
    constraints: tuple[Constraint, ...] = ()
    components: tuple[ComponentRef, ...] = Field(default=(), alias="componentRefs")
    validation: dict[str, _Phase] = {}

    @property
    def all_constraints(self) -> tuple[Constraint, ...]:
        """All constraints, including the constraints of validation phases."""
        return (*self.constraints, *(one for phase in self.validation.values() for one in phase.constraints))


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a YAML file. Raises BadInput if the file is not a recipe."""
    try:
        text = path.read_text("utf-8") if path.stat().st_size <= _LONGEST else ""
        loaded: Any = yaml.safe_load(text)
    except OSError as error:
        raise BadInput(
            str(path),
            [Problem("(the whole file)", str(error.strerror), "a readable file", "give the path of a file")],
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(str(path), [Problem("", "not YAML", "the output of `aicr recipe`")]) from None
    document = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    kind = document.get("kind")
    if kind not in _KINDS:
        problem = Problem(
            "kind", repr(kind), " or ".join(_KINDS), "write the recipe with `aicr recipe ... --output FILE`"
        )
        raise BadInput(str(path), [problem])
    # The parts of an overlay are under `spec`.
    parts = document.get("spec") if kind == "RecipeMetadata" else document
    try:
        return Recipe.model_validate(parts)
    except ValidationError as error:
        found = [
            Problem(".".join(map(str, one["loc"])), repr(one.get("input")), str(one["msg"]))
            for one in error.errors()
        ]
        raise BadInput(str(path), found) from None

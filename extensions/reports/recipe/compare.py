"""Compares a recipe with a stack's plan: which constraints are met, and how the components are provided."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from extensions.reports.recipe.document import Constraint, Criteria, Recipe
from gpu_platform.api.plans import EnvironmentPlan
from gpu_platform.base.versions import version_numbers
from gpu_platform.catalog import Catalog


class Verdict(StrEnum):
    """Result of comparing a constraint with the plan."""

    MET = "met"
    NOT_MET = "not met"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintResult:
    """Result of one constraint for the plan. `why` explains an unknown result."""

    constraint: str
    wanted: str
    found: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentResult:
    """How the program provides a component of the recipe.

    `version` is the program's version, or empty if it has none.
    """

    name: str
    wanted: str
    version: str
    handled: str


_OPERATORS: Final[Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_OTHER_NAMES: Final = {"kind": "sandbox"}  # a recipe's names of services that differ from `provider`
_SYSTEMS: Final = {"amazonlinux": "amzn", "cos": "cos", "ubuntu": "ubuntu"}
_MEASURED: Final = "measured on the nodes after the deployment, not planned"


def compare(recipe: Recipe, plan: EnvironmentPlan, catalog: Catalog) -> tuple[ConstraintResult, ...]:
    """Return the results for a recipe's criteria and constraints in order."""
    return (
        *_criteria(recipe.criteria, plan, catalog),
        *(_answer(one, plan) for one in recipe.all_constraints),
    )


def components(recipe: Recipe, plan: EnvironmentPlan, catalog: Catalog) -> tuple[ComponentResult, ...]:
    """Return how the program provides each component of a recipe."""
    return tuple(
        ComponentResult(
            name=one.name,
            wanted=one.version,
            version=plan.operator.release
            if one.name == "gpu-operator" and plan.operator.install != "none"
            else "",
            handled=catalog.recipe_components[one.name].handled
            if one.name in catalog.recipe_components
            else "not installed and unknown to this program",
        )
        for one in recipe.components
    )


# -- criteria --------------------------------------------------------------------------------------------


def _criteria(criteria: Criteria, plan: EnvironmentPlan, catalog: Catalog) -> Iterator[ConstraintResult]:
    models = {pool.gpu_model for pool in plan.pools if pool.has_gpus}
    service = _OTHER_NAMES.get(criteria.service, criteria.service)
    found: dict[str, tuple[str, bool]] = {
        "service": (plan.cluster.provider, service == plan.cluster.provider),
        "accelerator": (
            ", ".join(sorted(models)),
            any(model.partition("-")[0] == criteria.accelerator for model in models),
        ),
        "intent": (
            ", ".join(sorted({pool.workload for pool in plan.pools if pool.has_gpus})),
            any(pool.workload == criteria.intent for pool in plan.pools),
        ),
    }
    for name, (has, holds) in found.items():
        wanted = getattr(criteria, name)
        if wanted not in ("", "any"):
            verdict = Verdict.MET if holds else Verdict.NOT_MET
            yield ConstraintResult(constraint=f"criteria.{name}", wanted=wanted, found=has, verdict=verdict)
    if criteria.os not in ("", "any"):
        wanted = _SYSTEMS.get(criteria.os, criteria.os)
        yield _of_nodes("criteria.os", criteria.os, plan, 0, lambda system: system == wanted)


# -- constraints -----------------------------------------------------------------------------------------


def _answer(constraint: Constraint, plan: EnvironmentPlan) -> ConstraintResult:
    name, value = constraint.name, constraint.value
    sign, wanted = _parsed(value)

    def holds(found: str) -> bool:
        return _compared(found, sign, wanted)

    if name == "K8s.server.version":
        return _kubernetes(constraint, sign, wanted, plan.cluster.kubernetes)
    if name == "Deployment.gpu-operator.version" and plan.operator.install != "none":
        release = plan.operator.release
        verdict = Verdict.MET if holds(release) else Verdict.NOT_MET
        return ConstraintResult(constraint=name, wanted=value, found=release, verdict=verdict)
    if name == "OS.release.ID":
        return _of_nodes(name, value, plan, 0, holds)
    if name == "OS.release.VERSION_ID":
        return _of_nodes(name, value, plan, 1, holds)
    return ConstraintResult(constraint=name, wanted=value, found="unknown", verdict=Verdict.UNKNOWN, why=_MEASURED)


def _kubernetes(constraint: Constraint, sign: str, wanted: str, minor: str | None) -> ConstraintResult:
    """Compare minor versions. If they are equal and the recipe names a patch release, the result is unknown."""
    answer = ConstraintResult(
        constraint=constraint.name, wanted=constraint.value, found=minor or "unknown", verdict=Verdict.UNKNOWN
    )
    if minor is None:
        return _with(answer, Verdict.UNKNOWN, "declare cluster.kubernetes")
    numbers = version_numbers(wanted)
    if len(numbers) > 2 and numbers[2] and numbers[:2] == version_numbers(minor):
        return _with(answer, Verdict.UNKNOWN, "the cloud chooses the patch release")
    of_minor = ".".join(map(str, numbers[:2]))
    return _with(answer, Verdict.MET if _compared(minor, sign, of_minor) else Verdict.NOT_MET, "")


def _with(answer: ConstraintResult, verdict: Verdict, why: str) -> ConstraintResult:
    return ConstraintResult(
        constraint=answer.constraint, wanted=answer.wanted, found=answer.found, verdict=verdict, why=why
    )


def _of_nodes(
    name: str, value: str, plan: EnvironmentPlan, part: int, holds: Callable[[str], bool]
) -> ConstraintResult:
    """Compare the os-release of the nodes in all pools. `part` is 0 for ID or 1 for VERSION_ID."""
    systems = [pool.cloud_nodes.os_release for pool in plan.pools]
    values = [system[part] if system is not None else None for system in systems]
    known = sorted({one for one in values if one is not None})
    if any(not holds(one) for one in known):
        verdict, why = Verdict.NOT_MET, ""
    elif len(known) == 0 or None in values:
        verdict, why = Verdict.UNKNOWN, "the stack file does not declare the operating system of the nodes"
    else:
        verdict, why = Verdict.MET, ""
    return ConstraintResult(
        constraint=name, wanted=value, found=", ".join(known) or "unknown", verdict=verdict, why=why
    )


def _parsed(expression: str) -> tuple[str, str]:
    """Return the operator and the operand of a constraint. The default operator is `==`."""
    text = expression.strip()
    sign = next((one for one in _OPERATORS if text.startswith(one)), "")
    return sign or "==", text.removeprefix(sign).strip()


def _compared(found: str, sign: str, wanted: str) -> bool:
    """Compare two values as versions if both are versions. Otherwise, check only whether they are equal."""
    if re.fullmatch(r"v?\d+(\.\d+)*", found) and re.fullmatch(r"v?\d+(\.\d+)*", wanted):
        return _OPERATORS[sign](_padded(found), _padded(wanted))
    return sign in ("==", ">=", "<=") if found == wanted else sign == "!="


def _padded(version: str) -> tuple[int, ...]:
    numbers = version_numbers(version)
    return (*numbers, *(0 for _ in range(4 - len(numbers))))

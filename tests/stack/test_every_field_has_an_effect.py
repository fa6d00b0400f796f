"""Each field of the stack file changes the plan or is refused, on every provider. No field is silently ignored."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.planning import Plan
from gpu_platform.stack import CONFIG_KEY, Environment, TeamStack, parse_platform
from gpu_platform.stack.loaded import plan_platform
from tests.stack.field_cases import ONLY_CHECKED, PROVIDERS
from tests.stack.field_changes import stack_for, table_key, values_for
from tests.stack.stack_fields import Field, changed, fields_of, get, place_of, place_text

pytestmark = pytest.mark.xdist_group("fields")  # these tests run in one worker, which caches the plans

Platform = dict[str, Any]
Place = tuple[str | int, ...]
Outcome = Plan | tuple[Problem, ...]
"""The plan, or the problems that prevent it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The effect of changing one field.

    `effect` is `changed`, `refused` or `inert`. `wrong` is the test's error message, if there is one.
    """

    path: str
    effect: str
    wrong: str = ""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_field_changes_the_plan_or_is_refused(provider: str) -> None:
    wrong = [finding.wrong for finding in _findings(provider) if finding.wrong]
    assert not wrong, f"on provider {provider}:\n" + "\n".join(wrong)


def test_a_field_of_a_team_stack_changes_the_plan_or_is_refused(tmp_path: Path) -> None:
    wrong = [finding.wrong for finding in _team_findings(tmp_path) if finding.wrong]
    assert not wrong, "in a team stack:\n" + "\n".join(wrong)


def test_no_field_is_refused_on_every_provider() -> None:
    effects: dict[str, set[str]] = {}
    for provider in PROVIDERS:
        for finding in _findings(provider):
            effects.setdefault(finding.path, set()).add(finding.effect)
    assert [path for path, found in effects.items() if found == {"refused"} and path not in ONLY_CHECKED] == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_equal_stacks_have_equal_plans(provider: str) -> None:
    stack = json.dumps(stack_for("pools", provider))
    assert _outcome(json.loads(stack)) == _plan_once(stack)


def test_parts_of_a_plan_are_compared_by_what_they_have() -> None:
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith("gpu_platform.planning.")]
    found = {one for names in modules for one in names.values() if isinstance(one, type) and is_dataclass(one)}
    parts = {one for one in found if one.__name__.endswith("Plan")}
    assert len(parts) > 50
    assert [one.__name__ for one in parts if one.__eq__ is object.__eq__] == []


@cache
def _findings(provider: str) -> tuple[Finding, ...]:
    return tuple(
        _finding(field, stack_for(field.path, provider), provider, _outcome)
        for field in fields_of(Environment)
        if not field.path.startswith("cluster") or field.path.startswith(f"cluster({provider}).")
    )


def _team_findings(folder: Path) -> Iterator[Finding]:
    for field in fields_of(TeamStack):
        environment = stack_for(table_key(field.path), "sandbox")
        declared: dict[str, Any] = environment.pop("teams")[0]
        team = {
            "kind": "team",
            "environment": {"stack": "here"},
            "team": declared,
            **({"policy": environment.pop("policy")} if "policy" in environment else {}),
        }
        if environment.get("queueing") is not None:
            units = ("gpus", "shared", "mig", "mig_shared", "devices")
            kept = {key: one for key, one in declared["quota"].items() if key in units}
            environment["queueing"] = {**environment["queueing"], "reserve": kept}
            environment["pools"][0]["count"] = {
                "desired": 4
            }  # more GPUs than the quota, so that the team can borrow GPUs
        elsewhere = {**environment, "cluster": {"provider": "sandbox", "name": "elsewhere"}}
        for name, platform in (("here", environment), ("elsewhere", elsewhere)):
            text = yaml.safe_dump({"config": {CONFIG_KEY: platform}})
            (folder / f"Pulumi.{name}.yaml").write_text(text, "utf-8")
        yield _finding(field, team, "sandbox", lambda platform: _outcome(platform, folder))


def _finding(field: Field, stack: Platform, provider: str, plan: Callable[[Platform], Outcome]) -> Finding:
    place = place_of(field.path, stack)
    before = _plan_once(json.dumps(stack)) if plan is _outcome else plan(stack)
    key = table_key(field.path)
    if isinstance(before, tuple) and any(_is_about(problem, place) for problem in before):
        return Finding(field.path, "refused")
    if isinstance(before, tuple) and key not in ONLY_CHECKED:
        return Finding(field.path, "inert", f"{field.path}: its stack is refused: {_told(before)}")
    values = values_for(field, get(stack, place), provider)
    if isinstance(values, str):
        return Finding(field.path, "inert", values)
    found = get(stack, place)
    effects: list[str] = []
    for value in values:
        platform = changed(stack, place, value)
        after = plan(platform)
        told = f"{field.path}: {json.dumps(found)} changed to {json.dumps(value)}"
        if not _is_well_formed(platform):
            return Finding(field.path, "inert", f"{told} is not valid; use another value")
        effects.append(_effect(place, before, after, only_checked=key in ONLY_CHECKED))
        if effects[-1] == "elsewhere":
            assert isinstance(after, tuple)
            return Finding(
                field.path,
                "inert",
                f"{told} is refused because of another field; use another value: {_told(after)}",
            )
        # If the field is unset, one of the options equals the value that the program chooses.
        allowed = 1 if field.options and found is None and field.default is None else 0
        if effects.count("inert") > allowed:
            return Finding(field.path, "inert", f"{told} changes nothing in the plan and is not refused")
    effect = next((one for one in ("changed", "refused") if one in effects), "inert")
    return Finding(field.path, effect, f"{field.path} has no effect" if effect == "inert" else "")


def _effect(place: Place, before: Outcome, after: Outcome, *, only_checked: bool) -> str:
    if only_checked:
        return "inert" if isinstance(before, tuple) == isinstance(after, tuple) else "changed"
    if not isinstance(after, tuple):
        return "inert" if after == before else "changed"
    return "refused" if any(_is_about(problem, place) for problem in after) else "elsewhere"


def _is_well_formed(platform: Platform) -> bool:
    try:
        parse_platform(platform, "stack")
    except BadInput:
        return False
    return True


def _is_about(problem: Problem, place: Place) -> bool:
    """Return whether a problem is about the field, about a field below it, or about the object that contains the
    field.
    """
    path, told = place_text(place), problem.path
    if told == path or told.startswith((f"{path}.", f"{path}[")):
        return True
    owner = re.sub(r"\.(type|mode)$", "", told)
    return ("." in owner or "[" in owner) and path.startswith((f"{owner}.", f"{owner}["))


@cache
def _plan_once(platform: str) -> Outcome:
    """Return the cached outcome of an unchanged stack, because many fields are changed in the same stack."""
    return _outcome(json.loads(platform))


def _outcome(platform: Platform, folder: Path | None = None) -> Outcome:
    """Return the plan, or the problems that prevent it. The plan omits the decisions and each pool's capacity and
    placement, because these copy the stack file.
    """
    try:
        plan = plan_platform(platform, "stack", folder=folder)
    except BadInput as error:
        return error.problems
    if plan.kind == "team":
        return replace(plan, decisions=())
    pools = tuple(replace(pool, capacity={}, placement="") for pool in plan.pools)
    return replace(plan, decisions=(), pools=pools)


def _told(problems: tuple[Problem, ...]) -> str:
    return "; ".join(str(problem) for problem in problems)

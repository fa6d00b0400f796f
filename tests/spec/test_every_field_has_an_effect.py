"""Every field of the stack file reaches the plan or is refused, on every provider; none is accepted in silence."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.errors import BadInput, Problem
from gpu_platform.planning.json_form import plan_to_json
from gpu_platform.spec import CONFIG_KEY, Environment, TeamStack, parse_platform
from gpu_platform.stacks import plan_platform
from tests.spec.field_cases import ALTERNATIVES, CONTEXTS, ONLY_CHECKED, PROVIDERS, STACKS, resolved
from tests.spec.stack_fields import Field, changed, fields_of, get, place_of, place_text

Platform = dict[str, Any]
Place = tuple[str | int, ...]
Outcome = str | tuple[Problem, ...]
"""The plan as JSON, or why there is none."""

_OTHER_VARIANT: Mapping[str, Any] = {
    "type": {"type": "spot"},
    "mode": {"mode": "time-slicing", "replicas": 4},
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What changing one field did. `effect`: changed, refused, or inert; `wrong`: what the test has to say."""

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


@cache
def _findings(provider: str) -> tuple[Finding, ...]:
    return tuple(
        _finding(field, _stack(field.path, provider), provider, _outcome)
        for field in fields_of(Environment)
        if not field.path.startswith("cluster") or field.path.startswith(f"cluster({provider}).")
    )


def _team_findings(folder: Path) -> Iterator[Finding]:
    for field in fields_of(TeamStack):
        environment = _stack(_key(field.path), "sandbox")
        team = {
            "kind": "team",
            "environment": {"stack": "here"},
            "team": environment.pop("teams")[0],
            **({"policy": environment.pop("policy")} if "policy" in environment else {}),
        }
        elsewhere = {**environment, "cluster": {"provider": "sandbox", "name": "elsewhere"}}
        for name, platform in (("here", environment), ("elsewhere", elsewhere)):
            text = yaml.safe_dump({"config": {CONFIG_KEY: platform}})
            (folder / f"Pulumi.{name}.yaml").write_text(text, "utf-8")
        yield _finding(field, team, "sandbox", lambda platform: _outcome(platform, folder))


def _stack(path: str, provider: str) -> Platform:
    """Return the provider's stack with the context of a field."""
    platform: Platform = copy.deepcopy(dict(STACKS[provider]))
    key = _key(path)
    for place, context in sorted(CONTEXTS.items(), key=lambda item: len(item[0])):
        if key == place or key.startswith((f"{place}.", f"{place}[", f"{place}(", f"{place}{{")):
            for where, value in resolved(context, provider).items():
                platform = changed(platform, place_of(where, platform), resolved(value, provider))
    if path.startswith("sharing{}"):
        platform["sharing"] = {"named": platform["pools"][0].get("sharing", {"mode": "none"})}
        platform["pools"][0]["sharing"] = "named"
    return platform


def _key(path: str) -> str:
    """Return under which path the tables have a field: a named sharing is a pool's, a team stack's team a team."""
    return re.sub(r"^team\.", "teams[].", path).replace("sharing{}", "pools[].sharing")


def _finding(field: Field, stack: Platform, provider: str, plan: Callable[[Platform], Outcome]) -> Finding:
    place = place_of(field.path, stack)
    before = plan(stack)
    key = _key(field.path)
    if isinstance(before, tuple) and any(_is_about(problem, place) for problem in before):
        return Finding(field.path, "refused")
    if isinstance(before, tuple) and key not in ONLY_CHECKED:
        return Finding(field.path, "inert", f"{field.path}: its stack is refused: {_told(before)}")
    values = _values(field, get(stack, place), provider)
    if isinstance(values, str):
        return Finding(field.path, "inert", values)
    found = get(stack, place)
    effects: list[str] = []
    for value in values:
        platform = changed(stack, place, value)
        after = plan(platform)
        told = f"{field.path}: {json.dumps(found)} changed to {json.dumps(value)}"
        if not _is_well_formed(platform):
            return Finding(field.path, "inert", f"{told} is not valid; give another")
        effects.append(_effect(place, before, after, only_checked=key in ONLY_CHECKED))
        if effects[-1] == "elsewhere":
            assert isinstance(after, tuple)
            return Finding(field.path, "inert", f"{told} is refused elsewhere; give another: {_told(after)}")
        # Where nothing is set, one of the options is what the platform would choose.
        allowed = 1 if field.options and found is None and field.default is None else 0
        if effects.count("inert") > allowed:
            return Finding(field.path, "inert", f"{told} changes nothing in the plan, and is not refused")
    effect = next((one for one in ("changed", "refused") if one in effects), "inert")
    return Finding(field.path, effect, f"{field.path} reaches nothing" if effect == "inert" else "")


def _effect(place: Place, before: Outcome, after: Outcome, *, only_checked: bool) -> str:
    if only_checked:
        return "inert" if isinstance(before, tuple) == isinstance(after, tuple) else "changed"
    if not isinstance(after, tuple):
        return "inert" if after == before else "changed"
    return "refused" if any(_is_about(problem, place) for problem in after) else "elsewhere"


def _values(field: Field, found: Any, provider: str) -> list[Any] | str:
    """Return what a field is changed to; or what the tables lack."""
    if field.variant is not None:
        kind = "mode" if "sharing" in field.path else "type"
        default = {"mode": "none", "type": "on-demand"}[kind]
        if field.variant == default:
            return [_OTHER_VARIANT[kind]]
        if not isinstance(found, Mapping) or field.variant != found[kind]:
            return f"{field.path}: give a context that has it (tests/spec/field_cases.py)"
        return [{kind: default}]
    values = resolved(ALTERNATIVES.get(_key(field.path)), provider)
    if values is not None:
        return values
    current = field.default if found is None else found
    if field.options:
        return [option for option in field.options if option is not current and option != current]
    if isinstance(current, int | float):
        return [current + 1]
    return f"{field.path}: give an alternative for it (tests/spec/field_cases.py)"


def _is_well_formed(platform: Platform) -> bool:
    try:
        parse_platform(platform, "stack")
    except BadInput:
        return False
    return True


def _is_about(problem: Problem, place: Place) -> bool:
    """Return whether a refusal names the field, something below it, or the part of a pool that it is in."""
    path, told = place_text(place), problem.path
    if told == path or told.startswith((f"{path}.", f"{path}[")):
        return True
    owner = re.sub(r"\.(type|mode)$", "", told)
    return "." in owner and path.startswith((f"{owner}.", f"{owner}["))


def _outcome(platform: Platform, folder: Path | None = None) -> Outcome:
    """Return the plan without what repeats the stack file: the reasons, and a pool's capacity and placement."""
    try:
        plan = plan_to_json(plan_platform(platform, "stack", folder=folder))
    except BadInput as error:
        return error.problems
    del plan["decisions"]
    for pool in plan.get("pools", ()):
        del pool["capacity"], pool["placement"]
    return json.dumps(plan, sort_keys=True)


def _told(problems: tuple[Problem, ...]) -> str:
    return "; ".join(str(problem) for problem in problems)

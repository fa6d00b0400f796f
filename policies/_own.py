"""Loads company rules: Python modules that a stack file names and that are not part of the policy pack."""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, cast

from gpu_platform.base.errors import BadInput, Problem
from policies._rule import Rule

OWN_ID: Final = r"^[a-z0-9-]+(\.[a-z0-9-]+)+$"
"""Pattern for ids of company rules. They have a prefix and a dot, so that they never equal the id of a rule in the
pack.
"""
_LIST = "RULES"
_WRONG = "own rules"


def own_rules(modules: Sequence[str]) -> tuple[Rule[Any, Any], ...]:
    """Return the rules of the modules, in order. Raises one BadInput that lists all problems, each at its path
    `own_rules[i]`.
    """
    problems: list[Problem] = []
    found: dict[str, Rule[Any, Any]] = {}
    for index, module in enumerate(modules):
        path = f"own_rules[{index}]"
        try:
            loaded = _load(module)
        except BadInput as error:
            problems += [Problem(path, one.found, one.allowed, one.fix) for one in error.problems]
            continue
        for rule in loaded:
            if rule.id in found:
                problems.append(
                    Problem(path, f"rule {rule.id!r} again", "each id once", "rename one of the rules")
                )
            found[rule.id] = rule
    if problems:
        raise BadInput(_WRONG, problems)
    return tuple(found.values())


def _fix(module: str, error: Exception, *, missing: bool) -> str:
    name = re.sub(r"[/\\\\]", ".", module.removesuffix(".py")).strip(".")
    if name != module:
        return f"write {name}, which is the name of the module, not of its file"
    if missing:
        return "install it in the environment of gpu-platform, or put the file in the project's root folder"
    own = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.endswith(".py")]
    inside = [one for one in own if one.filename != __file__ and "importlib" not in one.filename]
    if isinstance(error, SyntaxError):
        return f"correct line {error.lineno} of {error.filename}"
    return f"correct line {inside[0].lineno} of {inside[0].filename}: {inside[0].line}" if inside else "correct it"


@cache
def _load(module: str) -> tuple[Rule[Any, Any], ...]:
    """Return the rules of a module. Any error during its import is reported as an error of the module."""
    allowed = f"a module with {_LIST}, a tuple of policies.api.Rule"
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        found = f"no module {module!r}" if missing else f"module {module!r} raises {type(error).__name__}: {error}"
        raise BadInput(_WRONG, [Problem("", found, allowed, _fix(module, error, missing=missing))]) from None
    rules: object = getattr(loaded, _LIST, None)
    if not isinstance(rules, (tuple, list)):
        raise BadInput(_WRONG, [Problem("", f"{module} has no {_LIST}", allowed, f"write {_LIST} = (rule, ...)")])
    problems: list[Problem] = []
    for rule in cast("Sequence[object]", rules):
        if not isinstance(rule, Rule):
            problems.append(Problem("", f"{rule!r} in {module}.{_LIST}", allowed, "remove it"))
        elif not re.fullmatch(OWN_ID, rule.id):
            wanted = "an id with a prefix of your own, such as acme.image-registry"
            problems.append(Problem("", f"id {rule.id!r} in {module}", wanted, "rename the rule"))
    if problems:
        raise BadInput(_WRONG, problems)
    return tuple(cast("Sequence[Rule[Any, Any]]", rules))

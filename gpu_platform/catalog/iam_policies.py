"""AWS IAM policies, which are the YAML files in `iam/`.

A policy is a list of statements. A name in braces, such as `{region}`, stands for a value of the stack. If the
value is a list, the list replaces the whole string, as in `resources: "{keys}"`. A statement whose list of
resources is empty is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

_VALUE = re.compile(r"\{(\w+)\}")

Values = Mapping[str, str | Sequence[str]]


class _Statement(BaseModel):
    """One statement, with the keys of IAM's policy language in lower case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effect: Literal["Allow", "Deny"] = "Allow"
    principal: str | Mapping[str, str] | None = None
    actions: str | list[str]
    resources: str | list[str]
    conditions: Mapping[str, Mapping[str, str | list[str]]] | None = None


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: list[str]
    read: Any
    policies: Mapping[str, list[_Statement]]


def iam_statements(policy: str, values: Values) -> tuple[dict[str, Any], ...]:
    """Return the statements of a policy as IAM expects them, with the values of a stack.

    Raises KeyError if the policy is unknown or needs a value that is missing.
    """
    return tuple(
        _written(statement, values)
        for statement in _policies()[policy]
        if _filled(statement.resources, values) != []
    )


def iam_policy(policy: str, values: Values) -> dict[str, Any]:
    """Return a policy document. Raises KeyError like `iam_statements`."""
    return {"Version": "2012-10-17", "Statement": list(iam_statements(policy, values))}


@cache
def _policies() -> Mapping[str, list[_Statement]]:
    folder = resources.files("gpu_platform.catalog") / "iam"
    texts = (file.read_text() for file in sorted(folder.iterdir(), key=str) if file.name.endswith(".yaml"))
    files = [_File.model_validate(yaml.load(text, Loader=yaml.CSafeLoader)) for text in texts]
    return {name: statements for file in files for name, statements in file.policies.items()}


def _written(statement: _Statement, values: Values) -> dict[str, Any]:
    written: dict[str, Any] = {"Effect": statement.effect}
    if statement.principal is not None:
        written["Principal"] = statement.principal
    written["Action"] = statement.actions
    written["Resource"] = _filled(statement.resources, values)
    if statement.conditions is not None:
        written["Condition"] = {
            operator: {_text(key, values): _filled(value, values) for key, value in required.items()}
            for operator, required in statement.conditions.items()
        }
    return written


def _filled(declared: str | list[str], values: Values) -> str | list[str]:
    """Return a declared string or list with the stack's values inserted."""
    if isinstance(declared, list):
        return [_text(item, values) for item in declared]
    whole = _VALUE.fullmatch(declared)
    value = values[whole[1]] if whole is not None else _text(declared, values)
    return value if isinstance(value, str) else list(value)


def _text(text: str, values: Values) -> str:
    return _VALUE.sub(lambda found: str(values[found[1]]), text)

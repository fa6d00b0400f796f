"""Docstrings of model fields, for the JSON Schema.

With `use_attribute_docstrings`, pydantic would read the docstrings of each class when the class is imported. That
would take a third of the import time of all models. This module reads them only when a schema is requested.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel


@cache
def field_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstrings of the annotated fields of a model and its base classes, by field name."""
    found: dict[str, str] = {}
    # pyrefly: ignore[partially-unknown-type] - pyrefly cannot infer the types of the classes
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            found |= _of_module(cls.__module__).get(cls.__qualname__, {})
    return found


def field_description(model: type[BaseModel], name: str) -> str:
    """Return the description that a model's field declares, or else its docstring, or an empty string."""
    return model.model_fields[name].description or field_docstrings(model).get(name, "")


@cache
def _of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """Return the field docstrings of all classes in a module, by the qualified name of the class."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except OSError:  # the module has no source file
        return {}
    return {qualified: dict(_docstrings(node)) for qualified, node in _classes(tree, "")}


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")


def _docstrings(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, following in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(following.value.value)

"""The `__init__.py` files of the planning packages export the functions that the planner calls."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from gpu_platform import planning

FOLDER = Path(planning.__file__).parent
PLANNED = (
    "cluster",
    "cost",
    "dra",
    "maintenance",
    "monitoring",
    "operator",
    "policy",
    "pools",
    "requirements",
    "sharing",
    "storage",
    "teams",
    "validation",
)
CHECKED = ("cluster", "compute_classes", "dra", "maintenance", "operator", "pools", "storage", "teams")
OF_CONTEXT = (
    "cluster",
    "dra",
    "expectations",
    "monitoring",
    "operator",
    "pools",
    "requirements",
    "sharing",
    "teams",
)
PACKAGES = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))


@pytest.mark.parametrize(
    ("package", "function"),
    [*((name, "plan") for name in (*PLANNED, "expectations")), *((name, "check") for name in CHECKED)],
)
def test_a_package_exports_the_functions_that_decide(package: str, function: str) -> None:
    module = importlib.import_module(f"gpu_platform.planning.{package}")
    exported = getattr(module, function)
    assert inspect.isfunction(exported)
    assert function in module.__all__
    if package in OF_CONTEXT:
        assert next(iter(inspect.signature(exported).parameters)) == "context"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_first_sentence_of_a_package_says_what_it_decides(package: str) -> None:
    text = importlib.import_module(f"gpu_platform.planning.{package}").__doc__ or ""
    assert text.startswith("Decide ")


def test_the_planner_calls_packages_and_not_their_modules() -> None:
    imported = [
        node.module
        for node in ast.walk(ast.parse((FOLDER / "planner.py").read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpu_platform.planning.")
    ]
    below = {name for name in imported if name is not None and name.count(".") > 2}
    sections = {name for name in below if name.endswith(".section")}
    assert below - sections == {"gpu_platform.planning.clouds.registry"}

"""Each operator of the mutation tool changes what it should, and nothing that is no behaviour."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants import mutants_of

ROOT = Path(__file__).parents[2]


def changed(source: str, operator: str) -> set[str]:
    """Return the whole sources that an operator makes of a source."""
    encoded = source.encode()
    return {one.apply(encoded).decode() for one in mutants_of("m.py", encoded) if one.operator == operator}


@pytest.mark.parametrize(
    ("operator", "source", "mutated"),
    [
        ("comparison", "a == b", {"(a != b)"}),
        ("comparison", "a < b", {"(a <= b)", "(a >= b)"}),
        ("comparison", "a >= b", {"(a > b)", "(a < b)"}),
        ("comparison", "a in b", {"(a not in b)"}),
        ("comparison", "a is not b", {"(a is b)"}),
        ("comparison", "0 <= a < 9", {"(0 < a < 9)", "(0 > a < 9)", "(0 <= a <= 9)", "(0 <= a >= 9)"}),
        ("and-or", "a and b and c", {"(a or b or c)"}),
        ("and-or", "not (a or b)", {"not ((a and b))"}),
        ("arithmetic", "a + b * c", {"(a - b * c)", "a + (b // c)"}),
        ("negation", "x = 1 if a else 2", {"x = 1 if (not (a)) else 2"}),
        ("negation", "if a and b:\n    c()", {"if (not (a and b)):\n    c()"}),
        ("negation", "[a for a in b if c]", {"[a for a in b if (not (c))]"}),
        ("negation", "not a", {"(bool(a))"}),
        ("constant", "x = 5", {"x = 6", "x = (4)"}),
        ("constant", "x = True", {"x = False"}),
        ("constant", "x = 0.5", {"x = 2.0"}),
        ("key", "{'a': 'b', **c}", {"{'a-mutated': 'b', **c}"}),
        ("key", "a['b']", {"a['b-mutated']"}),
        ("key", "a.get('b', 'c')", {"a.get('b-mutated', 'c')"}),
        ("key", "a == 'b'", {"a == 'b-mutated'"}),
        ("return-none", "def f():\n    return a", {"def f():\n    return None"}),
        ("drop-statement", "a.append(b)", {"pass"}),
        ("drop-statement", "a += 1", {"pass"}),
        ("drop-statement", "a.b = 1", {"pass"}),
        ("drop-statement", "raise A", {"pass"}),
        ("drop-statement", "def f():\n    yield a", {"def f():\n    yield from ()"}),
    ],
)
def test_an_operator_changes_one_place_in_its_way(operator: str, source: str, mutated: set[str]) -> None:
    assert changed(source, operator) == mutated


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring with 1 == 2."""',
        "x: Literal[1, 'a']",
        "def f(a: Literal[1] | None) -> Literal['b']: ...",
        "@lru_cache(maxsize=256)\ndef f(): ...",
        "if TYPE_CHECKING:\n    a = 1",
        "print_ = f'{a == 1:>{5}}'",
        "raise_ = 'a message' + name",
        "def f():\n    return",
        "def f():\n    return None",
        "x = y",
    ],
)
def test_what_is_no_behaviour_has_no_mutant(source: str) -> None:
    assert mutants_of("m.py", source.encode()) == []


def test_a_mutant_has_its_place_and_both_lines() -> None:
    source = "x = y\nif é:  # a comment\n    y = 'ü', a < b\n".encode()
    [mutant] = [one for one in mutants_of("m.py", source) if one.replacement == "(a <= b)"]
    assert (mutant.path, mutant.line, mutant.operator) == ("m.py", 3, "comparison")
    assert mutant.before.endswith(", a < b")
    assert mutant.after.endswith(", (a <= b)")
    assert mutant.apply(source).endswith(b", (a <= b)\n")


def test_every_mutant_of_a_real_module_is_another_program() -> None:
    source = (ROOT / "gpu_platform" / "planning" / "cost" / "cost.py").read_bytes()
    mutants = mutants_of("cost.py", source)
    assert len(mutants) > 20
    assert len({mutant.id for mutant in mutants}) == len(mutants)
    original = ast.dump(ast.parse(source))
    assert all(ast.dump(ast.parse(mutant.apply(source))) != original for mutant in mutants)

"""Mutants of a Python module: small changes of its code, each of which some test should notice.

A mutant replaces one span of the source text, so that all other lines stay as they are. Left alone, since a change
there is no change of behaviour: annotations, docstrings, decorators, `if TYPE_CHECKING`, and the texts of messages
(constants are changed where they are numbers, booleans, keys or compared).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_KEYED = ("get", "pop", "setdefault", "startswith", "endswith")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file. `start`, `end`: the replaced bytes of the source; `line`: counted from 1."""

    path: str
    line: int
    operator: str
    start: int
    end: int
    replacement: str
    before: str
    after: str

    @property
    def id(self) -> str:
        """Return a name that is the same in every run on the same source."""
        return f"{self.path}:{self.line}:{self.start}:{self.operator}:{self.replacement}"

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a module, in the order of its text; `path` only names it."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: dict[str, Mutant] = {}
    for node, operator, replacement in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = lines[node.lineno - 1].decode().strip()
        whole = (
            source[starts[node.lineno - 1] : start] + replacement.encode() + source[end : starts[node.end_lineno]]
        )
        mutant = Mutant(path, node.lineno, operator, start, end, replacement, before, whole.decode().strip())
        found[mutant.id] = mutant
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.operator, mutant.replacement))


_Change = tuple[ast.expr | ast.stmt, str, str]


def _changes(tree: ast.AST) -> Iterator[_Change]:
    for node in _mutable(tree):
        for operator in _OPERATORS:
            yield from operator(node)


def _mutable(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes whose change is a change of behaviour, from the outside in."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "format_spec"}:
            continue
        children: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
        for child in children:
            # Python 3.11 gives wrong places for what is inside an f-string.
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr) and not _is_for_types(child):
                yield from _mutable(child)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


# -- operators: each yields what to write instead of a node -------------------------------------------------


def _comparison(node: ast.AST) -> Iterator[_Change]:
    if not isinstance(node, ast.Compare):
        return
    for index, sign in enumerate(node.ops):
        for other in _COMPARISONS[type(sign)]:
            changed = copy.copy(node)
            changed.ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield node, "comparison", _expression(changed)


def _and_or(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, "and-or", _expression(ast.BoolOp(other, node.values))


def _arithmetic(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        yield node, "arithmetic", _expression(ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right))


def _is_text(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        for one in ast.walk(node)
    )


def _negation(node: ast.AST) -> Iterator[_Change]:
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        if not isinstance(test, ast.UnaryOp | ast.Compare):  # changed by the other operators
            yield test, "negation", f"(not {_expression(test)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, "negation", f"(bool({ast.unparse(node.operand)}))"


def _constant(node: ast.AST) -> Iterator[_Change]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield node, "constant", str(not node.value)
    elif isinstance(node.value, int):
        yield node, "constant", str(node.value + 1)
        yield node, "constant", f"({node.value - 1})"
    elif isinstance(node.value, float):
        yield node, "constant", str(node.value * 2 + 1)


def _key(node: ast.AST) -> Iterator[_Change]:
    keys: Sequence[ast.expr | None] = []
    if isinstance(node, ast.Dict):
        keys = node.keys
    elif isinstance(node, ast.Subscript):
        keys = [node.slice]
    elif isinstance(node, ast.Compare):
        keys = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEYED:
        keys = node.args[:1]
    for key in keys:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key, "key", repr(f"{key.value}-mutated")


def _return(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield node, "return-none", "return None"


def _dropped(node: ast.AST) -> Iterator[_Change]:
    is_call = isinstance(node, ast.Expr) and isinstance(
        node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom
    )
    is_write = isinstance(node, ast.AugAssign | ast.Delete) or (
        isinstance(node, ast.Assign)
        and all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    )
    if is_call or is_write or isinstance(node, ast.Raise | ast.Continue | ast.Break):
        assert isinstance(node, ast.stmt)
        # A generator that yields nowhere else would be no generator any more.
        yields = isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom)
        yield node, "drop-statement", "yield from ()" if yields else "pass"


def _expression(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


_OPERATORS: tuple[Callable[[ast.AST], Iterator[_Change]], ...] = (
    _comparison,
    _and_or,
    _arithmetic,
    _negation,
    _constant,
    _key,
    _return,
    _dropped,
)

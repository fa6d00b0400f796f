"""Reads from the syntax tree which variables and functions a CEL expression uses.

The CEL library returns a tree only as bytes, a `cel.expr.ParsedExpr` in a `google.protobuf.Any`, and no package on
PyPI has Python classes for it. The messages below are defined in google/cel-spec, proto/cel/expr/syntax.proto
(read 2026-11-22). Fields that this module does not read are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

_Path = tuple[str, ...]
_Message = Any  # an instance of a class that is created at run time

# Fields by message. Exactly one field of Expr and of Constant is set.
_MESSAGES: Final = {
    "ParsedExpr": {"expr": (2, "Expr")},
    "Expr": {
        "const_expr": (3, "Constant"),
        "ident_expr": (4, "Ident"),
        "select_expr": (5, "Select"),
        "call_expr": (6, "Call"),
        "list_expr": (7, "List"),
        "struct_expr": (8, "Struct"),
        "comprehension_expr": (9, "Comprehension"),
    },
    "Constant": {
        "null_value": (1, "int64"),
        "bool_value": (2, "bool"),
        "int64_value": (3, "int64"),
        "uint64_value": (4, "uint64"),
        "double_value": (5, "double"),
        "string_value": (6, "string"),
        "bytes_value": (7, "bytes"),
    },
    "Ident": {"name": (1, "string")},
    "Select": {"operand": (1, "Expr"), "field": (2, "string"), "test_only": (3, "bool")},
    "Call": {"target": (1, "Expr"), "function": (2, "string"), "args": (3, "Expr*")},
    "List": {"elements": (1, "Expr*")},
    "Struct": {"entries": (2, "Entry*")},
    "Entry": {"map_key": (3, "Expr"), "value": (4, "Expr")},
    "Comprehension": {
        "iter_var": (1, "string"),
        "iter_var2": (8, "string"),
        "iter_range": (2, "Expr"),
        "accu_var": (3, "string"),
        "accu_init": (4, "Expr"),
        "loop_condition": (5, "Expr"),
        "loop_step": (6, "Expr"),
        "result": (7, "Expr"),
    },
}
_INDEX: Final = ("_[_]", "_[?_]", "_?._")
_PARSED_LITERALS: Final = ("duration", "find", "findAll", "matches", "timestamp")


@dataclass(slots=True)
class Usage:
    """The variables, functions and constants that an expression uses.

    `paths` contains every access to a variable. `device.attributes['a'].b` becomes (device, attributes, a, b).
    `whole_device` is true if `device` itself is used as a value, or has() tests one of its fields. `literals`
    contains functions that parse a constant string, each with the string. `mixed` contains the types of the
    constants in each list or map that has several types.
    """

    paths: dict[_Path, None] = field(default_factory=dict[_Path, None])
    whole_device: bool = False
    literals: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    mixed: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])


def usage_of(serialized: bytes) -> Usage:
    """Return the variables, functions and constants that a parsed and serialised expression uses."""
    tree = _parsed_expr().FromString(any_pb2.Any.FromString(serialized).value)
    usage = Usage()
    _visit(tree.expr, {}, usage)
    return usage


def _visit(node: _Message, scope: Mapping[str, _Path], usage: Usage) -> None:
    """Record every variable, function and constant that a tree uses.

    `scope` maps each variable of a macro to the path that it stands for, or to () if it stands for no path.
    """
    path = _path(node, scope)
    if path:
        usage.paths[path] = None
    kind = node.WhichOneof("kind")
    if kind == "ident_expr":
        usage.whole_device = usage.whole_device or path == ("device",)
    elif kind == "select_expr":
        select = node.select_expr
        if select.test_only or _path(select.operand, scope) != ("device",):
            _visit(select.operand, scope, usage)
    elif kind == "call_expr":
        _visit_call(node.call_expr, scope, usage)
    elif kind == "list_expr":
        _visit_values(node.list_expr.elements, scope, usage)
    elif kind == "struct_expr":
        entries = node.struct_expr.entries
        _visit_values([entry.map_key for entry in entries if entry.HasField("map_key")], scope, usage)
        _visit_values([entry.value for entry in entries], scope, usage)
    elif kind == "comprehension_expr":
        loop = node.comprehension_expr
        _visit(loop.iter_range, scope, usage)
        _visit(loop.accu_init, scope, usage)
        # cel.bind(name, value, ...) is parsed as an empty loop whose result is its initial value.
        inner = {**scope, loop.iter_var: (), loop.iter_var2: (), loop.accu_var: _path(loop.accu_init, scope)}
        for part in (loop.loop_condition, loop.loop_step, loop.result):
            _visit(part, inner, usage)


def _visit_call(call: _Message, scope: Mapping[str, _Path], usage: Usage) -> None:
    if call.HasField("target"):
        _visit(call.target, scope, usage)
    for argument in call.args:
        _visit(argument, scope, usage)
    if not call.args:
        return
    # The string that matches() searches may be its first argument instead of its receiver.
    text = _text(call.args[1 if call.function == "matches" and len(call.args) > 1 else 0])
    if call.function in _PARSED_LITERALS and text is not None:
        usage.literals.append((call.function, text))
    if call.function == "@in" and (wanted := _text(call.args[0])) is not None:
        container = _path(call.args[1], scope)
        if container:
            usage.paths[*container, wanted] = None


def _visit_values(values: Iterable[_Message], scope: Mapping[str, _Path], usage: Usage) -> None:
    kinds: dict[str, None] = {}
    for value in values:
        _visit(value, scope, usage)
        if value.WhichOneof("kind") == "const_expr":
            kinds[value.const_expr.WhichOneof("kind").removesuffix("_value").removesuffix("64")] = None
    if len(kinds) > 1:
        usage.mixed.append(tuple(kinds))


def _path(node: _Message, scope: Mapping[str, _Path]) -> _Path:
    """Return the path of an access to a variable, or () for any other value."""
    kind = node.WhichOneof("kind")
    if kind == "ident_expr":
        name = node.ident_expr.name.removeprefix(".")
        return scope.get(name, (name,))
    if kind == "select_expr":
        operand = _path(node.select_expr.operand, scope)
        return (*operand, node.select_expr.field) if operand else ()
    if kind == "call_expr" and node.call_expr.function in _INDEX:
        operand, key = _path(node.call_expr.args[0], scope), _text(node.call_expr.args[1])
        return (*operand, key) if operand and key is not None else ()
    return ()


def _text(node: _Message) -> str | None:
    constant = node.const_expr
    return constant.string_value if constant.WhichOneof("kind") == "string_value" else None


@cache
def _parsed_expr() -> _Message:
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {name: getattr(kinds, f"TYPE_{name.upper()}") for name in _SCALARS}
    file = descriptor_pb2.FileDescriptorProto(name="cel/syntax.proto", package="cel.expr", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        one_of = name in {"Expr", "Constant"}
        if one_of:
            message.oneof_decl.add(name="kind")
        for field_name, (number, kind) in fields.items():
            repeated = kind.endswith("*")
            made = message.field.add(
                name=field_name,
                number=number,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type=scalars.get(kind, kinds.TYPE_MESSAGE),
            )
            if kind not in scalars:
                made.type_name = f".cel.expr.{kind.removesuffix('*')}"
            if one_of:
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyrefly: ignore[partially-unknown-type] - incomplete in protobuf's stubs
    # pyrefly: ignore[partially-unknown-type, unknown-argument-type] - incomplete in protobuf's stubs
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("cel.expr.ParsedExpr"))


_SCALARS: Final = ("bool", "bytes", "double", "int64", "string", "uint64")

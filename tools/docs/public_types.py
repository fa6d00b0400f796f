"""Generates the typed dictionaries of the public components from the models of the stack file."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from components.public._models import DESCRIPTIONS, LEFT_OUT, MODELS, TAGS

_HEAD: Final = '''"""Mappings of the stack file as typed dictionaries.

`python -m tools.docs` generates the dictionaries from the models of the stack file. Each key has the same meaning
and the same checks as in the stack file; see its page in docs/reference. A value that the models accept in two
forms (a number, or a mapping of numbers) is `Any`. Numbers are `float` even if only integers are allowed, because
packaged components receive every number as a float.

The module does not import `annotations` from `__future__`, because the SDK needs the evaluated annotations to
build the package's schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict

import pulumi
'''
_OUTPUTS: Final = {("PlatformCluster", "kubeconfig"), ("PlatformCluster", "subnets"), ("Workload", "image")}
"""Fields that may be Pulumi Outputs. `INPUTS` in components/public/_arguments.py lists them by place."""
_SETTINGS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "Pool": ("PoolSettings", ("name",)),
    "Team": ("TeamSettings", ("name", "queue", "identity")),
}
"""Typed dictionaries that are split into two. The first one contains the settings that are also arguments of the
single component. The second one adds the listed fields, which only a whole platform uses.
"""
_NAMES: Final = {model.__name__: name for name, models in MODELS.items() for model in models}
_SIMPLE: Final = {"boolean": "bool", "integer": "float", "number": "float", "string": "str"}

Schema = Mapping[str, Any]


def module() -> str:
    """Return the source of components/public/stack_file_types.py."""
    return "\n\n".join([_HEAD, *(text for name in _in_order() for text in _classes(name))])


def _in_order() -> Iterator[str]:
    """Yield the names of the typed dictionaries, each after the dictionaries that its fields use."""
    done: set[str] = set()

    def needed(name: str) -> Iterator[str]:
        if name not in done:
            done.add(name)
            for schema in _fields(name).values():
                for other in _named_in(schema):
                    yield from needed(other)
            yield name

    for name in MODELS:
        yield from needed(name)


@cache
def _fields(name: str) -> Mapping[str, Schema]:
    """Return the JSON Schema of each key. In a union, the first model with the key determines its schema."""
    found: dict[str, Schema] = {}
    for model in MODELS[name]:
        for key, schema in model.model_json_schema()["properties"].items():
            found.setdefault(key, schema)
    return {key: schema for key, schema in found.items() if key not in LEFT_OUT.get(name, frozenset())}


def _required(name: str) -> set[str]:
    """Return the keys of a typed dictionary that are required in all its models."""
    each = [
        {field.alias or key for key, field in model.model_fields.items() if field.is_required()}
        for model in MODELS[name]
    ]
    return set.intersection(*each) | ({TAGS[name]} if name in TAGS else set())


def _classes(name: str) -> Iterator[str]:
    fields = _fields(name)
    settings, own = _SETTINGS.get(name, ("", ()))
    if settings:
        shared = [key for key in fields if key not in own]
        yield _class(
            settings,
            f"{name} without its name, and without the fields that apply only to whole platforms.",
            name,
            shared,
        )
        yield _class(name, _description(name), name, own, base=settings)
    else:
        yield _class(name, _description(name), name, list(fields))


def _class(title: str, description: str, name: str, keys: Sequence[str], base: str = "TypedDict") -> str:
    fields, required = _fields(name), _required(name)
    lines = [f"class {title}({base}, total=False):"]
    lines += textwrap.wrap(f'"""{description}"""', 115, initial_indent="    ", subsequent_indent="    ")
    lines.append("")
    for key in keys:
        hint = _hint(fields[key])
        if (name, key) in _OUTPUTS:
            hint = hint.replace("str]", "pulumi.Input[str]]") if "[" in hint else f"pulumi.Input[{hint}]"
        lines.append(f"    {key}: {f'Required[{hint}]' if key in required else hint}")
    return "\n".join(lines) + "\n"


def _description(name: str) -> str:
    if name in DESCRIPTIONS:
        return DESCRIPTIONS[name]
    [model] = MODELS[name]
    paragraph = inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def _forms(schema: Schema) -> Iterator[Schema]:
    """Yield the possible types of a value, without null."""
    for branch in schema.get("anyOf") or schema.get("oneOf") or ():
        yield from _forms(branch)
    if ("type" in schema or "$ref" in schema or "const" in schema) and schema.get("type") != "null":
        yield schema


def _hint(schema: Schema) -> str:
    hints = {_of_form(form) for form in _forms(schema)}
    named = hints & MODELS.keys()
    # The value may be a mapping, or the name of a mapping that the stack file declares elsewhere.
    if named and hints - named == {"str"}:
        hints = named
    hint = hints.pop() if len(hints) == 1 else "Any"
    # Null is allowed only if it differs from the default, as in `finished_after: null`.
    nullable = any(form.get("type") == "null" for form in schema.get("anyOf", ())) and schema.get("default")
    return f"{hint} | None" if nullable else hint


def _of_form(form: Schema) -> str:
    if "$ref" in form:
        return _NAMES.get(form["$ref"].rpartition("/")[2], "Any")
    match form.get("type"):
        case "array":
            return f"Sequence[{_hint(form.get('items', {}))}]"
        case "object":
            return f"Mapping[str, {_hint(_values(form))}]"
        case "boolean" | "string" | "integer" | "number" as kind:
            return _SIMPLE[kind]
        case _:
            return "str" if isinstance(form.get("const"), str) else "Any"


def _values(form: Schema) -> Schema:
    """Return the schema of a mapping's values."""
    values = form.get("additionalProperties") or next(iter(form.get("patternProperties", {}).values()), {})
    return values if isinstance(values, dict) else {}


def _named_in(schema: Schema) -> Iterator[str]:
    """Yield the names of the typed dictionaries in a schema."""
    for form in _forms(schema):
        if name := _NAMES.get(form.get("$ref", "").rpartition("/")[2]):
            yield name
        yield from _named_in(form.get("items", {}))
        yield from _named_in(_values(form))

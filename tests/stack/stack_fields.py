"""Every field of the stack file, read from the models, and functions that read and change fields of a document.

A field's name is its path in the file. If the field has several variants, the name contains the variant:
`pools[].capacity(spot)`, `cluster(eks).create.cidr`, `sharing{}(mig).layout`.
"""

from __future__ import annotations

import copy
import itertools
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

_DISCRIMINATORS = ("kind", "provider", "type", "mode")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the stack file.

    `options` are the values of a Literal or a bool. `variant` is set if the object describes only one variant of
    a field.
    """

    path: str
    default: Any = None
    options: tuple[Any, ...] = ()
    variant: str | None = None


def fields_of(model: type[BaseModel], path: str = "") -> Iterator[Field]:
    """Yield the fields of a model and of its nested models, in the order of the models. Fields that only contain
    other fields are left out.
    """
    for name, info in model.model_fields.items():
        here = f"{path}.{info.alias or name}".removeprefix(".")
        if not (name in _DISCRIMINATORS and _single(info.annotation)):
            yield from _of_type(info.annotation, here, None if info.is_required() else info.default)


def _of_type(annotation: Any, path: str, default: Any = None) -> Iterator[Field]:
    arms = list(_arms(annotation))
    models = [arm for arm in arms if _is_model(arm)]
    for model in models:
        here = f"{path}({_tag(model)})" if len(models) > 1 else path
        if len(models) > 1:
            yield Field(here, variant=_tag(model))
        yield from fields_of(model, here)
    values = [arm for arm in arms if arm not in models and arm is not type(None)]
    for arm in values:
        items = {tuple: "[]", dict: "{}"}.get(get_origin(arm) or arm)
        inner = get_args(arm)[0 if get_origin(arm) is tuple else -1 if get_origin(arm) is dict else 0 :][:1]
        if items and any(_is_model(one) for one in _arms(inner[0])):
            yield from _of_type(inner[0], path + items)
            values = [one for one in values if one is not arm]
    if values:
        yield Field(path, default, tuple(option for arm in values for option in _options(arm)))


def _arms(annotation: Any) -> Iterator[Any]:
    """Yield the types in a union, or the type itself, without their annotations."""
    if get_origin(annotation) is Annotated:
        yield from _arms(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for arm in get_args(annotation):
            yield from _arms(arm)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _options(annotation: Any) -> tuple[Any, ...]:
    if annotation is bool:
        return (True, False)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _single(annotation: Any) -> bool:
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def _tag(model: type[BaseModel]) -> str:
    names = [name for name in _DISCRIMINATORS if name in model.model_fields]
    return next(get_args(model.model_fields[name].annotation)[0] for name in names)


# -- places in a document ---------------------------------------------------------------------------------

_PART = re.compile(r"\.?([^.\[\](){}]+)(?:\([^)]*\))?|(\[\d*\])|(\{\})(?:\([^)]*\))?")


def place_of(path: str, document: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the place of a field in a document. In lists and mappings, the place is in the first entry."""
    place: list[str | int] = []
    value: Any = document
    for key, index, entry in _PART.findall(path):
        part = key or (int(index[1:-1] or 0) if index else next(iter(value), "none") if entry else "")
        place.append(part)
        value = _item(value, part)
    return tuple(place)


def place_text(place: tuple[str | int, ...]) -> str:
    """Return a place in the form that errors use, such as `pools[0].disk.type`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def get(document: Any, place: tuple[str | int, ...]) -> Any:
    """Return the value at a place in a document, or None if the place does not exist."""
    for part in place:
        document = _item(document, part)
    return document


def _item(value: Any, part: str | int) -> Any:
    if isinstance(part, int):
        return value[part] if isinstance(value, list) and part < len(value) else None
    return value.get(part) if isinstance(value, Mapping) else None


def changed(document: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of a document with a different value at a place. None removes the field."""
    result = copy.deepcopy(document)
    holder = result
    for part, following in itertools.pairwise(place):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(part, int) and part == len(holder):
            holder.append(empty)
        elif not isinstance(part, int):
            holder.setdefault(part, empty)
        holder = holder[part]
    last = place[-1]
    if value is None and not isinstance(last, int):
        holder.pop(last, None)
    elif isinstance(last, int) and last == len(holder):
        holder.append(value)
    else:
        holder[last] = value
    return result

"""Refuse the fields of a pool that its cluster's provider does not take, as declared beside them in spec/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpu_platform.planning.problems import Problems
from gpu_platform.spec.declared import On, Provider, declarations, joined
from gpu_platform.spec.pool import Pool


def check_declared_fields(pool: Pool, provider: Provider, problems: Problems) -> None:
    """Record each field, and each value, that the provider does not take; `problems` stands at the pool.

    A field counts where the stack file has it, whatever its value; what is below a refused one is not looked at.
    """
    _check_model(pool, provider, problems)


def _check_model(
    model: BaseModel, provider: Provider, problems: Problems, variants: Sequence[type[BaseModel]] = ()
) -> None:
    """`variants`: the models that may stand in this one's place, where it is one of several."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name not in model.model_fields_set or value is None:
            continue
        here = problems.at(field.alias or name)
        alike = [one.model_fields[name] for one in variants if name in one.model_fields] or [field]
        refusals = [one for one in declarations(field) if _refuses(one, value, provider)]
        for one in refusals:
            here.add(*_refusal(one, field.alias or name, value, _options(alike, provider), provider))
        if not refusals:
            _check_value(value, provider, here, [one for one in _types(field.annotation) if _is_model(one)])


def _check_value(
    value: object, provider: Provider, problems: Problems, variants: Sequence[type[BaseModel]]
) -> None:
    if isinstance(value, BaseModel):
        _check_model(value, provider, problems, variants)
    elif isinstance(value, tuple):
        for index, item in enumerate(cast("tuple[object, ...]", value)):
            _check_value(item, provider, problems.at(f"[{index}]"), ())


def _refuses(one: On, value: object, provider: Provider) -> bool:
    return provider not in one.providers and (not one.values or value in one.values)


def _refusal(
    one: On, name: str, value: object, options: Sequence[str], provider: Provider
) -> tuple[str, str, str]:
    """Return what was found, what is allowed, and the fix."""
    found, subject, allowed = f"{name} on provider {provider}", name, ""
    if one.values:
        found, subject = f"{value!r} on provider {provider}", str(value)
        allowed = f"{joined(options, 'or')}: " if options else ""
    return found, f"{allowed}{subject} only on {one}: {one.because}", one.fix or f"remove {name}"


def _options(fields: Sequence[FieldInfo], provider: Provider) -> list[str]:
    """Return the values that a provider takes of a field, or of the fields of that name in all variants."""
    return [
        str(option)
        for field in fields
        for annotation in _types(field.annotation)
        if get_origin(annotation) is Literal
        for option in get_args(annotation)
        if not any(_refuses(one, option, provider) for one in declarations(field))
    ]


def _types(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - whatever a field is annotated with
    """Yield the types of a union, or the type itself."""
    if get_origin(annotation) is Annotated:
        yield from _types(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for arm in get_args(annotation):
            yield from _types(arm)
    else:
        yield annotation


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)

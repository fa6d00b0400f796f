"""Refuse fields of the stack file that the provider does not support according to the declarations in `stack/`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpu_platform.planning.problems import Problems
from gpu_platform.stack.declared import On, Provider, declarations, joined, refuses


def check_declared_fields(part: BaseModel, provider: Provider, problems: Problems) -> None:
    """Record a problem for each field or value that the provider does not support.

    `problems` points to `part` in the stack file. Only fields that the stack file sets are checked, whatever their
    value. Fields below a refused field are not checked.
    """
    _check_model(part, provider, problems)


def check_declared_field(part: BaseModel, name: str, provider: Provider, problems: Problems) -> None:
    """Record a problem at `problems` if the file sets a field of `part` that the provider does not support."""
    field, value = type(part).model_fields[name], getattr(part, name)
    if name in part.model_fields_set and (one := _refused(field, value, provider)) is not None:
        problems.at(name).add(*_refusal(one, field, name, value, _options([field], provider), provider))


def _refused(field: FieldInfo, value: object, provider: Provider) -> On | None:
    """Return the field's declaration that forbids a value on the provider, or None."""
    return next((one for one in declarations(field) if refuses(one, value, provider)), None)


def _check_model(
    model: BaseModel, provider: Provider, problems: Problems, variants: Sequence[type[BaseModel]] = ()
) -> None:
    """Record a problem for each unsupported field of a model. `variants` are all models of the union that contains
    the model, if any.
    """
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name not in model.model_fields_set or value is None:
            continue
        here = problems.at(field.alias or name)
        refusal = _refused(field, value, provider)
        if refusal is not None:
            alike = [one.model_fields[name] for one in variants if name in one.model_fields] or [field]
            here.add(*_refusal(refusal, field, field.alias or name, value, _options(alike, provider), provider))
        else:
            _check_value(value, provider, here, [one for one in _types(field.annotation) if _is_model(one)])


def _check_value(
    value: object, provider: Provider, problems: Problems, variants: Sequence[type[BaseModel]]
) -> None:
    if isinstance(value, BaseModel):
        _check_model(value, provider, problems, variants)
    elif isinstance(value, tuple):
        for index, item in enumerate(cast("tuple[object, ...]", value)):
            _check_value(item, provider, problems.at(f"[{index}]"), ())


def _refusal(
    one: On, field: FieldInfo, name: str, value: object, options: Sequence[str], provider: Provider
) -> tuple[str, str, str]:
    """Return the refused value, the allowed values and the fix for a problem.

    `options` are the values of the field that the provider supports.
    """
    tells_variant = get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
    if not one.values and not tells_variant:
        return (
            f"{name} on provider {provider}",
            f"{name} only on {one}: {one.because}",
            one.fix or f"remove {name}",
        )
    if not options:  # the provider does not support any variant or value
        return (
            f"{value!r} on provider {provider}",
            f"{value} only on {one}: {one.because}",
            one.fix or "remove the entry",
        )
    fix = f"write {name}: {options[0]}" if tells_variant or field.is_required() else f"remove {name}"
    return (
        f"{value!r} on provider {provider}",
        f"{joined(options, 'or')}; {value} only on {one}: {one.because}",
        one.fix or fix,
    )


def _options(fields: Sequence[FieldInfo], provider: Provider) -> list[str]:
    """Return the values of a field that a provider supports, collected from all variants of its model."""
    return [
        str(option)
        for field in fields
        for annotation in _types(field.annotation)
        if get_origin(annotation) is Literal
        for option in get_args(annotation)
        if not any(refuses(one, option, provider) for one in declarations(field))
    ]


def _types(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - any annotation of a field
    """Yield the members of a union type, or the type itself if it is not a union."""
    origin: Any = get_origin(annotation)
    if origin is Annotated:
        yield from _types(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for arm in get_args(annotation):
            yield from _types(arm)
    else:
        yield annotation


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)

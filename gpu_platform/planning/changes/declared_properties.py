"""Find the fields of the stack file that set a property of a node pool, by their `SetsProperties` annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from gpu_platform.stack.cluster import Cluster, Operator
from gpu_platform.stack.declared import joined, properties_of
from gpu_platform.stack.pool import Pool


def fields_text(platform: str, name: str, pool_path: str) -> str:
    """Return the fields that set a property of a node pool as text, such as `pools[0].image.family or
    image.ami`.
    """
    fields = declared_properties()[platform, name]
    of_pool = [field for field in fields if not field.startswith(("cluster.", "operator."))]
    return joined([f"{pool_path}.{of_pool[0]}", *of_pool[1:]] if of_pool else fields, "or")


def property_of(field: str, platform: str) -> str | None:
    """Return the property that a pool's field sets on a platform, or None."""
    found = declared_properties().items()
    return next((name for (of, name), fields in found if of == platform and field in fields), None)


@cache
def declared_properties() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the fields that set each property, in the order in which the models declare them.

    Each key is a pair of a platform and a property.
    """
    found: dict[tuple[str, str], list[str]] = {}
    of_others = [(cluster, "cluster.") for cluster in _models(Cluster)]
    for model, path in ((Pool, ""), *of_others, (Operator, "operator.")):
        for field, shown in _declared(model, path):
            fields = found.setdefault(shown, [])
            if field not in fields:
                fields.append(field)
    return {shown: tuple(fields) for shown, fields in found.items()}


def _declared(model: type[BaseModel], path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, info in model.model_fields.items():
        place = f"{path}{info.alias or name}"
        yield from ((place, shown) for shown in properties_of(info))
        for inner in _models(info.annotation):
            yield from _declared(inner, f"{place}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - any annotation of a field
    """Yield the models in the type annotation of a field, including models inside a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for inner in get_args(annotation):
            yield from _models(inner)

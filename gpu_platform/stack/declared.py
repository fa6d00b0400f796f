"""Annotations of stack file fields: the providers that support a field, and the node pool properties that it sets.

`gpu_platform/planning/pools/declared_fields.py` refuses a field where its declaration does, and the JSON Schema
names the providers in the field's description. What depends on more than the provider (the machine type, another
field) is checked where it is decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Provider = Literal["sandbox", "existing", "eks", "gke"]
PROVIDER_NAMES: dict[Provider, str] = {
    "sandbox": "the sandbox",
    "existing": "an existing cluster",
    "eks": "EKS",
    "gke": "GKE",
}


@dataclass(frozen=True, slots=True)
class On:
    """The providers that support a field; with `values`: that support these values of it.

    `because`: why the others do not, as the rest of a sentence. `fix`: unset: to remove the field.
    """

    providers: tuple[Provider, ...]
    because: str
    fix: str = ""
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return joined([PROVIDER_NAMES[provider] for provider in self.providers], "and")


@dataclass(frozen=True, slots=True)
class SetsProperties:
    """The node pool properties that a field sets, by platform, using names of the platform's API.

    What a change of a property does to nodes (replaces the pool, rolls or removes nodes) is a fact of the
    platform: catalog/facts/pool_changes.yaml. A platform without a property here changes the field in place.
    """

    eks: tuple[str, ...] = ()
    karpenter: tuple[str, ...] = ()
    gke: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()


ON_CLOUDS = On(("eks", "gke"), "elsewhere the program creates no cloud nodes")


def joined(words: Iterable[str], last: Literal["and", "or"]) -> str:
    """Return words, one at least, as a list in a sentence: `a, b and c`."""
    *rest, end = words
    return f"{', '.join(rest)} {last} {end}" if rest else end


def declarations(field: FieldInfo) -> Iterator[On]:
    """Yield what is declared beside a field about providers."""
    return (one for one in field.metadata if isinstance(one, On))


def properties_of(field: FieldInfo) -> Iterator[tuple[str, str]]:
    """Yield platform and property for each node pool property that a field is declared to set."""
    for one in field.metadata:
        if isinstance(one, SetsProperties):
            for platform in fields(SetsProperties):
                yield from ((platform.name, name) for name in getattr(one, platform.name))


def refuses(declaration: On, value: object, provider: Provider) -> bool:
    """Return whether a provider refuses a value by a declaration."""
    return provider not in declaration.providers and (not declaration.values or value in declaration.values)


def takes(model: type[BaseModel], name: str, value: object, provider: Provider) -> bool:
    """Return whether a provider supports a value of a model's field."""
    return not any(refuses(one, value, provider) for one in declarations(model.model_fields[name]))


def described(field: FieldInfo) -> str:
    """Return what a field's declarations add to its description."""
    texts = [
        f"{', '.join(map(str, one.values))} only on {one}." if one.values else f"Only on {one}."
        for one in declarations(field)
    ]
    return " ".join(texts)


def supporting(description: str) -> str:
    """Return the providers that a description with the text of `described` names, or an empty text."""
    only = re.search(r"(?:^| )Only on ([\w ,]+)\.$", description)
    return only[1] if only is not None else ""

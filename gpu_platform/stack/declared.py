"""Annotations of stack file fields: the providers that support a field, and the node pool properties that it sets.

`gpu_platform/planning/pools/declared_fields.py` refuses a field that the stack's provider does not support, and
the JSON Schema lists the providers in the field's description. Conditions that depend on more than the provider
(the machine type, another field) are checked during planning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Provider = Literal["sandbox", "existing", "eks", "gke", "aks"]
PROVIDER_NAMES: dict[Provider, str] = {
    "sandbox": "the sandbox",
    "existing": "an existing cluster",
    "eks": "EKS",
    "gke": "GKE",
    "aks": "AKS",
}
PROVIDER_ALIASES: dict[Provider, tuple[str, ...]] = {
    "eks": ("aws", "amazon", "ec2"),
    "gke": ("gcp", "google"),
    "aks": ("azure", "microsoft"),
    "sandbox": ("local", "kind", "minikube", "k3s"),
    "existing": ("kubernetes", "k8s", "on-prem", "onprem", "kubeconfig"),
}
"""Other names that users type for a provider."""


@dataclass(frozen=True, slots=True)
class On:
    """The providers that support a field, or only certain `values` of the field.

    `because` is the reason why other providers do not support the field or the values, written as the end of a
    sentence. `fix` is what to do instead. If `fix` is empty, the field must be removed.
    """

    providers: tuple[Provider, ...]
    because: str
    fix: str = ""
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return joined([PROVIDER_NAMES[provider] for provider in self.providers], "and")


@dataclass(frozen=True, slots=True)
class SetsProperties:
    """The node pool properties that a field sets, by platform, with their names in the platform's API.

    catalog/facts/pool_changes.yaml describes how a change to a property affects nodes (the pool is replaced, or
    nodes are rolled or removed). If a platform has no properties in this annotation, a change to the field is
    applied in place.
    """

    eks: tuple[str, ...] = ()
    karpenter: tuple[str, ...] = ()
    gke: tuple[str, ...] = ()
    aks: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OnlyWithGpus:
    """Marks a pool field that is refused in pools without GPUs. `because` is the reason, written as a sentence."""

    because: str


EXAMPLES_BY_PROVIDER = "x-examples"
"""Key of a field's JSON Schema with an example for each provider."""


@dataclass(frozen=True, slots=True)
class Examples:
    """An example of a field's value for each provider, for values whose form depends on the provider."""

    eks: str
    gke: str
    aks: str = ""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema with the examples of all providers."""
        examples = {one.name: value for one in fields(self) if (value := getattr(self, one.name))}
        return {**handler(core_schema), "examples": [*examples.values()], EXAMPLES_BY_PROVIDER: examples}


# AKS can set taints that Kubernetes may remove later, but only for all pools of a cluster together.
# Source: AKS docs, "Use node taints", read 2026-11-30.
WITH_REMOVABLE_TAINTS = On(
    ("sandbox", "existing", "eks", "gke"),
    "Kubernetes cannot remove the taints of an AKS agent pool",
    fix="write gate_nodes: never; validation still reports nodes that fail",
    values=("startup", "always"),
)
CLOUDS: tuple[Provider, ...] = ("eks", "gke", "aks")
"""The providers that are clouds, whose nodes the program creates."""
ON_CLOUDS = On(CLOUDS, "elsewhere the program creates no cloud nodes")


def joined(words: Iterable[str], last: Literal["and", "or"]) -> str:
    """Return one or more words as a list in a sentence: `a, b and c`."""
    *rest, end = words
    return f"{', '.join(rest)} {last} {end}" if rest else end


def declarations(field: FieldInfo) -> Iterator[On]:
    """Yield the providers that a field is declared to support."""
    return (one for one in field.metadata if isinstance(one, On))


def properties_of(field: FieldInfo) -> Iterator[tuple[str, str]]:
    """Yield the platform and name of each node pool property that a field is declared to set."""
    for one in field.metadata:
        if isinstance(one, SetsProperties):
            for platform in fields(SetsProperties):
                yield from ((platform.name, name) for name in getattr(one, platform.name))


def reasons_for_gpus(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield each field of a model that is marked `OnlyWithGpus`, with the reason."""
    for name, field in model.model_fields.items():
        yield from ((name, one.because) for one in field.metadata if isinstance(one, OnlyWithGpus))


def refuses(declaration: On, value: object, provider: Provider) -> bool:
    """Return whether a declaration excludes a value of its field for a provider."""
    return provider not in declaration.providers and (not declaration.values or value in declaration.values)


def takes(model: type[BaseModel], name: str, value: object, provider: Provider) -> bool:
    """Return whether a provider supports a value of a model's field."""
    return not any(refuses(one, value, provider) for one in declarations(model.model_fields[name]))


def described(field: FieldInfo) -> str:
    """Return the sentences that a field's provider declarations add to its description."""
    texts = [
        f"{', '.join(map(str, one.values))} only on {one}." if one.values else f"Only on {one}."
        for one in declarations(field)
    ]
    return " ".join(texts)


def supporting(description: str) -> str:
    """Return the providers in the sentence that `described` added to a description, or an empty string."""
    only = re.search(r"(?:^| )Only on ([\w ,]+)\.$", description)
    return only[1] if only is not None else ""

"""What a rule is: a pure check under an id, a severity, a level and a typed configuration."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from policies._inputs import Value
from policies._stack import Resource, Stack


class Severity(StrEnum):
    """How bad the thing is that a rule catches."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Level(StrEnum):
    """What a violation does: `mandatory` stops the deploy, `advisory` warns, `disabled` judges nothing."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"
    DISABLED = "disabled"


class RuleModel(BaseModel):
    """Base of what a person writes to configure a rule: camelCase keys, and none that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Exemption(RuleModel):
    """One agreed exception from a rule, with its reason and its end."""

    resource: Annotated[str, Field(min_length=1)]
    """A name, or a glob such as `legacy-*`: of the resource, of the Kubernetes object (`namespace/name` or
    `name`), of the pool or config that is judged, or a URN."""
    reason: Annotated[str, Field(min_length=1, pattern=r"\S")]
    until: datetime.date
    """The last day on which it counts."""

    def covers(self, names: Iterable[str]) -> bool:
        """Return whether the exemption names one of `names`."""
        return any(fnmatchcase(name, self.resource) for name in names)


class Settings(RuleModel):
    """A rule's configuration. Rules with limits of their own extend it."""

    exempt: tuple[Exemption, ...] = ()


class Subject(Protocol):
    """One thing that a rule judges: a pool, a workload, a config, a namespace. Nothing of it raises."""

    @property
    def resource(self) -> Resource:
        """The resource that it comes from."""
        ...

    @property
    def name(self) -> str:
        """The name that people know it by."""
        ...

    @property
    def group(self) -> str:
        """Subjects of one group are one thing to a reader, such as the nodes of one pool."""
        ...


@dataclass(frozen=True, slots=True)
class Breach:
    """One place where a rule is broken: what was found there, what is allowed, and the fix."""

    at: Value
    found: str
    allowed: str
    fix: str


SubjectT = TypeVar("SubjectT", bound=Subject)
SettingsT = TypeVar("SettingsT", bound=Settings)


@dataclass(frozen=True, slots=True)
class Rule(Generic[SubjectT, SettingsT]):
    """One policy.

    `check` yields the breaches of one subject and raises `NotVisible` where it cannot tell; what it yielded
    before stands.
    """

    id: str
    severity: Severity
    level: Level
    description: str
    subjects: Callable[[Stack], Iterable[SubjectT]]
    check: Callable[[Stack, SubjectT, SettingsT], Iterator[Breach]]
    settings: type[SettingsT]

    @property
    def config_schema(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schema of each configuration key, without references, as CrossGuard takes it."""
        schema = self.settings.model_json_schema(by_alias=True)
        return _inline(schema["properties"], schema.get("$defs", {}))


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON Schema
    if isinstance(node, Mapping):
        if (reference := node.get("$ref")) is not None:
            return _inline(definitions[reference.rpartition("/")[2]], definitions)
        return {key: _inline(value, definitions) for key, value in node.items()}
    return [_inline(item, definitions) for item in node] if isinstance(node, list) else node

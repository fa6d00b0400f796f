"""Types of a rule: a pure check with an id, a severity and a typed configuration."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gpu_platform.stack.patterns import NOT_BLANK
from policies._inputs import Value
from policies._stack import Resource, Stack


class Level(StrEnum):
    """CrossGuard's enforcement level of a rule.

    A violation of a `mandatory` rule stops the deploy, that of an `advisory` rule is a warning, and a `disabled`
    rule is not evaluated.
    """

    ADVISORY = "advisory"
    MANDATORY = "mandatory"
    DISABLED = "disabled"


class Severity(StrEnum):
    """The consequence of breaking a rule. It decides the rule's default level."""

    CRITICAL = "critical"
    """GPUs are unusable, or allocated twice, or taken by workloads that must not have them."""
    HIGH = "high"
    """A workload does not start, fails, or gets something else than it requested."""
    MEDIUM = "medium"
    """Everything works, but GPU time is wasted."""
    LOW = "low"
    """A convention is broken."""

    @property
    def default_level(self) -> Level:
        """What breaks is mandatory, what only wastes is advisory."""
        return Level.MANDATORY if self in (Severity.CRITICAL, Severity.HIGH) else Level.ADVISORY


class RuleModel(BaseModel):
    """Base of a rule's configuration: immutable, with camelCase keys; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


class Exemption(RuleModel):
    """One exception from a rule, with its reason, its owner and its last day."""

    resource: Annotated[str, Field(min_length=1)]
    """A name, or a glob such as `legacy-*`: of the resource, of the Kubernetes object (`namespace/name` or
    `name`), of the pool or config that is checked, or a URN."""
    reason: Annotated[str, Field(min_length=1, pattern=NOT_BLANK, examples=["replaced in January"])]
    owner: Annotated[str, Field(min_length=1, pattern=NOT_BLANK, examples=["ml-infra"])]
    """Who answers for it: a person or a team."""
    until: Annotated[datetime.date, Field(examples=["2027-01-31"])]
    """The last day on which it applies."""

    def covers(self, names: Iterable[str]) -> bool:
        """Return whether the exemption names one of `names`."""
        return any(fnmatchcase(name, self.resource) for name in names)


class Settings(RuleModel):
    """A rule's configuration. Rules with limits of their own extend it."""

    exempt: tuple[Exemption, ...] = ()


class Subject(Protocol):
    """One thing that a rule checks: a pool, a workload, a config, a namespace. These properties never raise."""

    @property
    def resource(self) -> Resource:
        """The resource that it comes from."""
        ...

    @property
    def name(self) -> str:
        """The name to show."""
        ...

    @property
    def group(self) -> str:
        """Subjects with the same group are reported together, such as the nodes of one pool."""
        ...


@dataclass(frozen=True, slots=True)
class Remedy:
    """A value to write at a place of a resource's inputs."""

    at: Value
    value: object


@dataclass(frozen=True, slots=True)
class Breach:
    """One place where a rule is broken: what was found there, what is allowed, and the fix.

    `remedy`: the fix as a change of the inputs, where there is no other one.
    """

    at: Value
    found: str
    allowed: str
    fix: str
    remedy: Remedy | None = None


SubjectT = TypeVar("SubjectT", bound=Subject)
SettingsT = TypeVar("SettingsT", bound=Settings)


@dataclass(frozen=True, slots=True)
class Rule(Generic[SubjectT, SettingsT]):
    """One rule.

    `check` yields the breaches of one subject. It raises `NotVisible` where it needs a value that cannot be seen;
    the breaches that it yielded before remain. `remedy`: what its remedies write, empty for a rule without any;
    such a rule looks at one resource at a time. `before_only`: of a rule about objects that members create, why
    admission has no such rule.
    """

    id: str
    severity: Severity
    description: str
    subjects: Callable[[Stack], Iterable[SubjectT]]
    check: Callable[[Stack, SubjectT, SettingsT], Iterator[Breach]]
    settings: type[SettingsT]
    remedy: str = ""
    before_only: str = ""

    @property
    def level(self) -> Level:
        """The rule's level unless the configuration sets another one."""
        return self.severity.default_level

    @property
    def config_schema(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schema of each configuration key, without references and examples, for CrossGuard."""
        schema = self.settings.model_json_schema(by_alias=True)
        definitions = schema.get("$defs", {})
        return {key: _inline(value, definitions) for key, value in schema["properties"].items()}


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON Schema
    if isinstance(node, Mapping):
        mapping = cast("Mapping[str, Any]", node)
        if (reference := mapping.get("$ref")) is not None:
            return _inline(definitions[str(reference).rpartition("/")[2]], definitions)
        return {key: _inline(value, definitions) for key, value in mapping.items() if key != "examples"}
    if isinstance(node, list):
        return [_inline(item, definitions) for item in cast("list[object]", node)]
    return node

"""Types for rules. A rule is a check without side effects that has an id, a severity and a typed configuration."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gpu_platform.stack.patterns import NOT_BLANK
from policies._inputs import Value
from policies._stack import Resource, Stack


class Level(StrEnum):
    """Enforcement level of a rule in CrossGuard.

    A violation of a `mandatory` rule stops the deployment. A violation of an `advisory` rule is a warning. A
    `disabled` rule is not evaluated.
    """

    ADVISORY = "advisory"
    MANDATORY = "mandatory"
    DISABLED = "disabled"


class Severity(StrEnum):
    """Consequence of violating a rule, which determines the rule's default level."""

    CRITICAL = "critical"
    """GPUs are unusable, allocated twice, or taken by workloads that must not have them."""
    HIGH = "high"
    """A workload fails to start, fails later, or gets something other than what it requested."""
    MEDIUM = "medium"
    """Everything works, but GPU time is wasted."""
    LOW = "low"
    """A convention is broken."""

    @property
    def default_level(self) -> Level:
        """Default level: `mandatory` if the violation breaks something, `advisory` if it only wastes resources."""
        return Level.MANDATORY if self in (Severity.CRITICAL, Severity.HIGH) else Level.ADVISORY


class RuleModel(BaseModel):
    """Base of a rule's configuration. It is immutable and has camelCase keys. Unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


def _day(value: object) -> object:
    """Return a day as it is in the stack file. The Pulumi CLI reads a day without quotes as a time, and formats it
    with Go's time.Time.String().
    """
    return value.removesuffix(" 00:00:00 +0000 UTC") if isinstance(value, str) else value


class Exemption(RuleModel):
    """One exception to a rule, with its reason, its owner and its last day."""

    resource: Annotated[str, Field(min_length=1)]
    """A name, a glob such as `legacy-*`, or a URN. The name can belong to the resource, the Kubernetes object
    (`namespace/name` or `name`), or the checked pool or config.
    """
    reason: Annotated[str, Field(min_length=1, pattern=NOT_BLANK, examples=["replaced in January"])]
    owner: Annotated[str, Field(min_length=1, pattern=NOT_BLANK, examples=["ml-infra"])]
    """Person or team that is responsible for the exemption."""
    until: Annotated[
        datetime.date,
        BeforeValidator(_day, json_schema_input_type=datetime.date),
        Field(examples=["2027-01-31"]),
    ]
    """Last day on which the exemption applies."""

    def covers(self, names: Iterable[str]) -> bool:
        """Return whether the exemption covers one of `names`."""
        return any(fnmatchcase(name, self.resource) for name in names)


class Settings(RuleModel):
    """Configuration of a rule. Rules with limits extend it."""

    exempt: tuple[Exemption, ...] = ()


class Subject(Protocol):
    """A pool, workload, config or namespace that a rule checks. Reading these properties never raises an error."""

    @property
    def resource(self) -> Resource:
        """Resource that contains the subject."""
        ...

    @property
    def name(self) -> str:
        """Name of the subject in messages."""
        ...

    @property
    def group(self) -> str:
        """Key of a group of subjects, such as the nodes of one pool. Findings about subjects with the same key are
        reported together.
        """
        ...


@dataclass(frozen=True, slots=True)
class Remedy:
    """A value to write at a path of a resource's inputs."""

    at: Value
    value: object


@dataclass(frozen=True, slots=True)
class Breach:
    """One violation of a rule, with the value that was found, the allowed values, and the fix.

    `remedy` is the fix as a change to the inputs, if it is the only possible fix.
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

    `check` yields the breaches of one subject. It raises `NotVisible` if it needs a value that is not visible. The
    breaches that it has already yielded are kept. `remedy` describes the values that its remedies write, and is
    empty if the rule has none. A rule with remedies checks one resource at a time. For a rule about objects
    that members create, `before_only` is the reason why the API server has no such rule at admission.
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
        """Level of the rule, unless the configuration sets another level."""
        return self.severity.default_level

    @property
    def config_schema(self) -> Mapping[str, Mapping[str, Any]]:
        """JSON Schema of each configuration key, without references and examples, for CrossGuard."""
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

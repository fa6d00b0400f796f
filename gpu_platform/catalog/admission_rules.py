"""Admission rules as data, and the ValidatingAdmissionPolicies that are generated from them.

`rules/*.yaml` contains the rules in CEL, their shared variables, the policies that they belong to, and the values
that a stack adds. All files share one namespace: `variables.NAME` is a variable or a value of any file, or a
variable of the rule's policy. A policy contains only the variables and values that its rules use.

A value that is a string, number or bool is inserted into the expressions that use it, so that the API server
compiles a pattern only once. A list or map becomes a variable of the policy. In the condition of a policy,
variables are expanded, because Kubernetes evaluates conditions without variables.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final, Literal, cast

import yaml
from pydantic import Field, ValidationError

from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.catalog.models import Fact
from gpu_platform.catalog.template_kinds import TEMPLATE_KINDS, TRAIN_JOBS, ends_of, stays_of, templates_of

Value = str | int | bool | Sequence["Value"] | Mapping[str, "Value"]
"""A value that a stack provides for the rules. The keys of a map are strings."""
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

SOURCE: Final = "the catalogue (gpu_platform/catalog/rules)"
GENERATED: Final[Mapping[str, str]] = {
    "object_templates": templates_of("object"),
    "old_object_templates": templates_of("oldObject"),
    "pods_end": ends_of("object"),
    "seconds_after_end": stays_of("object"),
}
"""Variables that are generated from the table of kinds with pod templates."""
_NAMED: Final = re.compile(r"\bvariables\.(\w+)")
_ENTRY: Final = re.compile(r"\bentry\.(\w+)")
_PLACE: Final = re.compile(r"\{(\w+)(?::(\w+))?\}")


class Matched(Fact):
    """Resources of an API group, in versions that have the same fields.

    The API server converts objects of other versions. `scope` is needed if `*` also matches cluster-scoped
    resources, because every namespace selector matches cluster-scoped resources.
    """

    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    resources: tuple[str, ...]
    scope: Literal["Namespaced"] | None = None


class RuleSubject(Fact):
    """The subject of rules: the whole object, or each element of a list. In CEL, the element is called `pod`.

    With `named`, the refusal message contains the path of the element. The element's field `at` contains this
    path.
    """

    each: str | None = None
    named: bool = False


class RulePolicy(Fact):
    """A policy: the requests that it matches, the subjects of its rules, and variables that only its rules can
    use.

    With `matched_templates`, the policy also matches all kinds that have pod templates.
    """

    name: str
    matched: tuple[Matched, ...] = ()
    matched_templates: bool = False
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    condition: str | None = None
    variables: Mapping[str, str] = Field(default_factory=dict[str, str])
    subjects: Mapping[str, RuleSubject]


class DeclaredValue(Fact):
    """A value that the stack adds, with its CEL type and its meaning."""

    type: str
    meaning: str


class DeclaredRule(Fact):
    """A rule: a CEL expression that must be true for each of its subjects, and a message with the mistake and the
    fix.

    The message refers to values as `{name}`. `{name:or}` inserts a list with `or` before its last element. `when`
    and `unless` each name a value. The rule is omitted if the value of `when` is empty, or if the value of
    `unless` is not empty. `repeat` names a list of maps. The rule is then generated once for each map. Its CEL
    expression refers to the map as `entry`, and its message may refer to the fields of the map.
    """

    id: str
    applies_to: tuple[str, ...]
    cel: str
    message: str
    when: str | None = None
    unless: str | None = None
    repeat: str | None = None


class RuleFile(Fact):
    """A YAML file of rules, with the sources of its facts and the date when the sources were read.

    `constants` are values that are the same for every stack.
    """

    sources: tuple[str, ...]
    read: datetime.date
    policies: tuple[RulePolicy, ...] = ()
    constants: Mapping[str, str | int | tuple[str, ...]] = Field(default_factory=dict[str, str])
    values: Mapping[str, DeclaredValue] = Field(default_factory=dict[str, DeclaredValue])
    variables: Mapping[str, str] = Field(default_factory=dict[str, str])
    rules: tuple[DeclaredRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """A rule of a policy: a CEL expression that must be true, and a message with the mistake and the fix.

    `message_expression` is the message as a CEL expression, if the message names a field of the object.
    """

    id: str
    expression: str
    message: str
    message_expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """A ValidatingAdmissionPolicy: the requests that it checks, its values, its variables in order, and its rules.

    `values` contains the stack's values as CEL literals. The variables may use these values.
    """

    name: str
    matched: tuple[Matched, ...]
    operations: tuple[Operation, ...]
    condition: str | None
    values: Mapping[str, str]
    variables: Mapping[str, str]
    rules: tuple[AdmissionRule, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the policy as it is stored in a Plan: the stack's values and the rules' messages. The catalogue
        contains everything else.
        """
        rules = [{"id": rule.id, "message": rule.message} for rule in self.rules]
        return {"name": self.name, "values": dict(self.values), "rules": rules}


@dataclass(frozen=True)
class AdmissionRules:
    """The policies, constants, values, variables and rules of all files."""

    policies: Mapping[str, RulePolicy]
    constants: Mapping[str, Value]
    values: Mapping[str, DeclaredValue]
    variables: Mapping[str, str]
    rules: tuple[DeclaredRule, ...]

    def policy(self, name: str, values: Mapping[str, Value]) -> AdmissionPolicy:
        """Return a policy with the values of a stack. The policy has no rules if no rule applies.

        Raises ValueError for a value that no file declares, and KeyError if a value is missing.
        """
        policy = self.policies[name]
        if unknown := values.keys() - self.values.keys():
            raise ValueError(f"no rules file declares {', '.join(map(repr, sorted(unknown)))}")
        written = _Written(self, policy, values)
        rules = tuple(
            rule
            for subject_name, subject in policy.subjects.items()
            for declared in self.rules
            if subject_name in declared.applies_to
            for rule in written.rules(declared, subject)
        )
        return AdmissionPolicy(
            name=name,
            matched=policy.matched + (_OF_TEMPLATES if policy.matched_templates else ()),
            operations=policy.operations,
            condition=written.inlined(policy.condition) if policy.condition is not None else None,
            values=written.values,
            variables=written.variables,
            rules=rules,
        )

    def expression(self, policy: str, variable: str, values: Mapping[str, Value]) -> str:
        """Return the CEL expression of a variable. Everything that the variable uses is expanded, so that the
        conditions of other policies can contain the expression.
        """
        return _Written(self, self.policies[policy], values).inlined(f"variables.{variable}")

    @staticmethod
    def names_in(cel: str) -> set[str]:
        """Return the variables and values that a CEL expression uses."""
        return _names_in([cel])

    @cached_property
    def names(self) -> frozenset[str]:
        """Names that the rules of every policy may use."""
        return frozenset((*self.constants, *self.values, *self.variables))


_TEMPLATE_RESOURCES: Final = (*((kind.group, kind.resource) for kind in TEMPLATE_KINDS), TRAIN_JOBS)
_OF_TEMPLATES: Final = tuple(
    Matched(
        group=group,
        versions=("*",),  # all versions of these kinds have their templates in the same places
        resources=tuple(resource for of, resource in _TEMPLATE_RESOURCES if of == group),
    )
    for group in dict.fromkeys(group for group, _ in _TEMPLATE_RESOURCES)
)


class _Written:
    """Converts the rules of one policy to CEL expressions.

    `values` collects the literals that the rules need. `variables` collects the variables that the rules use, in
    the order of their definition.
    """

    def __init__(self, rules: AdmissionRules, policy: RulePolicy, values: Mapping[str, Value]) -> None:
        self._declared = {**rules.variables, **policy.variables}
        self._given = {**rules.constants, **values}
        self.values: dict[str, str] = {}
        self.variables: dict[str, str] = {}

    def rules(self, declared: DeclaredRule, subject: RuleSubject) -> Iterator[AdmissionRule]:
        """Yield the rule for a subject, once for each entry of `repeat`."""
        if declared.when is not None and not self._given[declared.when]:
            return
        if declared.unless is not None and self._given[declared.unless]:
            return
        if declared.repeat is None:
            yield self._rule(declared, subject, declared.cel, {})
            return
        fields = dict.fromkeys(_ENTRY.findall(declared.cel))
        for entry in cast("Sequence[Mapping[str, Value]]", self._given[declared.repeat]):
            record = {name: entry[name] for name in fields}
            bound = f"[{literal(record)}].all(entry,\n{_indented(declared.cel)}\n)"
            yield self._rule(declared, subject, bound, entry)

    def _rule(
        self, declared: DeclaredRule, subject: RuleSubject, cel: str, entry: Mapping[str, Value]
    ) -> AdmissionRule:
        judged = self.written(cel)
        message = filled(declared.message, {**self._given, **entry})
        if subject.each is None:
            return AdmissionRule(id=declared.id, expression=judged, message=message)
        pods = self.written(f"variables.{subject.each}")
        places = f"{pods}.filter(pod, !(\n{_indented(judged)}\n)).map(pod, string(pod.at)).join(', ')"
        return AdmissionRule(
            id=declared.id,
            expression=f"{pods}.all(pod,\n{_indented(judged)}\n)",
            message=message,
            message_expression=f"'{declared.id}: ' + {places} + {literal(f': {message}')}"
            if subject.named
            else None,
        )

    def written(self, cel: str) -> str:
        """Return a CEL expression in which strings and numbers of the stack are inserted. Record the variables and
        values that the expression uses.
        """
        return _NAMED.sub(lambda name: self._reference(name[1]), cel.rstrip())

    def _reference(self, name: str) -> str:
        if name in self._declared:
            if name not in self.variables:
                # `written` also records the variables that this variable uses, so they precede it.
                written = self.written(self._declared[name])
                self.variables[name] = written
        elif isinstance(value := self._given[name], str | int):
            return literal(value)
        else:
            self.values[name] = literal(value)
        return f"variables.{name}"

    def inlined(self, cel: str) -> str:
        """Return a CEL expression in which all variables and values are expanded."""
        return _NAMED.sub(lambda name: self._inlined(name[1]), cel.rstrip())

    def _inlined(self, name: str) -> str:
        if name not in self._declared:
            return literal(self._given[name])
        return f"({self.inlined(self._declared[name])})"


def literal(value: Value) -> str:
    """Return a value as a CEL literal. A map whose values have several types becomes a map of dynamic values."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"'{escaped}'"
    if isinstance(value, Mapping):
        return _map(value, dynamic=_is_mixed(value))
    dynamic = any(isinstance(one, Mapping) and _is_mixed(one) for one in value)
    items = (_map(one, dynamic=dynamic) if isinstance(one, Mapping) else literal(one) for one in value)
    return "[" + ", ".join(items) + "]"


def _map(value: Mapping[str, Value], *, dynamic: bool) -> str:
    pairs = ((literal(key), literal(one)) for key, one in value.items())
    return "{" + ", ".join(f"{key}: dyn({one})" if dynamic else f"{key}: {one}" for key, one in pairs) + "}"


def _is_mixed(value: Mapping[str, Value]) -> bool:
    """Return whether the values of a map have several CEL types."""
    return len({_kind(one) for one in value.values()}) > 1


def _kind(value: Value) -> str:
    if isinstance(value, str | int):
        return type(value).__name__
    of = value.values() if isinstance(value, Mapping) else value
    return f"{'map' if isinstance(value, Mapping) else 'list'} of {sorted({_kind(one) for one in of})}"


def filled(message: str, values: Mapping[str, Value]) -> str:
    """Return a message with its values inserted.

    Lists are joined with commas. If the placeholder contains a word, such as `or`, the word precedes the last
    element.
    """

    def text(place: re.Match[str]) -> str:
        value = values[place[1]]
        if isinstance(value, str | int):
            return str(value)
        *first, last = [str(one) for one in value] or [""]
        if place[2] and first:
            return f"{', '.join(first)} {place[2]} {last}"
        return ", ".join((*first, last))

    return _PLACE.sub(text, message)


def _indented(cel: str) -> str:
    return "\n".join(f"  {line}" for line in cel.splitlines())


@cache
def admission_rules() -> AdmissionRules:
    """Read `rules/*.yaml` of this package. The result is shared and immutable."""
    return read_admission_rules(resources.files("gpu_platform.catalog") / "rules")


def read_admission_rules(folder: Traversable) -> AdmissionRules:
    """Read a folder of rules. Raises BadInput that lists every mistake with its file and entry.

    A mistake is a file with invalid fields, a name that is declared twice, an unknown name, or an unused name.
    """
    files: dict[str, RuleFile] = {}
    problems: list[Problem] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".yaml"):
            continue
        try:
            document: Any = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
            files[file.name] = RuleFile.model_validate(document)
        except yaml.YAMLError as error:
            problems.append(Problem(file.name, str(error), "valid YAML"))
        except ValidationError as error:
            for details in error.errors(include_url=False):
                place = ".".join(str(part) for part in details["loc"])
                problems.append(
                    Problem(f"{file.name}: {place}", f"{str(details['input'])[:80]!r}", details["msg"])
                )
    if problems:
        raise BadInput(SOURCE, problems)
    problems += _declared_twice(files)
    rules = AdmissionRules(
        policies={one.name: one for file in files.values() for one in file.policies},
        constants={name: value for file in files.values() for name, value in file.constants.items()},
        values={name: value for file in files.values() for name, value in file.values.items()},
        variables={**GENERATED, **{name: cel for file in files.values() for name, cel in file.variables.items()}},
        rules=tuple(rule for file in files.values() for rule in file.rules),
    )
    problems += _unknown(files, rules)
    problems += _unused(files, rules)
    if problems:
        raise BadInput(SOURCE, problems)
    return rules


def _declared_twice(files: Mapping[str, RuleFile]) -> Iterator[Problem]:
    seen: dict[tuple[str, str], str] = {}
    for file_name, file in files.items():
        names = [
            *(("policies", one.name) for one in file.policies),
            *(("subjects", name) for one in file.policies for name in one.subjects),
            *(("names", name) for name in (*file.constants, *file.values, *file.variables)),
        ]
        for name in names:
            if name in seen:
                yield Problem(
                    f"{file_name}: {name[1]}",
                    f"a name that {seen[name]} already declares",
                    "each name once",
                    "rename it",
                )
            seen[name] = file_name


def _unknown(files: Mapping[str, RuleFile], rules: AdmissionRules) -> Iterator[Problem]:
    """Yield a problem for each name of a variable, value or subject that is used but not declared."""
    by_subject = {subject: one for one in rules.policies.values() for subject in one.subjects}
    local = {name for one in rules.policies.values() for name in one.variables}
    for file_name, file in files.items():
        for policy in file.policies:
            place = f"{file_name}: policies[{policy.name}]"
            texts = (policy.condition or "", *policy.variables.values())
            yield from _not_among(place, _names_in(texts), {*rules.names, *policy.variables})
            of_subjects = [one.each for one in policy.subjects.values() if one.each is not None]
            yield from _not_among(place, of_subjects, {*rules.names, *policy.variables})
        for name, cel in file.variables.items():
            yield from _not_among(f"{file_name}: variables[{name}]", _names_in([cel]), {*rules.names, *local})
        for rule in file.rules:
            place = f"{file_name}: rules[{rule.id}]"
            for subject in rule.applies_to:
                yield from _not_among(place, [subject], by_subject)
                if subject in by_subject:
                    known = {*rules.names, *by_subject[subject].variables}
                    yield from _not_among(place, _names_in([rule.cel]), known)
            conditions = [one for one in (rule.when, rule.unless, rule.repeat) if one is not None]
            if rule.repeat is None:  # with `repeat`, the message may name fields of the entries
                conditions += [name for name, _ in _PLACE.findall(rule.message)]
            yield from _not_among(place, conditions, {*rules.constants, *rules.values})


def _unused(files: Mapping[str, RuleFile], rules: AdmissionRules) -> Iterator[Problem]:
    """Yield a problem for each value and variable that no rule or policy uses."""
    policies = rules.policies.values()
    used = _names_in([*(one.condition or "" for one in policies), *(one.cel for one in rules.rules)])
    used |= PUBLIC & rules.names
    used |= {subject.each for one in policies for subject in one.subjects.values() if subject.each is not None}
    for rule in rules.rules:
        used |= {name for name, _ in _PLACE.findall(rule.message)}
        used |= {name for name in (rule.when, rule.unless, rule.repeat) if name is not None}
    texts = [rules.variables, *(one.variables for one in policies)]
    while (
        more := {name for cels in texts for user in used & cels.keys() for name in _names_in([cels[user]])} - used
    ):
        used |= more
    for file_name, file in files.items():
        local = (name for one in file.policies for name in one.variables)
        for name in (*file.constants, *file.values, *file.variables, *local):
            if name not in used:
                yield Problem(
                    f"{file_name}: {name}",
                    "a name that no rule uses",
                    "values and variables that a rule uses",
                    "remove it",
                )


PUBLIC: Final = frozenset({"names_no_class"})
"""Variables that other policies use through `AdmissionRules.expression`."""


def _names_in(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in _NAMED.findall(text)}


def _not_among(place: str, names: Iterable[str], known: Iterable[str]) -> Iterator[Problem]:
    known = sorted(known)
    for name in names:
        if name not in known:
            fix = did_you_mean(name, known) or "declare it under values or variables of a file"
            yield Problem(place, f"{name!r}", "names of values, variables and subjects", fix)

"""Admission rules are data. The API server can compile each rule, and errors name the place of the mistake."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_expr_python import cel

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog.admission_rules import (
    AdmissionRules,
    RulePolicy,
    admission_rules,
    filled,
    literal,
    read_admission_rules,
)
from gpu_platform.catalog.kubernetes_cel import admission_environment

RULES = admission_rules()


class Names:
    """The types of the values and variables in a policy's rules. Each type is determined when it is first used."""

    def __init__(self, rules: AdmissionRules, policy: RulePolicy) -> None:
        self._variables = {**rules.variables, **policy.variables}
        self._names_in = rules.names_in
        self._types = {name: cel.Type(value.type) for name, value in rules.values.items()}
        for name, value in rules.constants.items():
            self._types[name] = admission_environment({}).compile(literal(value)).return_type()

    def compile(self, text: str) -> cel.Type:
        """Return the type of an expression."""
        for name in sorted(self._names_in(text) - self._types.keys()):
            self._types[name] = self.compile(self._variables[name])
        return admission_environment(self._types).compile(text).return_type()


@pytest.mark.parametrize("policy", RULES.policies.values(), ids=lambda one: one.name)
def test_every_rule_and_condition_compiles_to_a_bool(policy: RulePolicy) -> None:
    names = Names(RULES, policy)
    rules = [one for one in RULES.rules if policy.subjects.keys() & set(one.applies_to)]
    assert rules
    for rule in rules:
        text = f"[dyn(object)].all(pod, [dyn(object)].all(entry,\n{rule.cel}))"
        assert names.compile(text) == cel.Type.BOOL, rule.id
    if policy.condition is not None:
        assert names.compile(policy.condition) == cel.Type.BOOL
    for subject in policy.subjects.values():
        if subject.each is not None:
            names.compile(f"variables.{subject.each}.all(pod, true)")


# -- policies --------------------------------------------------------------------------------------------------

DOCUMENT: dict[str, Any] = {
    "sources": ["Kubernetes docs"],
    "read": "2026-11-29",
    "policies": [
        {
            "name": "pods-of",
            "matched": [{"resources": ["pods"]}],
            "condition": "variables.is_new && object.kind in variables.kinds",
            "variables": {"pods": "[dyn(object)]"},
            "subjects": {"pods": {"each": "pods"}, "named-pods": {"each": "pods", "named": True}},
        }
    ],
    "values": {
        "kinds": {"type": "list<string>", "meaning": "kinds"},
        "most": {"type": "int", "meaning": "a number"},
        "sizes": {"type": "list<map<string,dyn>>", "meaning": "records"},
    },
    "variables": {"is_new": "request.operation == 'CREATE'"},
    "rules": [
        {
            "id": "a-kind",
            "applies_to": ["pods", "named-pods"],
            "cel": "pod.kind in variables.kinds && pod.size <= variables.most",
            "message": "one of {kinds:or} (list: {kinds}), at most {most}: write {kind: Pod}",
        },
        {
            "id": "a-size",
            "applies_to": ["pods"],
            "repeat": "sizes",
            "cel": "pod.size <= entry.most",
            "message": "{name}",
        },
        {"id": "with", "applies_to": ["pods"], "when": "kinds", "cel": "true", "message": "a"},
        {"id": "without", "applies_to": ["pods"], "unless": "kinds", "cel": "true", "message": "b"},
    ],
}
VALUES: dict[str, Any] = {"kinds": ["Pod", "Job"], "most": 3, "sizes": [{"name": "one", "most": 1, "other": "x"}]}


def read(tmp_path: Path, document: Mapping[str, Any]) -> AdmissionRules:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({**document}, sort_keys=False), "utf-8")
    return read_admission_rules(tmp_path)


def test_numbers_are_written_out_and_lists_are_variables(tmp_path: Path) -> None:
    policy = read(tmp_path, DOCUMENT).policy("pods-of", VALUES)
    assert policy.values == {"kinds": "['Pod', 'Job']"}
    assert policy.variables == {"pods": "[dyn(object)]"}
    assert policy.rules[0].expression == (
        "variables.pods.all(pod,\n  pod.kind in variables.kinds && pod.size <= 3\n)"
    )


def test_a_message_joins_lists_and_keeps_other_braces(tmp_path: Path) -> None:
    rule = read(tmp_path, DOCUMENT).policy("pods-of", VALUES).rules[0]
    assert rule.message == "one of Pod or Job (list: Pod, Job), at most 3: write {kind: Pod}"


def test_a_condition_has_no_variables(tmp_path: Path) -> None:
    policy = read(tmp_path, DOCUMENT).policy("pods-of", VALUES)
    assert policy.condition == "(request.operation == 'CREATE') && object.kind in ['Pod', 'Job']"


def test_a_rule_is_repeated_for_each_record_with_the_fields_that_it_uses(tmp_path: Path) -> None:
    rules = read(tmp_path, DOCUMENT).policy("pods-of", VALUES).rules
    (repeated,) = (rule for rule in rules if rule.id == "a-size")
    assert "[{'most': 1}].all(entry," in repeated.expression
    assert repeated.message == "one"


@pytest.mark.parametrize(("kinds", "kept"), [(["Pod"], "with"), ([], "without")])
def test_a_rule_is_there_as_its_value_says(tmp_path: Path, kinds: list[str], kept: str) -> None:
    rules = read(tmp_path, DOCUMENT).policy("pods-of", {**VALUES, "kinds": kinds}).rules
    assert {rule.id for rule in rules} == {"a-kind", "a-size", kept}


def test_a_refusal_of_a_named_subject_names_its_place(tmp_path: Path) -> None:
    rules = read(tmp_path, DOCUMENT).policy("pods-of", VALUES).rules
    *others, named = (rule for rule in rules if rule.id == "a-kind")
    assert named.message_expression is not None
    assert named.message_expression.startswith("'a-kind: ' + variables.pods.filter(pod, !(")
    assert [rule.message_expression for rule in others] == [None]


def test_a_value_that_no_file_declares_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no rules file declares 'other'"):
        read(tmp_path, DOCUMENT).policy("pods-of", {**VALUES, "other": 1})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's a \\ and\na line", r"'it\'s a \\ and\na line'"),
        (True, "true"),
        (7, "7"),
        (["a", "b"], "['a', 'b']"),
        ({"a": 1, "b": 2}, "{'a': 1, 'b': 2}"),
        ({"a": 1, "b": ["c"]}, "{'a': dyn(1), 'b': dyn(['c'])}"),
        ([{"a": 1}, {"a": "b", "c": 2}], "[{'a': dyn(1)}, {'a': dyn('b'), 'c': dyn(2)}]"),
    ],
)
def test_a_value_is_a_literal_of_its_type(value: Any, text: str) -> None:
    assert literal(value) == text


def test_a_text_in_a_message_is_itself() -> None:
    assert filled("a {b}", {"b": "c, d"}) == "a c, d"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_a_word_in_a_placeholder_precedes_the_last_element(names: list[str], text: str) -> None:
    assert filled("{names:or}", {"names": names}) == text


# -- mistakes --------------------------------------------------------------------------------------------------


def with_rule(**rule: Any) -> dict[str, Any]:
    return {**DOCUMENT, "rules": [{**DOCUMENT["rules"][0], **rule}, *DOCUMENT["rules"][1:]]}


MISTAKES = {
    "an unknown variable": (
        with_rule(cel="pod.kind in variables.kinds && variables.mots > 1"),
        "rules.yaml: rules[a-kind]: found 'mots'",
    ),
    "an unknown placeholder in a message": (with_rule(message="at most {mots}"), "found 'mots'"),
    "an unknown subject": (with_rule(applies_to=["pots"]), "found 'pots'"),
    "an unknown value in a condition": (with_rule(when="kidns"), "found 'kidns'"),
    "an unused value": (
        {**DOCUMENT, "values": {**DOCUMENT["values"], "spare": {"type": "int", "meaning": "nothing"}}},
        "rules.yaml: spare: found a name that no rule uses",
    ),
    "an unused variable": (
        {**DOCUMENT, "variables": {**DOCUMENT["variables"], "spare": "1"}},
        "rules.yaml: spare: found a name that no rule uses",
    ),
    "a variable with the same name as a value": (
        {**DOCUMENT, "variables": {**DOCUMENT["variables"], "most": "1"}},
        "rules.yaml: most: found a name that rules.yaml already declares",
    ),
    "an unknown field": (with_rule(expression="true"), "rules.0.expression"),
}


@pytest.mark.parametrize(("document", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_place(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(tmp_path, document)
    assert str(refused.value).startswith("the catalogue (gpu_platform/catalog/rules): ")
    assert message in str(refused.value)


def test_text_that_is_no_yaml_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("rules: [", "utf-8")
    with pytest.raises(BadInput, match=r"rules\.yaml"):
        read_admission_rules(tmp_path)

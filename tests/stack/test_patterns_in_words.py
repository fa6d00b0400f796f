"""Errors describe in words which values a pattern allows, and their fix contains a valid value or object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.stack import parse_platform
from gpu_platform.stack.load import read_yaml_file, stack_adapter
from gpu_platform.stack.patterns import in_words
from policies import rules

ADAPTERS = {"stack": stack_adapter(), **{rule.id: TypeAdapter(rule.settings) for rule in rules()}}
SIGNS = ("[a-z", "\\d", "\\S", "\\w", "{1,", "^")


def _patterns(node: Any, place: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield the place and pattern of each string in a JSON schema, and whether the schema gives an example of the
    string. Patterns of keys have no examples.
    """
    if isinstance(node, dict):
        inner = [branch for branch in node.get("anyOf", ()) if "pattern" in branch]
        for one in [*inner, *([node] if "pattern" in node and node.get("type") == "string" else ())]:
            yield place, one["pattern"], "examples" in node or "examples" in one
        for pattern in node.get("patternProperties", {}):
            yield place, pattern, False
        for key, value in node.items():
            below = f"{place}.{key}" if key != "anyOf" else ""
            yield from () if key == "anyOf" and inner else _patterns(value, below)
    elif isinstance(node, list):
        for item in node:
            yield from _patterns(item, place)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_pattern_has_words_or_an_example(adapter: str) -> None:
    schema = ADAPTERS[adapter].json_schema(mode="validation")
    silent = [
        (place, pattern) for place, pattern, example in _patterns(schema) if not example and not in_words(pattern)
    ]
    assert silent == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_pattern_that_limits_the_length_of_a_name_says_so(adapter: str) -> None:
    """The description in words must state the length, because an example does not show it. Ids of a fixed length,
    such as AWS ids, are copied, so their length need not be stated.
    """
    schema = ADAPTERS[adapter].json_schema(mode="validation")
    limits = re.compile(r"\[[^\]]*(a-z0-9|A-Za-z0-9)[^\]]*\]\{\d+,\d+\}")
    silent = {
        pattern
        for _, pattern, _ in _patterns(schema)
        if limits.search(pattern) and not re.search(r"\d", in_words(pattern))
    }
    assert silent == set()


EKS = {"provider": "eks", "name": "x", "region": "us-east-2", "account": "123456789012"}


def _problems(**changed: Any) -> list[Problem]:
    stack: dict[str, Any] = {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": "x"},
        "operator": {"release": "v26.7.0"},
        "pools": [
            {"name": "a", "machine_type": "g4dn.xlarge", "count": {"desired": 1}, "workload": "inference"}
            | changed.pop("pool", {})
        ],
        "teams": [
            {"name": "t", "quota": {"gpus": 1}, "priority": "training", "members": ["group:t"]}
            | changed.pop("team", {})
        ],
    }
    with pytest.raises(BadInput) as caught:
        parse_platform(stack | changed, "stack")
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("changed", "words", "fix"),
    [
        (
            {"cluster": EKS, "pool": {"tags": {"a%b": "x"}}},
            "a key of an AWS tag",
            "rename it, for example to 'a-b'",
        ),
        (
            {"cluster": EKS, "pool": {"tuning": {"sysctls": {"swap": "1"}}}},
            "the name of a kernel parameter",
            "rename it",
        ),
        ({"team": {"routes": {"hosts": ["Vision"]}}}, "a host name in lower case", "'vision.example.com'"),
        ({"team": {"inline_csi_drivers": ["A b"]}}, "the name of a CSI driver", "'secrets-store.csi.k8s.io'"),
        ({"cleanup": {"schedule": "daily"}}, "five cron fields", "for example, write '17 3 * * *'"),
        ({"policy": {"own_rules": ["a-b"]}}, "'acme_rules'", "for example, write 'acme_rules'"),
    ],
)  # fmt: skip
def test_an_error_of_a_pattern_says_in_words_what_is_allowed(changed: Any, words: str, fix: str) -> None:
    (problem,) = _problems(**changed)
    assert words in problem.allowed
    assert fix in problem.fix
    assert not any(sign in str(problem) for sign in SIGNS)


@pytest.mark.parametrize(
    ("changed", "path", "fix"),
    [
        ({"team": {"members": ["group: ml"]}}, "teams[0].members[0]", "for example 'group:ml'"),
        ({"team": {"members": ["groups:ml"]}}, "teams[0].members[0]", "for example 'group:ml'"),
        ({"team": {"members": ["sa:a/b"]}}, "teams[0].members[0]", "for example 'serviceaccount:a/b'"),
        ({"team": {"members": ["me@x.com"]}}, "teams[0].members[0]", "for example 'user:me@x.com'"),
        ({"team": {"members": [{"group": "ml"}]}}, "teams[0].members[0]", 'write "group:ml", in quotes'),
        ({"team": {"members": "group:ml"}}, "teams[0].members", 'write members: ["group:ml"]'),
        ({"cluster": {"provider": "sandbox", "kubernetes": 1.3}}, "cluster.kubernetes", 'write "1.30"'),
        ({"pool": {"replicas": 4}}, "pools[0].replicas", "move it to pools[0].sharing"),
        ({"pool": {"max": 4}}, "pools[0].max", "move it to pools[0].count"),
        ({"pool": {"efa": True}}, "pools[0].efa", "write rdma in pools[0].network"),
        ({"team": {"quota": {"nvidia.com/gpu": 1}}}, "teams[0].quota.nvidia.com/gpu", "did you mean 'gpus'?"),
        ({"pool": {"quota": {"gpus": 8}}}, "pools[0].quota", "remove it"),
        ({"policy": {"level": False}}, "policy.level", "write advisory, or another of these"),
        ({"monitoring": "on"}, "monitoring", "for example, write monitoring: {enabled: true}"),
        ({"cluster": EKS, "pool": {"zones": "us-east-2a"}}, "pools[0].zones", 'write zones: ["us-east-2a"]'),
    ],
)  # fmt: skip
def test_a_fix_names_the_value_or_the_object(changed: Any, path: str, fix: str) -> None:
    found = {problem.path: problem.fix for problem in _problems(**changed)}
    assert found[path].startswith(fix)


def test_a_tab_before_a_key_is_named(tmp_path: Any) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text("config:\n\ta: 1\n", "utf-8")
    with pytest.raises(BadInput) as caught:
        read_yaml_file(path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.found) == ("line 2, column 1", "a tab")

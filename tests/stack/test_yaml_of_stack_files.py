"""Stack files are read as the Pulumi CLI reads them: merge keys, encrypted values and other configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.stack.load import read_stack_file, read_yaml_documents, read_yaml_file
from gpu_platform.stack.loaded import load_stack

POOL = "{machine_type: p4de.24xlarge, count: {desired: 1}, workload: training}"
HEAD = "config:\n  gpu-platform:platform:\n    kind: environment\n    cluster: {provider: sandbox, name: x}\n"


def read(folder: Path, text: str) -> Any:
    path = folder / "Pulumi.x.yaml"
    path.write_text(text, "utf-8")
    return read_yaml_file(path)


def problems(folder: Path, text: str) -> tuple[Problem, ...]:
    path = folder / "Pulumi.x.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInput) as caught:
        load_stack(str(path))
    return tuple(caught.value.problems)


# The results of gopkg.in/yaml.v3, which the Pulumi CLI uses to read stack files.
# A mapping's own key overrides a merged key, even if `<<` comes later.
# The first of several merged mappings has precedence.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &a {x: 1, y: 1}\nb: {<<: *a, x: 2}", {"x": 2, "y": 1}),
        ("a: &a {x: 1, y: 1}\nb: {x: 2, <<: *a}", {"x": 2, "y": 1}),
        ("a: &a {x: 1}\nc: &c {x: 3, y: 3}\nb: {<<: [*a, *c]}", {"x": 1, "y": 3}),
        ("a: &a {x: 1}\nc: &c {<<: *a, x: 3, y: 3}\nb: {<<: *c, y: 4}", {"x": 3, "y": 4}),
        ("a: &a {x: {z: 1}}\nb: {<<: *a, x: {w: 2}}", {"x": {"w": 2}}),
        ("a: &a {x: 1}\nb: {<<: *a}", {"x": 1}),
        ("a: &a {}\nb: {<<: *a, x: 2}", {"x": 2}),
    ],
)
def test_a_key_of_the_mapping_itself_overrides_what_is_merged(tmp_path: Path, text: str, expected: object) -> None:
    assert read(tmp_path, text)["b"] == expected


@pytest.mark.parametrize(
    "text",
    [
        "b: {x: 1, x: 2}",
        "a: &a {x: 1}\nb: {<<: *a, y: 1, y: 2}",
        "a: &a {x: 1}\nc: &c {y: 1}\nb: {<<: *a, <<: *c}",
    ],
)
def test_a_key_twice_in_one_mapping_is_still_a_mistake(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match="twice"):
        read(tmp_path, text)


# The Pulumi CLI 3.260 gives these values to the program; YAML 1.1 has booleans for most of them.
@pytest.mark.parametrize("text", ["no", "No", "NO", "yes", "on", "off", "y", "n", "tRUE", "="])
def test_only_true_and_false_are_booleans(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, f"a: {text}\n{text}: 1\nb: [true, False, TRUE]\n") == {
        "a": text,
        text: 1,
        "b": [True, False, True],
    }


def test_a_switch_with_another_word_is_refused_as_by_the_program(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"{HEAD}    pools: [{{name: a, {POOL[1:]}]\n    validation: {{gate: yes}}\n")
    assert (found.path, found.found, found.fix) == ("validation.gate", '"yes"', "write true")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("0o14", 'write 12 for the number, or "0o14" for the text'),
        ("012345678901", 'write 12345678901 for the number, or "012345678901" for the text'),
        ("12e0", 'write 12 for the number, or "12e0" for the text'),
        ("1234e56", 'write "1234e56" in quotes'),
        ("2026-11-30", 'write "2026-11-30" for the text, or a time such as 2026-11-30T00:00:00Z'),
    ],
)
def test_a_text_that_the_pulumi_cli_does_not_read_as_text_needs_quotes(
    tmp_path: Path, text: str, fix: str
) -> None:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, f"a: 1\nb: {{c: {text}}}\n")
    (found,) = caught.value.problems
    assert (found.path, found.fix) == ("line 2, column 8", fix)
    assert read(tmp_path, f'b: {{c: "{text}", until: 2026-12-31}}\n')["b"]["c"] == text


@pytest.mark.parametrize("key", ["~", "2026-11-30", "!!binary aGk=", "[a]", "{a: b}"])
def test_a_key_is_a_text_or_a_number(tmp_path: Path, key: str) -> None:
    with pytest.raises(BadInput, match="is used as a key"):
        read(tmp_path, f"? {key}\n: 1\n")


def test_manifests_may_have_octal_modes_of_files(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("defaultMode: 0644\n---\ndate: 2026-11-30\n", "utf-8")
    assert read_yaml_documents(path)[0] == {"defaultMode": 0o644}


def test_a_pool_may_override_a_field_of_an_anchor(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    pools = "    pools:\n      - {name: a, <<: *pool}\n      - {<<: *pool, name: b, count: {desired: 2}}\n"
    path.write_text(f"x-pool: &pool {POOL}\n{HEAD}{pools}", "utf-8")
    found: Any = read_stack_file(path).platform
    assert [(pool["name"], pool["count"]["desired"]) for pool in found["pools"]] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("config:\n  gpu-platform:platform:\n    secure: 'v1:abc:def'\n", "(the whole file)"),
        (f"{HEAD}    pools: []\n".replace("name: x", "name: {secure: 'v1:abc:def'}"), "cluster.name"),
        (f"{HEAD}    pools: [{{secure: 'v1:abc:def'}}]\n", "pools[0]"),
    ],
)
def test_an_encrypted_value_is_named_as_one_and_only_once(tmp_path: Path, text: str, place: str) -> None:
    found = [one for one in problems(tmp_path, text) if one.path.startswith(place)]
    assert [(one.path, one.found) for one in found] == [(place, "a value that Pulumi encrypted (secure)")]


def test_configuration_from_an_environment_of_pulumi_esc_is_named(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "environment: [shared/gpu]\nconfig: {aws:region: us-east-2}\n")
    assert "`environment` of Pulumi ESC" in found.found
    assert found.fix == "write gpu-platform:platform into this file, because it contains no secrets"


@pytest.mark.parametrize("key", ["gpu-platfrom:platform", "gpuplatform:platform", "gpu-platform:platfom"])
def test_a_misspelt_key_of_the_platform_is_renamed_by_the_fix(tmp_path: Path, key: str) -> None:
    (found,) = problems(tmp_path, f"config:\n  {key}: {{kind: environment}}\n")
    assert found.fix == f"rename {key!r} to 'gpu-platform:platform'"


@pytest.mark.parametrize(("dash", "column"), [("      - ", 9), ("      -   ", 11), ("       - ", 10)])
def test_the_fix_of_a_key_between_dash_and_keys_is_their_column(tmp_path: Path, dash: str, column: int) -> None:
    entry = f"{HEAD}    pools:\n{dash}name: a\n"
    (found,) = problems(tmp_path, f"{entry}       machine_type: p4de.24xlarge\n")
    assert found.fix == f"start the line at column {column}, like the keys of its entry"
    fixed = f"{entry}{' ' * (column - 1)}machine_type: p4de.24xlarge\n"
    assert not [one for one in problems(tmp_path, fixed) if "indented" in one.found]


@pytest.mark.parametrize(
    ("inserted", "place", "found", "fix"),
    [
        (
            "<<<<<<< HEAD\n    pools: []",
            "line 5, column 1",
            "a conflict marker of git",
            "resolve the merge conflict",
        ),
        ("=======\n    pools: []", "line 5, column 1", "a conflict marker of git", "resolve the merge conflict"),
        ("    pools:\u00a0[]\n    teams: []", "line 5, column 11", "the space '\\xa0'", "type a space"),
    ],
)
def test_text_of_git_and_of_editors_is_named_at_its_line(
    tmp_path: Path, inserted: str, place: str, found: str, fix: str
) -> None:
    (problem,) = problems(tmp_path, f"{HEAD}{inserted}\n    teams: []\n")
    assert (problem.path, problem.found, problem.fix) == (place, found, fix)

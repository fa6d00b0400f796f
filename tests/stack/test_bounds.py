"""No stack file takes minutes or gigabytes to read, and no number in it is misread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.stack import bounds
from gpu_platform.stack.load import parse_platform, read_yaml_file
from gpu_platform.stack.loaded import plan_platform

LOCAL: dict[str, Any] = yaml.safe_load((STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8"))["config"][
    "gpu-platform:platform"
]


def written(folder: Path, text: str) -> Path:
    path = folder / "Pulumi.test.yaml"
    path.write_text(text, "utf-8")
    return path


def bomb(levels: int, anchors: str = "a") -> str:
    """Return YAML whose last value expands to 10 ** levels values."""
    lines = [f"{anchors}0: &{anchors}0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{anchors}{i}: &{anchors}{i} [{', '.join([f'*{anchors}{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        (bomb(9), "line 5", "more than 100,000 values, with aliases expanded"),
        ("a: &a\n- *a\n", "line 2, column 3", "the alias *a inside its own value"),
        ("a: &a 1\nb: [" + "*a, " * 1001 + "]", "line 2", "more than 1,000 aliases"),
        ("[" * 900 + "]" * 900, "line 1, column 51", "nesting deeper than 50 levels"),
        ("\n".join(" " * i + "a:" for i in range(900)), "line 51", "nesting deeper than 50 levels"),
        ("- {}\n" * 150_000, "line 100000", "more than 100,000 values"),
    ],
    ids=["alias bomb", "recursion", "aliases", "flow depth", "block depth", "values"],
)
def test_a_file_that_stands_for_too_much_is_refused_by_its_place(
    tmp_path: Path, text: str, place: str, found: str
) -> None:
    with pytest.raises(BadInput) as caught:
        read_yaml_file(written(tmp_path, text))

    (problem,) = caught.value.problems
    assert problem.path.startswith(place)
    assert found in problem.found
    assert caught.value.exit_code is ExitCode.BAD_INPUT


def test_a_file_of_more_than_a_mebibyte_is_refused_with_its_size(tmp_path: Path) -> None:
    path = written(tmp_path, "a: " + "x" * bounds.MAX_BYTES)

    with pytest.raises(BadInput, match=r"found 1,048,579 bytes; allowed: at most 1,048,576 bytes"):
        read_yaml_file(path)


def test_an_endless_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"found more than 1,048,576 bytes"):
        read_yaml_file(Path("/dev/zero"))


def test_aliases_and_merge_keys_within_the_limits_are_read(tmp_path: Path) -> None:
    text = "base: &base {a: 1}\nuse: {<<: *base, b: 2}\nlist: [*base, *base]\n"

    assert read_yaml_file(written(tmp_path, text)) == {
        "base": {"a": 1},
        "use": {"a": 1, "b": 2},
        "list": [{"a": 1}, {"a": 1}],
    }


def test_an_octal_number_is_refused_with_its_decimal_value(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_yaml_file(written(tmp_path, "count:\n  desired: 010\n"))

    (problem,) = caught.value.problems
    assert problem.path == "line 2, column 12"
    assert "(8)" in problem.found
    assert problem.fix.startswith("write 10 for the number")
    assert read_yaml_file(written(tmp_path, 'count: "010"')) == {"count": "010"}


@pytest.mark.parametrize("time", ["22:00", "1:30", "190:20:30.15"])
def test_a_time_without_quotes_is_a_text(tmp_path: Path, time: str) -> None:
    assert read_yaml_file(written(tmp_path, f"start: {time}\nother: 7\n")) == {"start": time, "other": 7}


@pytest.mark.parametrize(
    ("field", "count", "allowed"),
    [("pools", 201, "at most 200"), ("teams", 1001, "at most 1,000"), ("priorities", 201, "at most 200")],
)
def test_a_list_that_is_too_long_is_one_problem_with_its_length(field: str, count: int, allowed: str) -> None:
    entry = LOCAL["teams" if field == "priorities" else field][0]
    value: Any = {f"p{index}": index for index in range(count)} if field == "priorities" else [entry] * count

    with pytest.raises(BadInput) as caught:
        parse_platform({**LOCAL, field: value}, "test")

    (problem,) = caught.value.problems
    assert problem.path == field
    assert allowed in problem.allowed
    assert f"{count:,}" in problem.found


def test_members_of_a_team_are_bounded() -> None:
    team = {**LOCAL["teams"][0], "members": [f"user:u{index}" for index in range(1001)]}

    with pytest.raises(BadInput, match=r"teams\[0\]\.members: found .*1,001.*at most 1,000"):
        parse_platform({**LOCAL, "teams": [team]}, "test")


def test_every_mistake_of_a_long_file_is_reported_in_one_run() -> None:
    team = LOCAL["teams"][0]
    teams = [{**team, "name": f"team-{index}", "members": []} for index in range(1000)]

    with pytest.raises(BadInput) as caught:
        plan_platform({**LOCAL, "teams": teams}, "test")

    assert sum(problem.path.endswith(".members") for problem in caught.value.problems) == 1000


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x7f", "\u200b", "\u202e", "\u2028", "\ufeff"])
def test_a_character_that_nobody_sees_is_refused_by_its_place(character: str) -> None:
    team = {**LOCAL["teams"][0], "members": ["group:vision", f"user:ad{character}a"], "quota": {"gpus": -1}}
    with pytest.raises(BadInput) as caught:
        parse_platform({**LOCAL, "teams": [team]}, "test")
    found = {problem.path: problem for problem in caught.value.problems}
    assert found["teams[0].members[1]"].fix == f"remove {character!a}"
    assert "teams[0].quota.gpus" in found  # reported together with all other mistakes in the file
    assert character not in str(caught.value)


def test_tabs_and_lines_of_a_text_are_admitted() -> None:
    team = {**LOCAL["teams"][0], "workloads": [{**LOCAL["teams"][0]["workloads"][0], "command": ["sh", "a\n\tb"]}]}
    assert parse_platform({**LOCAL, "teams": [team]}, "test")

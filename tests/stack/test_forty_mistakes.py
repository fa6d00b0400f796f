"""One stack file with more than forty mistakes: each is reported once, at its line, with a fix that removes it.

The test knows only the program's output. Like a person, it finds each place by line and column, and follows the
text of the fix.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command_line import run

FILE = Path(__file__).parent.parent / "forty_mistakes" / "Pulumi.forty.yaml"
MARK = re.compile(r"# (\d)$")
Problem = dict[str, Any]


def _problems(path: Path) -> list[Problem]:
    code, out, _ = run("check", str(path), "--format", "json")
    assert code == 2
    return json.loads(out)["problems"]


def _identity(problem: Problem) -> tuple[str, str]:
    """Return a value that identifies a problem across runs. It omits the line number of a YAML error."""
    return (re.sub(r"^line .*", "yaml", problem["path"]), problem["found"])


# -- a fix, as a person applies it -------------------------------------------------------------------------


def _is_at(node: yaml.Node, problem: Problem) -> bool:
    return (node.start_mark.line + 1, node.start_mark.column + 1) == (problem["line"], problem["column"])


def _is_below(at: yaml.Node, value: yaml.Node, problem: Problem) -> bool:
    """Return whether the problem is about the first key of a list item, which begins at the same place as the
    item.
    """
    is_item = at is value and isinstance(value, yaml.MappingNode)
    return is_item and not problem["path"].endswith("]") and problem["found"] != "nothing"


def _node_at(text: str, problem: Problem) -> tuple[yaml.Node, yaml.Node, yaml.Node]:
    """Return the node at the problem's place, the node of its value, and the mapping or list that contains it."""

    def search(node: yaml.Node) -> Any:
        children = node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else []
        for child in children:
            at, value = child if isinstance(child, tuple) else (child, child)
            if _is_at(at, problem):
                return search(value) if _is_below(at, value, problem) else (at, value, node)
            if isinstance(value, yaml.ScalarNode) and _is_at(value, problem):
                return value, value, node
        for child in children:
            found = search(child[1] if isinstance(child, tuple) else child)
            if found:
                return found
        return None

    root = yaml.compose(text)
    assert root is not None
    found = search(root)
    assert found, problem
    return found


def _cut(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _apply(text: str, problem: Problem) -> str:
    fix: str = problem["fix"]
    at, value, owner = _node_at(text, problem)
    if match := re.match(r"add (.+)", fix):
        first = owner.value[0] if at is not value else value.value[0]
        start = (first[0] if isinstance(first, tuple) else first).start_mark
        return _cut(text, start.index, start.index, f"{match[1]}\n{' ' * start.column}")
    if fix.startswith("remove it"):
        if isinstance(owner, yaml.SequenceNode):
            before = owner.value[owner.value.index(at) - 1]
            return _cut(text, before.end_mark.index, value.end_mark.index, "")
        end = text.index("\n", value.end_mark.index) + 1
        return _cut(text, at.start_mark.index - at.start_mark.column, end, "")
    if match := re.match(r"did you mean '(.+?)'\?|rename it, for example to '(.+?)'", fix):
        new = match[1] or match[2]
        is_key = problem["found"].startswith(("unknown", "the key"))
        node = at if is_key else value
        return _cut(text, node.start_mark.index, node.end_mark.index, new)
    if match := re.match(r"(?:for example, )?write (\w+): (\{.*\}|[\w.-]+)", fix):
        if problem["path"].endswith(f".{match[1]}"):
            return _cut(text, value.start_mark.index, value.end_mark.index, match[2])
        (old,) = [entry for key, entry in value.value if key.value == match[1]]
        return _cut(text, old.start_mark.index, old.end_mark.index, match[2])
    match = re.match(r"(?:for example, write|for example|write) (\"[^\"]*\"|'[^']*'|[^\s,]+)", fix)
    assert match, f"no fix that can be applied: {problem}"
    return _cut(text, value.start_mark.index, value.end_mark.index, match[1])


# -- the tests ---------------------------------------------------------------------------------------------


def test_each_of_more_than_forty_mistakes_is_reported_once_and_at_its_line() -> None:
    planted: Counter[int] = Counter()
    for number, line in enumerate(FILE.read_text("utf-8").splitlines(), start=1):
        if mark := MARK.search(line):
            planted[number] = int(mark[1])
    problems = _problems(FILE)
    reported = Counter(problem["line"] for problem in problems)
    assert reported == planted
    assert planted.total() >= 40
    assert len({_identity(problem) for problem in problems}) == len(problems)
    assert [problem["line"] for problem in problems] == sorted(reported.elements()), "in the order of the file"


@pytest.fixture(scope="module")
def planted() -> list[Problem]:
    return _problems(FILE)


@pytest.mark.parametrize("index", range(48))
def test_a_fix_removes_its_mistake_and_adds_none(tmp_path: Path, planted: list[Problem], index: int) -> None:
    problems = planted
    path = tmp_path / FILE.name
    path.write_text(_apply(FILE.read_text("utf-8"), problems[index]), "utf-8")
    left = Counter(map(_identity, _problems(path)))
    assert left == Counter(_identity(problem) for i, problem in enumerate(problems) if i != index)


def test_the_fixes_of_all_mistakes_make_a_stack_file_that_check_takes(
    tmp_path: Path, planted: list[Problem]
) -> None:
    path = tmp_path / FILE.name
    text = FILE.read_text("utf-8")
    for problem in reversed(planted):  # starts from the end, so that earlier places do not move
        text = _apply(text, problem)
    path.write_text(text, "utf-8")
    code, out, err = run("check", str(path), "--format", "json")
    assert code != 2, err
    assert "policies" in json.loads(out)


def test_sarif_has_the_mistakes_at_their_lines_and_columns() -> None:
    _, out, _ = run("check", str(FILE), "--format", "sarif")
    regions = [
        result["locations"][0]["physicalLocation"]["region"] for result in json.loads(out)["runs"][0]["results"]
    ]
    expected = [(problem["line"], problem["column"]) for problem in _problems(FILE)]
    assert sorted((one["startLine"], one["startColumn"]) for one in regions) == expected

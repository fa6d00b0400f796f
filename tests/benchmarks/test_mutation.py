"""The mutation tool on a small tree of its own: its verdicts, what it leaves out, and how it goes on."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import mutation
import pytest
from mutants import Mutant, mutants_of
from mutation import Copy, Result, Selection, Stage, Unchanged

MODULE = "def least(a, b):\n    return a if a < b else b\n\n\ndef unused():\n    return 5\n"
TESTS = """
from pathlib import Path
from thing import least

def test_least():
    assert least(1, 2) == 1

def test_that_fails_anyway():
    assert least(1, 2) == 7

def test_that_fails_every_other_time():
    file = Path(__file__).with_suffix(".seen")
    seen = file.exists()
    file.unlink() if seen else file.touch()
    assert seen
"""
WHOLE = Stage(("test_thing.py",), "not sandbox")


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a fifth of the time
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    (tmp_path / "thing.py").write_text(MODULE, "utf-8")
    (tmp_path / "test_thing.py").write_text(TESTS, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = sandbox\n", "utf-8")
    return Copy(tmp_path, workers=0)


def mutant(replacement: str) -> Mutant:
    [one] = [one for one in mutants_of("thing.py", MODULE.encode()) if one.replacement == replacement]
    return one


def test_a_mutant_that_a_test_notices_is_killed_and_the_file_is_put_back(copied: Copy) -> None:
    result = copied.evaluate(mutant("(a >= b)"), [Selection(WHOLE, (WHOLE,))])
    assert (result.verdict, result.test) == ("killed", "test_thing.py::test_least")
    assert (result.path, result.line, result.operator) == ("thing.py", 2, "comparison")
    assert (copied.folder / "thing.py").read_text("utf-8") == MODULE


def test_neither_a_test_that_always_fails_nor_one_that_fails_at_times_kills_a_mutant(
    copied: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    # The flaky test fails without a change, passes with it, and so on: it is left out in every order.
    result = copied.evaluate(mutant("6"), [Selection(WHOLE, (WHOLE,))])
    assert result.verdict == "survived"
    assert "left out, failing without a change: test_thing.py::test_that_fails_anyway" in capsys.readouterr().err
    copied.unchanged[WHOLE] = Unchanged(60.0, frozenset({"test_thing.py::test_that_fails_anyway"}), runs=True)
    assert copied.evaluate(mutant("6"), [Selection(WHOLE, (WHOLE,))]).verdict == "survived"


def test_a_mutant_that_never_ends_is_a_timeout(copied: Copy) -> None:
    copied.unchanged[WHOLE] = Unchanged(3.0, frozenset(), runs=True)
    hanging = replace(mutant("6"), start=0, end=0, replacement="import time\nwhile True: time.sleep(1)\n")
    assert copied.evaluate(hanging, [Selection(WHOLE, (WHOLE,))]).verdict == "timeout"
    assert (copied.folder / "thing.py").read_text("utf-8") == MODULE


def test_tests_that_cannot_run_without_a_change_leave_the_verdict_unknown(copied: Copy) -> None:
    missing = Stage(("test_missing.py",), "not sandbox")
    assert copied.evaluate(mutant("6"), [Selection(missing, (missing,))]).verdict == "unknown"


def test_the_tests_that_import_a_module_come_first_and_those_of_the_sandbox_last() -> None:
    [plain, sandboxed] = mutation.selections_of("gpu_platform/rollout/layouts.py", mutation.ROOT, sandbox=True)
    direct, rest = plain.stages
    assert direct.paths == ("tests/rollout/test_rollout_layouts.py",)
    assert rest.paths == plain.whole.paths == ("tests/rollout", "tests/cli")
    assert rest.ignored == direct.paths
    assert sandboxed.whole.markers == "sandbox"
    assert len(mutation.selections_of("gpu_platform/rollout/layouts.py", mutation.ROOT, sandbox=False)) == 1


@pytest.mark.parametrize("prefix", mutation.TESTS)
def test_every_folder_that_the_tests_are_mapped_to_is_there(prefix: str) -> None:
    plain, sandboxed = mutation.TESTS[prefix]
    assert [part for part in (prefix, *plain, *sandboxed) if not (mutation.ROOT / part).exists()] == []


def test_a_seed_draws_the_same_sample_each_time_and_another_seed_another_one() -> None:
    areas = ["policies/sharing.py"]
    first, total = mutation.sample_of(mutation.ROOT, 5, 1, areas)
    assert len(first) == 5 < total
    assert mutation.sample_of(mutation.ROOT, 5, 1, areas)[0] == first
    assert mutation.sample_of(mutation.ROOT, 5, 2, areas)[0] != first


def test_finished_mutants_are_read_again_and_other_samples_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "out" / "results.jsonl"
    run: dict[str, Any] = {"seed": 1}
    assert mutation.read_results(file, run) == {}
    done = Result("a", "p.py", 1, "key", "x", "y", "killed", 1.0)
    lines = [mutation.json.dumps(mutation.asdict(one)) for one in (done, replace(done, id="b", verdict="unknown"))]
    file.write_text(file.read_text("utf-8") + "\n".join([*lines, '{"id": "c", "pa']), "utf-8")
    assert mutation.read_results(file, run) == {"a": done}
    with pytest.raises(ValueError, match="found results of another sample"):
        mutation.read_results(file, {"seed": 2})


def test_the_copy_has_what_git_would_add_as_it_is_in_the_working_tree(tmp_path: Path) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    tree.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    for name, text in {".gitignore": "*.log\n", "a.py": "x = 1\n", "b.log": ""}.items():
        (tree / name).write_text(text, "utf-8")
    mutation.copy_tree(tree, copy)
    assert (copy / "a.py").read_text("utf-8") == "x = 1\n"
    assert not (copy / "b.log").exists()


def test_the_report_names_survivors_with_both_lines_and_counts_all() -> None:
    killed = Result("a", "p.py", 1, "key", "x", "y", "killed", 1.0)
    survivor = Result("b", "q.py", 7, "constant", "x = 1", "x = 2", "survived", 1.0)
    lines = list(mutation.report([killed, survivor, replace(killed, verdict="timeout")], 90))
    assert lines[:3] == ["survived: q.py:7 (constant)", "  - x = 1", "  + x = 2"]
    assert lines[3:] == ["3 of 90 mutants: 1 killed, 1 survived, 1 timeout, 0 unknown", "noticed: 67 %"]


def test_the_report_gives_the_reason_of_a_survivor_that_is_explained() -> None:
    survivor = Result("b", "q.py", 7, "constant", "x = 1", "x = 2", "survived", 1.0)
    lines = list(mutation.report([survivor], 90, {("q.py", "x = 1", "x = 2"): "x is not read"}))
    assert lines[3] == "  explained: x is not read"


@pytest.mark.parametrize("key", mutation.explained(), ids=lambda key: f"{key[0]}: {key[2]}")
def test_an_explained_survivor_is_a_mutant_of_the_code_as_it_is(key: tuple[str, str, str]) -> None:
    path, before, after = key
    found = mutants_of(path, (mutation.ROOT / path).read_bytes())
    assert (before, after) in {(mutant.before, mutant.after) for mutant in found}

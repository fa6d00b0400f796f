"""Every file in tests/broken_stacks is named after its mistake, and its first lines list the expected errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_platform.cli import main

FOLDER = Path(__file__).parent.parent / "broken_stacks"
FILES = sorted(FOLDER.glob("Pulumi.*.yaml"))
MARK = "# expect: "


def _expected(file: Path) -> list[str]:
    lines = file.read_text("utf-8").splitlines()
    return [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]


def test_there_are_at_least_forty_broken_stack_files() -> None:
    assert len(FILES) >= 40


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.split(".")[1])
def test_a_broken_stack_file_gives_exactly_its_errors_and_exit_code_2(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()
    with pytest.raises(SystemExit) as stop:
        main(["check", str(file)])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert "Traceback" not in printed.err
    problems = [line for line in printed.err.splitlines() if line.startswith("  - ")]
    expected = _expected(file)
    assert expected, "a broken file lists its expected errors"
    assert len(problems) == len(expected)
    for text in expected:
        assert any(text in problem for problem in problems), f"{text!r} not in {problems}"
    assert file.read_bytes() == before


@pytest.mark.parametrize("command", ["check", "capacity", "preview", "up", "destroy", "validate"])
def test_every_command_refuses_a_broken_stack_before_it_touches_anything(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, str(FOLDER / "Pulumi.mig_on_t4.yaml")])
    assert stop.value.code == 2
    assert "pools[0].sharing.mode" in capsys.readouterr().err


def test_json_output_lists_each_problem_with_its_place_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    with pytest.raises(SystemExit):
        main(["check", str(FOLDER / "Pulumi.two_mistakes_of_two_kinds.yaml"), "--format", "json"])
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [problem["path"] for problem in problems] == ["pools[0].workload", "pools[1].machine_type"]
    assert problems[1]["fix"] == "did you mean 'p5.48xlarge'?"


def test_a_stack_name_that_is_no_label_value_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "ml-" + "x" * 61
    file = tmp_path / f"Pulumi.{name}.yaml"
    file.write_text((FOLDER.parent.parent / "stacks/Pulumi.local.yaml").read_text())
    with pytest.raises(SystemExit) as stop:
        main(["check", str(file)])
    assert stop.value.code == 2
    assert f"stack: found the name {name!r}; allowed: a name of at most 63" in capsys.readouterr().err


def test_an_unknown_stack_name_names_the_stacks_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["check", "lokal"])
    assert stop.value.code == 2
    assert "did you mean 'local'?" in capsys.readouterr().err

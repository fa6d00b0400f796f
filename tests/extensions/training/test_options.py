from __future__ import annotations

import pytest

from gpu_platform_training.options import Every, parse


def test_what_follows_the_target_is_the_programs_own() -> None:
    found = parse(["--parallel", "fsdp", "--checkpoint-every", "10m", "train:main", "--lr", "0.1"])
    assert found.target == "train:main"
    assert found.arguments == ("--lr", "0.1")
    assert found.parallel == "fsdp"
    assert found.checkpoint_every == Every(seconds=600)


def test_an_interval_without_a_unit_is_in_steps() -> None:
    assert parse(["--report-every", "50", "train:main"]).report_every == Every(steps=50)


@pytest.mark.parametrize(
    "wrong",
    [["--checkpoint-every", "soon"], ["--checkpoint-every", "0"], ["--profile", "9:3"], ["--keep", "0"]],
)
def test_wrong_options_end_with_the_exit_code_of_wrong_usage(wrong: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([*wrong, "train:main"])
    assert ended.value.code == 2
    assert f"argument {wrong[0]}: found {wrong[1]!r}, expected" in capsys.readouterr().err

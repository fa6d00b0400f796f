"""The help, the output and the errors of all commands have a consistent style. Text files record a help text, a
successful call and a failing call of each command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._completion_shared import get_completion_script

from gpu_platform.cli.app import app
from tests.cli.transcripts import ASSETS, CALLS, FOLDER, file_of, names, transcript
from tests.support.command_line import Ran
from tools.docs.cli import commands_of

Run = Callable[..., Ran]
COMMANDS: Any = typer.main.get_command(app)


def test_every_command_has_a_transcript_and_no_other_is_left() -> None:
    assert set(CALLS) == set(names())
    assert {file.name for file in FOLDER.iterdir()} == {file_of(name).name for name in names()}


@pytest.mark.parametrize("command", sorted(CALLS))
def test_a_command_prints_its_transcript(command: str) -> None:
    assert transcript(command) == file_of(command).read_text("utf-8"), "python -m tests.cli.transcripts"


@pytest.mark.parametrize("command", sorted(CALLS))
def test_help_fits_80_columns_and_errors_name_what_to_do(command: str) -> None:
    text = file_of(command).read_text("utf-8")
    help_text, *calls = re.split(r"(?<=\))\n\n(?=\$ )", text)
    assert "-h, --help" in help_text
    assert all(len(line) <= 80 for line in help_text.splitlines()[:-1])
    assert "Value error" not in text
    for call in calls:
        code = int(call.rstrip()[-2])
        if code == 2:
            assert "error: " in call.lower()
            assert "Fix: " in call or "Try 'gpu-platform" in call, call


def test_every_command_that_prints_results_has_a_json_form() -> None:
    serves = {("node-metrics",)}
    for path, command in commands_of(typer.main.get_command(app), ()):
        if tuple(path) in serves:
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--format" in options, path


@pytest.fixture(scope="module")
def widest() -> dict[str, str]:
    """Return an empty dictionary that stores the untruncated output of each call. The tests of all widths share
    it.
    """
    return {}


@pytest.mark.parametrize("width", ["80", "100", "160"])
@pytest.mark.parametrize(
    "call",
    [
        "capacity local",
        "check local",
        "machines list",
        "machines show p5.48xlarge",
        "mig list --gpu a100-80gb",
        "policies list",
        "policies explain cost-ceiling",
        "cost local",
        f"place local --workloads {ASSETS}/pods.yaml",
        f"rehearse local --trace {ASSETS}/jobs.csv",
        "conformance eks-training",
        "upgrade local --today 2026-11-25",
    ],
)
def test_tables_fit_the_terminal_and_break_no_word(
    run: Run, widest: dict[str, str], call: str, width: str
) -> None:
    code, narrow, _ = run(*call.split(" "), env={"COLUMNS": width})
    if call not in widest:
        widest[call] = run(*call.split(" "), env={"COLUMNS": "400"}).out
    assert code in (0, 1)
    words = set(re.findall(r"\S+", widest[call]))
    # The hint about omitted columns appears only at narrow widths.
    left_out = [line for line in narrow.splitlines() if line.startswith("(not shown at this width")]
    lines = [line for line in narrow.splitlines() if line not in left_out]
    broken = {word for line in lines for word in line.split() if word.strip("─")} - words
    assert not {word for word in broken if word.removesuffix(":") not in words}
    tables = [line for line in lines if re.search(r"\S {2,}\S", line.strip()) and not line.startswith("  ")]
    assert all(len(line.rstrip()) <= int(width) for line in tables), [
        line for line in tables if len(line) > int(width)
    ]


def test_capacity_shows_first_what_matters_at_80_columns(run: Run) -> None:
    _, out, _ = run("capacity", "local", env={"COLUMNS": "80"})
    heads = out.splitlines()[1].split("  ")
    assert [head.strip() for head in heads if head.strip()] == [
        "pool",
        "nodes",
        "machine type",
        "GPUs",
        "logical GPUs",
        "allocated",
        "USD/h",
    ]


def test_no_color_and_terminals_without_colour_are_respected(run: Run) -> None:
    _, out, err = run("check", "local", env={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert "\x1b[3" not in out + err


def test_short_help_works_for_the_program_and_every_group(run: Run) -> None:
    for group in ("", "capacity", "machines", "mig", "policies", "sandbox", "team"):
        code, out, _ = run(*filter(None, [group, "-h"]))
        assert code == 0
        assert "Usage: " in out, group


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_for_a_shell(shell: str) -> None:
    script = get_completion_script(prog_name="gpu-platform", complete_var="_GPU_PLATFORM_COMPLETE", shell=shell)
    assert "gpu-platform" in script
    options = {option for parameter in typer.main.get_command(app).params for option in parameter.opts}
    assert {"--install-completion", "--show-completion"} <= options


@pytest.mark.parametrize(
    ("flags", "provider"),
    [
        (("--provider", "sandbox"), "sandbox"),
        (("--provider", "eks", "--region", "us-east-2", "--zone", "us-east-2a"), "eks"),
        (
            [
                "--provider",
                "gke",
                "--region",
                "us-central1",
                "--zone",
                "us-central1-a",
                "--project",
                "my-project",
                "--member",
                "group:ml@example.com",
            ],
            "gke",
        ),
        (("--provider", "existing", "--node-names", "gpu-0,gpu-1"), "existing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_init_writes_a_stack_file_that_passes_check(
    run: Run, tmp_path: Path, flags: tuple[str, ...], provider: str
) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    code, out, err = run("init", "mine", *flags, "--out", str(file), "--format", "json")
    assert code == 0, err
    assert json.loads(out)["file"] == str(file)
    assert f"provider: {provider}" in file.read_text("utf-8")
    code, out, err = run("check", str(file))
    assert code == 0, out + err
    code, _, err = run("init", "mine", *flags, "--out", str(file))
    assert code == 2
    assert "which exists" in err


def test_init_without_a_terminal_names_the_flags_that_are_missing_and_writes_nothing(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    code, _, err = run("init", "mine", "--provider", "gke", "--out", str(file))
    assert code == 2
    assert [flag for flag in ("--region", "--zone", "--project", "--member") if f"add {flag}" in err] == [
        "--region",
        "--zone",
        "--project",
        "--member",
    ]
    assert not file.exists()


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        ("init mine --provider aws", "Fix: write eks"),
        ("init mine --provider gcp", "Fix: write gke"),
        ("init mine --provider sandbx", "Fix: did you mean 'sandbox'?"),
        ("machines list --region mars-1", "Fix: leave --region out"),
        ("machines list --gpu foo", "Fix: leave out --gpu"),
    ],
)
def test_a_wrong_name_is_an_error_with_a_fix_and_nothing_is_written(
    run: Run, tmp_path: Path, call: str, fix: str
) -> None:
    out = ["--out", str(tmp_path / "Pulumi.mine.yaml")] if call.startswith("init") else []
    code, _, err = run(*call.split(" "), *out)
    assert (code, fix in err) == (2, True), err
    assert list(tmp_path.iterdir()) == []


def test_machines_are_listed_by_provider_gpu_and_region(run: Run) -> None:
    _, out, _ = run("machines", "list", "--provider", "gke", "--gpu", "H100-80GB", "--format", "json")
    machines = json.loads(out)["machine_types"]
    assert machines
    assert {(one["provider"], one["gpu"]) for one in machines} == {("gke", "h100-80gb")}
    _, out, _ = run("machines", "list", "--region", "us-west-1", "--format", "json")
    priced = {one["name"]: one["usd_per_hour"] for one in json.loads(out)["machine_types"]}
    assert "p5.48xlarge" in priced
    assert "g6e.12xlarge" not in priced


@pytest.mark.parametrize(
    "group", ["", *(name for name, one in COMMANDS.commands.items() if hasattr(one, "commands"))]
)
def test_no_help_cuts_off_what_a_command_does(run: Run, group: str) -> None:
    _, out, _ = run(*group.split(), "--help")
    assert "..." not in out.partition("\n")[2]  # the usage line may contain an ellipsis
    known = COMMANDS.commands[group].commands if group else COMMANDS.commands
    assert {line.split()[0] for line in out.splitlines() if re.match(r"  [a-z-]+ {2,}\S", line)} >= known.keys()

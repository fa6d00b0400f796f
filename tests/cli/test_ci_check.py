"""The pre-commit hook and the GitHub Action that check the stack files of other repositories."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.paths import PROJECT_ROOT
from tests.cli.test_check_report import SHARED_TRAINING

GOOD = SHARED_TRAINING.replace("mode: time-slicing, replicas: 2", "mode: none")
OTHER = "config:\n  aws:region: us-east-2\n"
BROKEN = GOOD.replace("p4de.24xlarge", "p4de.24xlargee")
RULES = {"sharing-across-tenants", "sharing-for-training", "gpu-image-pinned"}


def read(name: str) -> Any:
    return yaml.safe_load((PROJECT_ROOT / name).read_text("utf-8"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Create a user's repository that contains stack files of several Pulumi programs."""
    folder = tmp_path / "theirs"
    (folder / "stacks").mkdir(parents=True)
    (folder / "stacks" / "Pulumi.mine.yaml").write_text(SHARED_TRAINING, "utf-8")
    (folder / "stacks" / "Pulumi.website.yaml").write_text(OTHER, "utf-8")
    return folder


def run(command: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


def hook() -> dict[str, Any]:
    (found,) = read(".pre-commit-hooks.yaml")
    return found


@pytest.mark.long
def test_the_hook_prints_findings_at_their_lines_and_leaves_other_programs_out(repository: Path) -> None:
    broken = repository / "stacks" / "Pulumi.broken.yaml"
    broken.write_text(BROKEN, "utf-8")
    files = sorted(str(one.relative_to(repository)) for one in (repository / "stacks").iterdir())
    assert all(re.search(hook()["files"], one) for one in files)
    done = run([str(PROJECT_ROOT / hook()["entry"]), *files], repository)
    assert done.returncode == 2  # the highest exit code of all files
    found = [
        re.fullmatch(r"stacks/Pulumi\.(\w+)\.yaml:(\d+):\d+: (\w+): ([\w-]+): .+", one)
        for one in done.stdout.splitlines()
    ]
    assert all(found)
    by_file = {(one[1], one[4]): (int(one[2]), one[3]) for one in found if one}
    assert by_file[("mine", "sharing-for-training")] == (12, "warning")
    assert by_file[("mine", "sharing-across-tenants")][1] == "error"
    line = BROKEN.splitlines().index("        machine_type: p4de.24xlargee") + 1
    assert by_file[("broken", "stack-file")] == (line, "error")
    assert "website" not in done.stdout + done.stderr


def test_the_hook_prints_nothing_for_valid_files(repository: Path) -> None:
    good = SHARED_TRAINING[: SHARED_TRAINING.index("      - name: search")]
    good = good.replace("mode: time-slicing, replicas: 2", "mode: none").replace("ranker:latest", "ranker:1.0")
    (repository / "stacks" / "Pulumi.mine.yaml").write_text(good, "utf-8")
    done = run([str(PROJECT_ROOT / hook()["entry"]), "stacks/Pulumi.mine.yaml"], repository)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def checked(repository: Path, *files: str) -> subprocess.CompletedProcess[str]:
    return run([str(PROJECT_ROOT / hook()["entry"]), *files], repository)


def test_a_named_file_that_does_not_exist_is_an_error(repository: Path) -> None:
    done = checked(repository, "stacks/Pulumi.gone.yaml")
    assert (done.returncode, done.stderr) == (2, "error: stacks/Pulumi.gone.yaml: no such file\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("gpu-platform:platform", "gpu-platfrom:platform"), "rename 'gpu-platfrom:platform'"),
        ("environment: [shared/gpu]\nconfig: {aws:region: us-east-2}\n", "Pulumi ESC"),
    ],
    ids=["misspelt", "esc"],
)
def test_a_file_that_looks_like_ours_is_not_left_out(repository: Path, text: str, said: str) -> None:
    (repository / "stacks" / "Pulumi.mine.yaml").write_text(text, "utf-8")
    done = checked(repository, "stacks/Pulumi.mine.yaml")
    assert (done.returncode, said in done.stdout) == (2, True), done.stdout + done.stderr


def test_a_file_in_utf_16_is_not_left_out(repository: Path) -> None:
    """PowerShell writes files in UTF-16 by default."""
    (repository / "stacks/Pulumi.mine.yaml").write_text("config:\n  gpu-platform:platform: {}\n", "utf-16")
    ran = checked(repository, "stacks/Pulumi.mine.yaml")
    assert ran.returncode == 2
    assert "save it as UTF-8" in ran.stdout


def test_stack_files_with_the_same_name_have_separate_log_categories(tmp_path: Path) -> None:
    """GitHub accepts only one log per category (github/codeql-action pull request 2959, read 2026-11-28)."""
    for folder in ("a-b/c", "a/b-c", "a space/d"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "Pulumi.prod.yaml").write_text(BROKEN, "utf-8")
    files = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*.yaml"))
    logs = tmp_path / "logs"
    done = checked(tmp_path, "--github", str(logs), *files)
    runs = [json.loads(one.read_text("utf-8"))["runs"][0] for one in logs.iterdir()]
    assert len({one["automationDetails"]["id"] for one in runs}) == len(runs) == 3
    places = {one["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in runs}
    assert places == {"a-b/c/Pulumi.prod.yaml", "a/b-c/Pulumi.prod.yaml", "a%20space/d/Pulumi.prod.yaml"}
    assert "file=a space/d/Pulumi.prod.yaml," in done.stdout


def test_the_entry_of_the_hook_is_a_program_of_the_checkout() -> None:
    """For a hook of type `script`, pre-commit runs a file of the hook's repository in the user's repository."""
    assert hook()["language"] == "script"
    assert os.access(PROJECT_ROOT / hook()["entry"], os.X_OK)
    assert hook()["require_serial"] is True  # parallel runs would set up the environment at the same time
    local = {one["id"]: one for one in read(".pre-commit-config.yaml")["repos"][0]["hooks"]}
    assert local["stacks"]["entry"] == hook()["entry"]


def steps() -> dict[str, dict[str, Any]]:
    return {one.get("name", one.get("uses", "")): one for one in read("action.yml")["runs"]["steps"]}


def run_action(repository: Path, folder: Path, stacks: str) -> subprocess.CompletedProcess[str]:
    """Run the action's check as the runner does (https://docs.github.com/actions, workflow syntax, `shell`)."""
    script = folder / "step.sh"
    script.write_text(steps()["Check"]["run"], "utf-8")
    return run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        repository,
        STACKS=stacks,
        RUNNER_TEMP=str(folder / "temp"),
        GITHUB_OUTPUT=str(folder / "output"),
        GITHUB_ACTION_PATH=str(PROJECT_ROOT),
    )


@pytest.mark.long
def test_the_action_writes_logs_annotates_lines_and_fails_like_check(repository: Path, tmp_path: Path) -> None:
    done = run_action(repository, tmp_path, "stacks/Pulumi.m*.yaml\nnothing/*.yaml\n")
    assert done.returncode == 1, done.stderr
    folder = Path((tmp_path / "output").read_text("utf-8").strip().removeprefix("sarif="))
    assert folder.parent == tmp_path / "temp"
    (log,) = folder.iterdir()
    results = json.loads(log.read_text("utf-8"))["runs"][0]["results"]
    assert {one["ruleId"] for one in results if one["level"] != "note"} == RULES
    command = re.compile(
        r"::(error|warning|notice) file=stacks/Pulumi\.mine\.yaml,line=\d+,col=\d+,title=([\w-]+)::.+"
    )
    unmatched, *lines = done.stdout.splitlines()
    assert unmatched == "::warning title=gpu-platform::no stack file matches: nothing/*.yaml"
    annotated = [command.fullmatch(one) for one in lines]
    assert all(annotated)
    assert {one[2] for one in annotated if one and one[1] != "notice"} == RULES


def test_the_actions_patterns_may_have_spaces_and_must_match(repository: Path, tmp_path: Path) -> None:
    (repository / "my stacks").mkdir()
    (repository / "my stacks" / "Pulumi.mine.yaml").write_text(BROKEN, "utf-8")
    done = run_action(repository, tmp_path, "my stacks/*.yaml\nother/*.yaml\n")
    assert done.returncode == 2
    assert "file=my stacks/Pulumi.mine.yaml," in done.stdout
    assert "::warning title=gpu-platform::no stack file matches: other/*.yaml\n" in done.stdout


def test_the_action_fails_where_no_file_matches(repository: Path, tmp_path: Path) -> None:
    done = run_action(repository, tmp_path, "stack/*.yaml")
    assert done.returncode == 2
    assert "::error title=gpu-platform::no stack file matches: stack/*.yaml" in done.stdout


def test_the_action_uploads_what_its_check_wrote_and_runs_no_text_of_its_inputs() -> None:
    action = read("action.yml")
    assert action["runs"]["using"] == "composite"
    for step in steps().values():
        assert ("run" in step) != ("uses" in step)
        # In a composite action, every script must name its shell.
        # If a script contained an expression, the value of an input could run as code.
        assert "run" not in step or (step["shell"], "${{" in step["run"]) == ("bash", False)
        assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", step["uses"])
    named = set(re.findall(r"inputs\.([\w-]+)", (PROJECT_ROOT / "action.yml").read_text("utf-8")))
    assert named == set(action["inputs"])
    upload = steps()["Upload to code scanning"]
    assert (
        upload["with"]["sarif_file"] == action["outputs"]["sarif"]["value"] == "${{ steps.check.outputs.sarif }}"
    )
    assert upload["if"].startswith("always()")  # findings must be uploaded even if the check fails


def test_ci_uploads_the_folder_that_its_own_check_writes() -> None:
    jobs = read(".github/workflows/ci.yaml")["jobs"].values()
    (job,) = [one for one in jobs if any("upload-sarif" in step.get("uses", "") for step in one["steps"])]
    (upload,) = [one for one in job["steps"] if "upload-sarif" in one.get("uses", "")]
    (check,) = [one for one in job["steps"] if "examples/ci/check.sh" in one.get("run", "")]
    assert upload["with"]["sarif_file"].replace("${{ runner.temp }}", "$RUNNER_TEMP") in check["run"]
    assert upload["if"] == "always()"
    assert job["permissions"]["security-events"] == "write"


def test_text_of_a_finding_ends_no_workflow_command(tmp_path: Path) -> None:
    place = {"artifactLocation": {"uri": "a,b:c"}, "region": {"startLine": 1, "startColumn": 2}}
    result = {
        "ruleId": "stack-file",
        "level": "error",
        "message": {"text": "found 'x\n::stop-commands::y' 5%"},
        "locations": [{"physicalLocation": place}],
    }
    log = tmp_path / "log.sarif"
    log.write_text(json.dumps({"runs": [{"results": [result]}]}), "utf-8")
    done = run([str(PROJECT_ROOT / "examples/ci/findings.py"), "github", str(log)], tmp_path)
    assert done.stdout == (
        "::error file=a%2Cb%3Ac,line=1,col=2,title=stack-file::found 'x%0A::stop-commands::y' 5%25\n"
    )


def test_the_documentation_names_the_existing_hook_and_inputs() -> None:
    (repository,) = read("examples/ci/pre-commit.yaml")["repos"]
    assert [one["id"] for one in repository["hooks"]] == [hook()["id"]]
    (job,) = read("examples/ci/check.yaml")["jobs"].values()
    (use,) = [step for step in job["steps"] if "gpu-platform" in step["uses"]]
    assert set(use["with"]) <= set(read("action.yml")["inputs"])
    assert read("examples/ci/check.yaml")["permissions"]["security-events"] == "write"

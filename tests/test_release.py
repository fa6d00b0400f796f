"""The project's version is the same everywhere, and the release tools report where it differs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.base.paths import PROJECT_ROOT
from tools import release

VERSION = release.project_version(PROJECT_ROOT)
FILES = ("pyproject.toml", release.CHANGE_LOG, *release.COPIES)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a copy of all files that contain the version."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT_ROOT / file, tmp_path / file)
    change_log = tmp_path / release.CHANGE_LOG
    change_log.write_text(
        re.sub(r"(?s)(?<=## Unreleased\n).*?(?=^## \d)", "\n", change_log.read_text(), flags=re.M)
    )
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def test_all_files_have_the_same_version() -> None:
    assert release.problems(PROJECT_ROOT) == []


def test_a_tag_of_this_version_can_be_released(project: Path) -> None:
    assert release.problems(project, f"v{VERSION}") == []


@pytest.mark.parametrize("file", release.COPIES)
def test_a_file_with_another_version_is_named(file: str, project: Path) -> None:
    edit(project / file, VERSION, "9.8.7")
    (problem,) = release.problems(project)
    assert (problem.path, problem.found, problem.allowed) == (file, "9.8.7", VERSION)


def test_a_version_without_a_section_of_the_change_log_is_named(project: Path) -> None:
    edit(project / release.CHANGE_LOG, f"## {VERSION} - ", "## 0.0.1 - ")
    (problem,) = release.problems(project)
    assert (problem.path, problem.found) == ("CHANGELOG.md", "0.0.1 as the newest version")
    assert f"## {VERSION} - <date>" in problem.fix


def test_a_change_log_without_unreleased_is_named(project: Path) -> None:
    edit(project / release.CHANGE_LOG, "## Unreleased\n", "")
    (problem,) = release.problems(project)
    assert problem.allowed == "Unreleased"


@pytest.mark.parametrize("tag", ["v9.9.9", VERSION, f"v{VERSION}rc1"])
def test_another_tag_is_refused(tag: str, project: Path) -> None:
    (problem,) = release.problems(project, tag)
    assert (problem.path, problem.found) == ("tag", tag)


def test_lines_under_unreleased_are_refused_in_a_release(project: Path) -> None:
    edit(project / release.CHANGE_LOG, "## Unreleased\n", "## Unreleased\n\n### Added\n\n- Something.\n")
    assert release.problems(project) == []
    (problem,) = release.problems(project, f"v{VERSION}")
    assert problem.found == "lines under Unreleased"


def test_notes_are_the_section_of_their_version(project: Path) -> None:
    versions = "## 0.3.0 - 2027-01-31\n\n### Added\n\n- New.\n\n## 0.2.0 - 2026-11-29\n\n- Old.\n"
    (project / release.CHANGE_LOG).write_text(f"# Change log\n\n## Unreleased\n\n{versions}")
    assert release.notes(project, "0.3.0") == "### Added\n\n- New."
    assert release.notes(project, "0.2.0") == "- Old."


def test_notes_of_an_unknown_version_name_the_known_ones(project: Path) -> None:
    with pytest.raises(BadInput, match=re.escape(f"found 7.7.7; allowed: {VERSION}, ")):
        release.notes(project, "7.7.7")


def test_the_command_prints_problems_and_exits_with_2() -> None:
    command = [sys.executable, "-m", "tools.release", "check", "v9.9.9"]
    result = subprocess.run(command, cwd=PROJECT_ROOT, text=True, capture_output=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: release: ")
    assert "  - tag: found v9.9.9; allowed: v" in result.stderr


def test_the_tool_needs_no_installed_packages() -> None:
    command = [sys.executable, "-S", "-m", "tools.release", "notes", VERSION]
    result = subprocess.run(command, cwd=PROJECT_ROOT, text=True, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "### Upgrade notes" in result.stdout


def test_the_change_log_has_dated_versions_from_new_to_old() -> None:
    titles = re.findall(r"^## (.+)$", (PROJECT_ROOT / release.CHANGE_LOG).read_text("utf-8"), re.M)
    assert titles[0] == "Unreleased"
    versions = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)", title) for title in titles[1:]]
    assert all(versions)
    numbers = [tuple(map(int, match.groups()[:3])) for match in versions if match]
    assert numbers == sorted(numbers, reverse=True)


def test_the_change_log_has_the_sections_that_contributing_describes() -> None:
    sections = set(re.findall(r"^### (.+)$", (PROJECT_ROOT / release.CHANGE_LOG).read_text("utf-8"), re.M))
    described = (
        (PROJECT_ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Change log")[1].split("## Release")[0]
    )
    assert sections <= set(re.findall(r"^\| ([A-Z][a-z ]+) \|", described, re.M))

"""Checks that a release has the same version everywhere, and prints its release notes.

    python -m tools.release check v0.2.0
    python -m tools.release notes 0.2.0

The version is set in `pyproject.toml`. Files that cannot read it from there contain a copy. The release workflow
runs this module before anything is installed, so it uses only the standard library.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import Final

from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.base.paths import PROJECT_ROOT

CHANGE_LOG: Final = "CHANGELOG.md"
COPIES: Final = {
    "extensions/training/pyproject.toml": r'^version = "(.+)"$',  # a distribution that job images install
    "policies/PulumiPolicy.yaml": r"^version: (.+)$",  # read by the Pulumi CLI
    "uv.lock": r'^name = "gpu-platform"\nversion = "(.+)"$',
    "validators/agent/__init__.py": r'^AGENT_VERSION = "(.+)"$',  # runs on nodes, without the project
}
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_SECTION: Final = re.compile(r"^## (?P<title>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
_DATED: Final = re.compile(rf"({_VERSION.pattern}) - \d{{4}}-\d\d-\d\d")
_UNRELEASED: Final = "Unreleased"


def project_version(root: Path) -> str:
    """Return the version of the project."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def problems(root: Path, tag: str | None = None) -> list[Problem]:
    """Return the places with a wrong version. If a tag is given, also return what prevents a release."""
    version = project_version(root)
    sections = _sections(root)
    dated = [match[1] for title in sections if (match := _DATED.fullmatch(title))]
    result = [
        Problem(file, copy or "no version", version, f"write {version}, the version in pyproject.toml")
        for file, pattern in COPIES.items()
        if (copy := _first(pattern, (root / file).read_text("utf-8"))) != version
    ]
    if dated[:1] != [version]:
        newest = f"{dated[0]} as the newest version" if dated else "no version with a date"
        fix = f"add the section `## {version} - <date>` below {_UNRELEASED}"
        result.append(Problem(CHANGE_LOG, newest, version, fix))
    if next(iter(sections), "") != _UNRELEASED:
        fix = f"add the line `## {_UNRELEASED}` above all versions"
        result.append(Problem(CHANGE_LOG, "another first section", _UNRELEASED, fix))
    if tag is None:
        return result
    if tag != f"v{version}" or not _VERSION.fullmatch(version):
        fix = "tag the commit that sets this version in pyproject.toml"
        result.append(Problem("tag", tag, f"v{version}, with three numbers", fix))
    if sections.get(_UNRELEASED):
        fix = f"move its lines to the section of {version}"
        result.append(Problem(CHANGE_LOG, f"lines under {_UNRELEASED}", "none in a release", fix))
    return result


def notes(root: Path, version: str) -> str:
    """Return the changelog section of a version. Raises BadInput if there is none."""
    sections = {match[1]: text for title, text in _sections(root).items() if (match := _DATED.fullmatch(title))}
    if version not in sections:
        known = ", ".join(sections)
        raise BadInput(CHANGE_LOG, [Problem("version", version, known, f"write `## {version} - <date>`")])
    return sections[version]


def _sections(root: Path) -> dict[str, str]:
    text = (root / CHANGE_LOG).read_text("utf-8")
    return {match["title"]: match["text"].strip() for match in _SECTION.finditer(text)}


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M)
    return match[1] if match else ""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check that the tag, the versions and the changelog agree")
    check.add_argument("tag", nargs="?", help="tag of the release, such as v0.2.0")
    commands.add_parser("notes", help="print the changelog section of a version").add_argument("version")
    arguments = parser.parse_args()
    try:
        if arguments.command == "notes":
            print(notes(PROJECT_ROOT, arguments.version))
        elif mistakes := problems(PROJECT_ROOT, arguments.tag):
            raise BadInput("release", mistakes)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    return ExitCode.GOOD


if __name__ == "__main__":
    sys.exit(main())

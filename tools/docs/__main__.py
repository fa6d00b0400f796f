"""`python -m tools.docs` writes the generated pages and outputs. `--check` fails if any is out of date."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

from gpu_platform.base.paths import PROJECT_ROOT
from tools.docs import catalogue, checks, cli, picture, policies, public_types, stack_file
from tools.docs.outputs import documents, with_outputs


def generated() -> Mapping[Path, str]:
    """Return every file with generated content, and the text that it should have now."""
    reference = PROJECT_ROOT / "docs" / "reference"
    pages = {
        reference / "stack-file.md": stack_file.page(),
        reference / "cli.md": cli.page(),
        reference / "policies.md": policies.page(),
        reference / "checks.md": checks.page(),
        reference / "catalogue.md": catalogue.page(),
    }
    pages[PROJECT_ROOT / "components" / "public" / "stack_file_types.py"] = public_types.module()
    first_steps = (PROJECT_ROOT / "docs" / "getting-started.md").read_text("utf-8")
    up = "gpu-platform up local"
    pages[PROJECT_ROOT / "docs" / "assets" / "up.svg"] = picture.picture(up, picture.quoted(first_steps, up))
    return {**pages, **{path: with_outputs(path.read_text("utf-8")) for path in documents()}}


def stale(files: Mapping[Path, str]) -> list[str]:
    """Return a diff for each file whose text on disk differs from the text in `files`."""
    found: list[str] = []
    for path, text in files.items():
        old = path.read_text("utf-8") if path.exists() else ""
        if old != text:
            name = str(path.relative_to(PROJECT_ROOT))
            diff = difflib.unified_diff(
                old.splitlines(), text.splitlines(), name, f"{name} (now)", lineterm="", n=1
            )
            found.append("\n".join(diff))
    return found


def main() -> int:
    """Write or check the files, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with code 1 if a file is out of date"
    )
    arguments = parser.parse_args()
    files = generated()
    if arguments.check:
        differences = stale(files)
        for difference in differences:
            print(difference, file=sys.stderr)
        if differences:
            print("error: generated documentation is out of date. Fix: run `make docs`", file=sys.stderr)
        return 1 if differences else 0
    for path, text in files.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

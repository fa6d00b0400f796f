"""Adds the site of a version to the folder of all published sites: `python -m tools.pages SITE PAGES VERSION`.

Each version has a folder, and `latest` is a copy of the newest version. The root redirects to `latest`. The
theme's version selector reads `versions.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Final

LATEST: Final = "latest"
_FORWARD: Final = (
    '<!doctype html>\n<meta charset="utf-8">\n<title>gpu-platform</title>\n'
    f'<meta http-equiv="refresh" content="0; url={LATEST}/">\n<a href="{LATEST}/">Documentation</a>\n'
)


def publish(site: Path, pages: Path, version: str) -> None:
    """Copy the site of a version, such as 0.2.0, and update the files that depend on all versions."""
    _replace(site, pages / version)
    versions = sorted((folder.name for folder in pages.iterdir() if _is_version(folder.name)), key=_order)
    newest = versions[-1]
    if newest == version:
        _replace(site, pages / LATEST)
    listed = [
        {"version": name, "title": name, "aliases": [LATEST] if name == newest else []}
        for name in reversed(versions)
    ]
    (pages / "versions.json").write_text(json.dumps(listed, indent=2) + "\n", "utf-8")
    (pages / "index.html").write_text(_FORWARD, "utf-8")
    (pages / ".nojekyll").touch()  # tells GitHub Pages to serve the files unchanged


def _replace(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _is_version(name: str) -> bool:
    return all(part.isdecimal() for part in name.split("."))


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("site", type=Path, help="folder of the built site")
    parser.add_argument("pages", type=Path, help="folder of all sites")
    parser.add_argument("version", help="version of the site, such as 0.2.0")
    arguments = parser.parse_args()
    publish(arguments.site, arguments.pages, arguments.version)

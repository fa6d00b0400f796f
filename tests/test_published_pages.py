"""Each version's documentation keeps its folder, and `latest` points to the newest version."""

from __future__ import annotations

import json
from pathlib import Path

from tools import pages


def site(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_text(text)
    return folder


def test_each_version_of_the_documentation_has_a_folder(tmp_path: Path) -> None:
    for version in ("0.2.0", "0.10.0", "0.9.1"):
        pages.publish(site(tmp_path / "site", version), tmp_path / "pages", version)
    listed = json.loads((tmp_path / "pages" / "versions.json").read_text())
    assert [(one["version"], one["aliases"]) for one in listed] == [
        ("0.10.0", ["latest"]),
        ("0.9.1", []),
        ("0.2.0", []),
    ]
    for name, text in {"0.2.0": "0.2.0", "0.9.1": "0.9.1", "0.10.0": "0.10.0", "latest": "0.10.0"}.items():
        assert (tmp_path / "pages" / name / "index.html").read_text() == text
    assert 'url=latest/"' in (tmp_path / "pages" / "index.html").read_text()


def test_a_version_that_is_published_again_loses_its_old_pages(tmp_path: Path) -> None:
    pages.publish(site(tmp_path / "site", "old"), tmp_path / "pages", "0.2.0")
    (tmp_path / "pages" / "0.2.0" / "gone.html").touch()
    pages.publish(site(tmp_path / "site", "new"), tmp_path / "pages", "0.2.0")
    assert [file.name for file in (tmp_path / "pages" / "0.2.0").iterdir()] == ["index.html"]

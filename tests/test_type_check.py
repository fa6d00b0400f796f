"""Which files pyright checks again, after which changes: `python -m tools.type_check`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.type_check import Project, check, installed_packages, node_options

SETTINGS = """
[project]
name = "shop"

[tool.pyright]
include = ["shop", "tests"]
exclude = ["shop/generated"]
strict = ["shop"]
extraPaths = ["scripts"]
"""
FILES = {
    "pyproject.toml": SETTINGS,
    "shop/__init__.py": "",
    "shop/amounts.py": "def amount() -> int:\n    return 1\n",
    "shop/bill.py": "from shop.amounts import amount\n\ntotal: int = amount()\n",
    "shop/alone.py": "alone = 1\n",
    "shop/generated/types.py": "x: int = 'no number'\n",
    "scripts/sizes.py": "size = 1\n",
    "typings/money/__init__.pyi": "euro: int\n",
    "tests/test_bill.py": "from shop import bill\n\nassert bill.total\n",
    "tests/test_sizes.py": "import sizes\n\nassert sizes.size\n",
}
CORRECT = "0 errors, 0 warnings, 0 informations "
# Writes the files that it is given, and answers.
STAND_IN = "import sys; open({given!r}, 'w').write(' '.join(sys.argv[1:])); print({answer!r}); sys.exit({code})"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def checked(
    root: Path, *, answer: str = CORRECT, code: int = 0, everything: bool = False, packages: str = ""
) -> set[str]:
    """Return the files that pyright is to check; all where it gets none by name."""
    given = root.parent / "given"
    given.unlink(missing_ok=True)
    stand_in = (sys.executable, "-I", "-S", "-c", STAND_IN.format(given=str(given), answer=answer, code=code))
    project = Project(root, packages)
    assert check(project, root.parent / "cache", pyright=stand_in, everything=everything) == code
    if not given.exists():
        return set()
    every = {str(file.relative_to(root)) for file in project.files}
    return set(given.read_text("utf-8").split()) or every


EVERY = {
    "shop/__init__.py",
    "shop/alone.py",
    "shop/amounts.py",
    "shop/bill.py",
    "tests/test_bill.py",
    "tests/test_sizes.py",
}


def test_all_files_that_are_included_are_checked_once(root: Path) -> None:
    assert checked(root) == EVERY
    assert checked(root) == set()


def test_pyright_finds_the_error_that_a_changed_file_makes_in_another_one_and_looks_there_again(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(root) == EVERY
    (root / "shop/amounts.py").write_text("def amount() -> str:\n    return '1'\n", "utf-8")
    assert check(Project(root, ""), root.parent / "cache") == 1
    found = capsys.readouterr().out
    assert "types: 3 of 6 files to check" in found
    assert "bill.py:3:14 - error" in found
    assert '"str" is not assignable to "int"' in found
    assert checked(root) == {"shop/bill.py"}


@pytest.mark.parametrize(
    "importing",
    [
        "import shop.alone",
        "import shop.alone as other",
        "from shop import alone",
        "from .alone import alone",
        "from . import alone",
        "from shop.alone import *",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.alone import alone",
        "def late() -> None:\n    import shop.alone",
        "x = 1; import shop.alone",
    ],
)
def test_a_file_is_checked_when_what_it_imports_has_changed(root: Path, importing: str) -> None:
    (root / "shop/bill.py").write_text(f"{importing}\n", "utf-8")
    checked(root)
    (root / "shop/alone.py").write_text("alone = 2\n", "utf-8")
    assert checked(root) == {"shop/alone.py", "shop/bill.py", "tests/test_bill.py"}


def test_a_changed_package_changes_all_that_is_imported_from_it(root: Path) -> None:
    checked(root)
    (root / "shop/__init__.py").write_text("name = 'shop'\n", "utf-8")
    assert checked(root) == {"shop/__init__.py", "shop/bill.py", "tests/test_bill.py"}


def test_a_module_is_found_in_the_additional_folders_and_beside_the_file(root: Path) -> None:
    checked(root)
    (root / "scripts/sizes.py").write_text("size = 2\n", "utf-8")
    assert checked(root) == {"tests/test_sizes.py"}
    (root / "tests/sizes.py").write_text("size = 3\n", "utf-8")
    assert checked(root) == {"tests/sizes.py", "tests/test_sizes.py"}


def test_a_stub_beside_a_module_and_a_file_that_goes_are_changes(root: Path) -> None:
    checked(root)
    (root / "shop/amounts.pyi").write_text("def amount() -> int: ...\n", "utf-8")
    assert checked(root) == {"shop/amounts.pyi", "shop/bill.py", "tests/test_bill.py"}
    (root / "shop/bill.py").unlink()
    assert checked(root) == {"tests/test_bill.py"}


def test_files_that_import_each_other_are_checked_together(root: Path) -> None:
    (root / "shop/amounts.py").write_text("from shop import bill, alone\n", "utf-8")
    checked(root)
    (root / "shop/bill.py").write_text("from shop import amounts\nx = 1\n", "utf-8")
    assert checked(root) == {"shop/amounts.py", "shop/bill.py", "tests/test_bill.py"}


def test_settings_and_stubs_of_packages_are_of_every_file(root: Path) -> None:
    checked(root)
    (root / "pyproject.toml").write_text(SETTINGS + 'pythonVersion = "3.12"\n', "utf-8")
    assert checked(root) == EVERY
    (root / "typings/money/__init__.pyi").write_text("euro: str\n", "utf-8")
    assert checked(root) == EVERY
    assert checked(root) == set()


def test_installed_packages_are_of_every_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = root.parent / "site"
    package = installed / "money-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: money\nVersion: 1.0\n", "utf-8")
    (package / "RECORD").write_text("money.py,sha256=a,1\n", "utf-8")
    monkeypatch.syspath_prepend(installed)
    checked(root, packages=installed_packages())
    assert checked(root, packages=installed_packages()) == set()
    (package / "RECORD").write_text("money.py,sha256=b,1\n", "utf-8")
    assert checked(root, packages=installed_packages()) == EVERY


def test_the_version_of_pip_is_of_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = installed_packages()
    package = tmp_path / "pip-99.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pip\nVersion: 99.0\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_packages() == before


@pytest.mark.parametrize(
    ("kind", "summary", "code"),
    [
        ("error", "1 error, 0 warnings, 0 informations ", 1),
        ("warning", "0 errors, 1 warning, 0 informations ", 0),
    ],
)
def test_only_the_files_with_findings_are_checked_again(root: Path, kind: str, summary: str, code: int) -> None:
    file = root / "shop/bill.py"
    found = f'{file}\n  {file}:3:14 - {kind}: Type of "amount" is unknown\n    more\n{summary}'
    assert checked(root, answer=found, code=code) == EVERY
    assert checked(root, answer=found, code=code) == {"shop/bill.py"}
    checked(root)
    assert checked(root) == set()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("2 errors, 0 warnings, 0 informations ", 1),  # none of which is named
        ("Killed", 1),
        (CORRECT, 3),  # pyright could not read its settings
    ],
)
def test_no_file_is_known_to_be_correct_when_the_answer_is_not_understood(
    root: Path, answer: str, code: int
) -> None:
    checked(root, answer=answer, code=code)
    assert checked(root) == EVERY


@pytest.mark.parametrize(
    ("given", "memory", "expected"),
    [
        ("", 24_000, "--max-old-space-size=8192"),
        ("--no-warnings", 24_000, "--no-warnings --max-old-space-size=8192"),
        ("--max-old-space-size=2048", 24_000, "--max-old-space-size=2048"),
        ("", 15_000, ""),
    ],
)
def test_pyright_gets_much_memory_of_a_machine_that_has_it(given: str, memory: int, expected: str) -> None:
    assert node_options(given, memory) == expected


def test_everything_is_checked_where_it_is_asked_for(root: Path) -> None:
    checked(root)
    assert checked(root, everything=True) == EVERY


def test_a_file_is_known_again_when_a_change_is_undone(root: Path) -> None:
    checked(root)
    (root / "shop/alone.py").write_text("alone = 2\n", "utf-8")
    assert checked(root) == {"shop/alone.py"}
    (root / "shop/alone.py").write_text(FILES["shop/alone.py"], "utf-8")
    assert checked(root) == set()

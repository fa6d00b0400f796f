"""Commands of extensions are found through entry points. The error for a missing command names the package to
install.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.cli import extensions

_WITHOUT = """
import sys
sys.modules["extensions"] = None  # an import of it fails, as where its folder is not there
from gpu_platform.cli import main
main()
"""


def _without_extensions(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=PROJECT_ROOT, check=False)


@pytest.mark.parametrize("arguments", [("place", "local"), ("production", "local"), ("capacity", "suggest")])
def test_a_command_without_its_extension_names_the_package(arguments: tuple[str, ...]) -> None:
    ran = _without_extensions(*arguments)

    assert ran.returncode == 2
    assert (
        f"{arguments[-1] if arguments[0] == 'capacity' else arguments[0]} is a command of the extension"
        in ran.stderr
    )
    assert "run `make install`" in ran.stderr


def test_the_core_checks_a_stack_without_any_extension() -> None:
    ran = _without_extensions("check", "local")

    assert ran.returncode == 0, ran.stderr


def test_the_listed_extension_commands_are_those_of_the_extensions() -> None:
    listed = [name for names in extensions.OWN.values() for name in names]

    assert sorted(command.name for command in extensions.commands()) == sorted(listed)


def test_another_distribution_adds_a_command(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(
        "from gpu_platform.cli.options import ExtensionCommand\n"
        'def racks() -> None:\n    """List racks."""\n    print("two racks")\n'
        'COMMANDS = (ExtensionCommand(racks, "Ours"),)\n',
        "utf-8",
    )
    metadata = tmp_path / "ours-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[gpu_platform.commands]\nours = ours:COMMANDS\n", "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = Path(sys.executable).with_name("gpu-platform")

    def ran(*arguments: str) -> str:
        return subprocess.run(
            [program, *arguments], env=environment, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True
        ).stdout

    assert ran("racks") == "two racks\n"
    assert "Ours:\n  racks  List racks.\n" in ran("--help")

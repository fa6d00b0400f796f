"""Builds the package, installs its wheel into a separate environment, and runs its command there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from gpu_platform.base.paths import PROJECT_ROOT

COMMAND = "from gpu_platform.cli import main; main()"
LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out", "shared")


def run_with(
    python: Path | str, cwd: Path, *arguments: str, before: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in the folder `cwd` with the given Python, after executing the statement `before`."""
    # With -P, Python does not import code from the current folder, and an installed command does not do so either.
    result = subprocess.run(
        [str(python), "-P", "-c", f"{before}\n{COMMAND}", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **variables},
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "Traceback" not in result.stderr
    return result


def build(source: Path, kind: str, folder: Path) -> Path:
    """Build a wheel of `source` into `folder` and return its file. `kind` is `wheel` for a regular wheel, or
    `editable`.
    """
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(folder)!r}))"
    result = subprocess.run([sys.executable, "-c", code], cwd=source, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    return folder / result.stdout.splitlines()[-1]


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel into a folder, and return the folder."""
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
    return folder


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout, including uncommitted changes, into `folder`, and return its file."""
    source = folder / "source"
    shutil.copytree(PROJECT_ROOT, source, ignore=LEFT_BEHIND)
    return build(source, "wheel", folder)


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new virtual environment that shares this environment's packages, and return its
    Python.
    """
    venv.create(folder, symlinks=True)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site_packages = unpack(wheel, Path(sysconfig.get_path("purelib", "venv", scheme)))
    # Python ignores `.pth` files in a folder that another `.pth` file adds, so this checkout is not on the path.
    (site_packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"

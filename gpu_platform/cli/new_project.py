"""Files of a new project. The project contains stack files and uses the installed package as its program."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from gpu_platform.base.errors import BadInput, Problem

_PROGRAM: Final = """\
import gpu_platform  # first: it makes the packages of the program importable
from components.program import create_platform
platform = create_platform()
"""


def project_files(folder: Path) -> Mapping[Path, str]:
    """Return the files of a project in `folder` with their contents. Raises BadInput if one of these files already
    exists.
    """
    settings = {
        "name": re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.name)[:100] or "gpu-platform",
        "description": "GPU platform on Kubernetes, from stack files",
        "runtime": {"name": "python", "options": {"toolchain": "pip", **_environment(folder)}},
        "stackConfigDir": "stacks",
    }
    files = {
        folder / "Pulumi.yaml": yaml.safe_dump(settings, sort_keys=False),
        folder / "__main__.py": _PROGRAM,
    }
    allowed = "a folder without a Pulumi program, or a project of gpu-platform"
    fix = "run the command in a new folder, or write only the stack file with --out"
    if problems := [
        Problem(str(file), "a file of another program", allowed, fix) for file in files if file.exists()
    ]:
        raise BadInput("init", problems)
    return files


def _environment(folder: Path) -> Mapping[str, str]:
    """Return the project setting for this process's virtual environment, or an empty mapping if the environment is
    outside the project.

    If a project specifies no virtual environment, Pulumi runs the Python on PATH.
    """
    prefix = Path(sys.prefix)
    in_project = sys.prefix != sys.base_prefix and prefix.is_relative_to(folder)
    return {"virtualenv": str(prefix.relative_to(folder))} if in_project else {}

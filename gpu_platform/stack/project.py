"""The project: the checkout that this code is part of, its settings in Pulumi.yaml, and its version.

The program is the whole checkout (`__main__.py`, components, policies, stacks), so each project has its own code.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.paths import PROJECT_ROOT

_DISTRIBUTION: Final = "gpu-platform"
_GET_ONE: Final = (
    "clone the repository, or make a project of your own with `pulumi new <its git URL>`; then run `make install`"
    " in it, and `.venv/bin/gpu-platform` from it"
)


def is_project(folder: Path) -> bool:
    """Return whether `folder` is the root of a project, under whatever name."""
    return (folder / "Pulumi.yaml").is_file() and (folder / "gpu_platform" / "base" / "paths.py").is_file()


def project_around(folder: Path) -> Path | None:
    """Return the root of the project that `folder` is in, None where it is in none."""
    return next((root for root in (folder, *folder.parents) if is_project(root)), None)


def check_project(folder: Path | None = None) -> None:
    """Check that this code is the one of the project that `folder` (by default the current folder) is in.

    Outside of any project the code's own is used.
    Raises BadInput where the project has its own code, which may differ, and where this code has no project:
    a wheel has none.
    """
    try:
        here = (folder or Path.cwd()).resolve()
    except FileNotFoundError:  # the current folder was deleted
        here = Path("/")
    around = project_around(here)
    if around is None and not is_project(PROJECT_ROOT):
        found = f"{here}, which is in no project, and gpu-platform installed without one, in {PROJECT_ROOT}"
        raise _problem(found, "a folder in a project", _GET_ONE)
    if around is not None and around != PROJECT_ROOT:
        found = f"the project {around}, and gpu-platform of {PROJECT_ROOT}"
        fix = f"run {around / '.venv' / 'bin' / 'gpu-platform'}; `make install` in {around} sets it up"
        raise _problem(found, "the gpu-platform of the project itself", fix)


def project_settings() -> Mapping[str, object]:
    """Return what Pulumi.yaml says."""
    import yaml

    settings: object = yaml.load((PROJECT_ROOT / "Pulumi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
    return cast("Mapping[str, object]", settings) if isinstance(settings, dict) else {}


def project_name() -> str:
    """Return the Pulumi project's name, which `pulumi new` lets its user choose."""
    return str(project_settings().get("name", _DISTRIBUTION))


def version() -> str:
    """Return the version: of a checkout as its pyproject.toml has it, else of the installed package."""
    try:
        text = (PROJECT_ROOT / "pyproject.toml").read_text("utf-8")
    except OSError:
        return importlib.metadata.version(_DISTRIBUTION)
    return tomllib.loads(text)["project"]["version"]


def _problem(found: str, allowed: str, fix: str) -> BadInput:
    return BadInput("gpu-platform", [Problem("current folder", found, allowed, fix)])


def chosen_backend() -> str:
    """Return the backend that the CLI would use, or an empty text if none is configured.

    The CLI takes it from the environment, then the project file, then the last login.
    """
    if url := os.environ.get("PULUMI_BACKEND_URL"):
        return url
    backend = project_settings().get("backend")
    if isinstance(backend, dict) and (url := cast("dict[str, str]", backend).get("url")):
        return url
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    try:
        credentials: dict[str, str] = json.loads((home / "credentials.json").read_text())
    except (OSError, ValueError):
        return ""
    return credentials.get("current") or ""

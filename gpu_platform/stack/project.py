"""The project: its code, its settings in Pulumi.yaml, and the version of the code.

A project is either a checkout, which contains the code, or a folder whose Pulumi program calls the installed
package.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.paths import CODE_ROOT, PACKAGES, PROJECT_ROOT, current_folder, is_checkout, project_around
from gpu_platform.base.versions import is_older

_DISTRIBUTION: Final = "gpu-platform"
VERSION_OUTPUT: Final = "version"
"""Stack output with the version that deployed the stack."""


def check_project() -> None:
    """Check that this code belongs to the current folder, and that no module of the project shadows a package of
    this code.

    Raises BadInput if the current folder is in a different checkout, whose code may differ, or if a module of the
    project shadows a package.
    """
    around = project_around(current_folder())
    if around is not None and is_checkout(around) and around != CODE_ROOT:
        found = f"the project {around}, and gpu-platform of {CODE_ROOT}"
        fix = f"run {around / '.venv' / 'bin' / 'gpu-platform'}; `make install` in {around} sets it up"
        problem = Problem("current folder", found, "the project's installation of gpu-platform", fix)
        raise BadInput("gpu-platform", [problem])
    if PROJECT_ROOT != CODE_ROOT and (problems := list(_hidden_packages(PROJECT_ROOT))):
        raise BadInput("gpu-platform", problems)


def _hidden_packages(project: Path) -> Iterator[Problem]:
    """Yield a problem for each module of a project that has the name of one of this code's packages."""
    for name in PACKAGES:
        module, folder = project / f"{name}.py", project / name
        place = module if module.is_file() else folder
        if place == module or any(folder.glob("*.py")):
            allowed = (
                f"Python modules whose names differ from those of gpu-platform's packages: {', '.join(PACKAGES)}"
            )
            yield Problem(
                str(place),
                "a Python module of your project",
                allowed,
                f"rename it, for example to own_{place.name}",
            )


def project_settings() -> Mapping[str, object]:
    """Return the content of Pulumi.yaml."""
    import yaml

    settings: object = yaml.load((PROJECT_ROOT / "Pulumi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
    return cast("Mapping[str, object]", settings) if isinstance(settings, dict) else {}


def project_name() -> str:
    """Return the name of the Pulumi project. The user chooses it in `pulumi new`."""
    return str(project_settings().get("name", _DISTRIBUTION))


def version() -> str:
    """Return the version in pyproject.toml for a checkout, or the version of the installed package."""
    try:
        text = (CODE_ROOT / "pyproject.toml").read_text("utf-8")
    except OSError:
        return importlib.metadata.version(_DISTRIBUTION)
    return tomllib.loads(text)["project"]["version"]


def version_change(outputs: Mapping[str, object]) -> str:
    """Return a sentence if the outputs come from a deployment by a different version, else an empty string."""
    deployed, installed = outputs.get(VERSION_OUTPUT), version()
    if deployed is None or deployed == installed:
        return ""
    if is_older(installed, str(deployed)):
        return (
            f"gpu-platform {deployed} deployed the stack, but the older {installed} is installed: it undoes the "
            f"changes of {deployed}, and may fail to read its data. Run `pip install gpu-platform=={deployed}`, "
            "unless you want to go back"
        )
    return f"gpu-platform {deployed} deployed the stack, but {installed} is installed: this may cause some changes"


def chosen_backend() -> str:
    """Return the backend that the Pulumi CLI would use, or an empty string if none is configured.

    The CLI reads the backend from the environment, then from the project file, then from the last login.
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

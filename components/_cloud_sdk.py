"""Imports the components of a cloud. The cloud's SDK is an optional extra of the package."""

from __future__ import annotations

import importlib
from typing import Any, Final

import pulumi

from gpu_platform.base.errors import BadInput, Problem

EXTRAS: Final = {"pulumi_aws": "aws", "pulumi_azure": "azure", "pulumi_gcp": "gcp"}
"""Maps the Python module of each cloud's SDK to the package extra that installs the SDK."""


def components_of(cloud: str) -> Any:  # noqa: ANN401 - a module
    """Return the package with the components of a cloud, `eks`, `gke` or `aks`. Raises pulumi.RunError if its SDK
    is missing.
    """
    try:
        return importlib.import_module(f"components.{cloud}")
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        problem = Problem(
            "cluster.provider",
            f"{cloud!r}, and no module {error.name}",
            "a cloud whose SDK is installed; each SDK is an extra of gpu-platform",
            f"run `pip install 'gpu-platform[{extra}]'`",
        )
        raise pulumi.RunError(str(BadInput("SDK of the cloud", [problem]))) from None

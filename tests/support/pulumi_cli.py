"""The environment of the real Pulumi CLI. Tests that run the CLI are skipped if it is missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

MISSING: Final = [name for name in ("pulumi", "pulumi-resource-kubernetes") if shutil.which(name) is None]
NEEDS_PULUMI: Final = (
    pytest.mark.pulumi,
    pytest.mark.skipif(bool(MISSING), reason=f"not on PATH: {', '.join(MISSING)}"),
)


def environment(backend: Path) -> dict[str, str]:
    """Return the environment variables for a CLI that keeps its state in a folder."""
    backend.mkdir(exist_ok=True)
    return {
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }

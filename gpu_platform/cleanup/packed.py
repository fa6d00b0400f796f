"""Packs the clean-up program as a zipapp, with the agent's client of the API server."""

from __future__ import annotations

from functools import cache
from importlib import resources

from validators.zipapp import without_prose, zipapp

_LEFT_OUT = ("packed.py",)


@cache
def build_cleanup() -> bytes:
    """Return the zipapp. The same sources always give the same bytes."""
    sources, agent = resources.files("gpu_platform") / "cleanup", resources.files("validators") / "agent"
    entries = {
        "__main__.py": without_prose((sources / "__main__.py").read_bytes()),
        "gpu_platform/__init__.py": b"",
        "gpu_platform/base/__init__.py": b"",
        "gpu_platform/base/names.py": without_prose(
            (resources.files("gpu_platform") / "base" / "names.py").read_bytes()
        ),
        "validators/__init__.py": b"",
        "validators/agent/__init__.py": b"",
        "validators/agent/api_server.py": without_prose((agent / "api_server.py").read_bytes()),
    }
    for file in sources.iterdir():
        if file.name.endswith(".py") and file.name not in _LEFT_OUT:
            entries[f"gpu_platform/cleanup/{file.name}"] = without_prose(file.read_bytes())
    return zipapp(entries)

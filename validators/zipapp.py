"""Packs the node agent as a zipapp, a single file that Python 3.9 or newer can run.

The bytes depend only on the agent's sources and the installed nvidia-ml-py. Entries are sorted, have a fixed time
and are not compressed, because compressed bytes differ between zlib builds.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import metadata, resources
from typing import Final

SHEBANG: Final = b"#!/usr/bin/env python3\n"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can contain
_MODE: Final = 0o100644 << 16
_FOR_FRAMEWORKS: Final = tuple(f"prometheus_client/{one}" for one in ("aiohttp", "bridge", "django", "twisted"))

# Matches docstrings, comments and other strings.
# A string may contain what looks like a comment.
# Parsing the modules would take a quarter of a second in each `gpu-platform check`.
# A test compares every packed module with the parsed source.
_PROSE: Final = re.compile(
    rb'''^(?P<indent>[ ]*)(?P<docstring>r?"""(?:\\.|[^\\])*?""")$'''
    rb'''|(?P<string>"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')'''
    rb"""|[ ]*#[^\n]*""",
    re.DOTALL | re.MULTILINE,
)


@cache
def build_agent(*, metrics: bool = False) -> bytes:
    """Return the zipapp with the agent, its entry point, and the NVML bindings with their license.

    With `metrics`, it also contains the exporter and prometheus_client with its license and notice.
    """
    packages = ("agent", "exporter") if metrics else ("agent",)
    sources = resources.files("validators")
    entries = {
        "__main__.py": without_prose((sources / packages[-1] / "__main__.py").read_bytes()),
        "validators/__init__.py": b"",
        "pynvml.py": _bindings("pynvml.py"),
        "NVIDIA-ML-PY.txt": _notice(),
        **(_prometheus_client() if metrics else {}),
    }
    for package in packages:
        for file in (sources / package).iterdir():
            if file.name.endswith(".py"):
                entries[f"validators/{package}/{file.name}"] = without_prose(file.read_bytes())
    return zipapp(entries)


def without_prose(source: bytes) -> bytes:
    """Return a module without its docstrings and comments.

    The shorter module helps to keep the ConfigMap below its maximum size of 1 MiB (Kubernetes 1.36, core/v1
    ConfigMap). In addition, editing a docstring does not restart the agents on the nodes if the docstring keeps
    its number of lines. Every statement keeps its line number, so that tracebacks are correct.
    """

    def replaced(match: re.Match[bytes]) -> bytes:
        if match["docstring"] is not None:
            # A function needs a statement in its body.
            return match["indent"] + b'""' + b"\n" * match["docstring"].count(b"\n")
        return match["string"] or b""

    return _PROSE.sub(replaced, source)


def zipapp(entries: Mapping[str, bytes]) -> bytes:
    """Return a zipapp that contains the files in `entries`, by name. Its bytes depend only on these files."""
    buffer = io.BytesIO(SHEBANG)
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = _MODE
            entry.create_system = 3  # always Unix, even if the zipapp is built on another system
            archive.writestr(entry, entries[name])
    return buffer.getvalue()


def _bindings(name: str) -> bytes:
    """Return a file of the installed nvidia-ml-py. Its license is the header of `pynvml.py`."""
    files = metadata.files("nvidia-ml-py") or []
    found = next(file for file in files if file.name == name)
    return found.read_binary()


def _prometheus_client() -> dict[str, bytes]:
    """Return the installed prometheus_client with its license, except web framework integrations."""
    found: dict[str, bytes] = {}
    for file in metadata.files("prometheus-client") or []:
        path = file.as_posix()
        if file.suffix == ".py" and not path.startswith(_FOR_FRAMEWORKS):
            found[path] = file.read_binary()
        elif file.name in ("LICENSE", "NOTICE"):
            found[f"PROMETHEUS-CLIENT-{file.name}.txt"] = file.read_binary()
    return found


def _notice() -> bytes:
    version = metadata.version("nvidia-ml-py")
    header = _bindings("pynvml.py").decode("utf-8").split("#####")[1]
    terms = "\n".join(line.lstrip("# ") for line in header.splitlines())
    return f"pynvml.py is nvidia-ml-py {version}, unchanged, under these terms:\n{terms}".encode()

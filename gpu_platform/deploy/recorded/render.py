"""Writes a recorded program to a folder: resources.json, manifests/, state.json and plan.json.

state.json has the format of `pulumi stack export`, so `pulumi policy analyze --file` accepts the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.yaml_text import mapping_text
from gpu_platform.deploy.recorded.objects import is_plain_object, manifest_of
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.deploy.recorded.state import deployment_manifest, deployment_resources
from gpu_platform.live.objects import object_key

_INDEX: Final = ".gpu-platform-render.json"  # lists the manifests of this render, which the next render may remove
_MANIFESTS: Final = "manifests"
_CLUSTER_SCOPED: Final = "_cluster"  # not a valid namespace name, and sorted before all namespaces


def write_render(out: Path, recorded: RecordedProgram, plan: object) -> int:
    """Write `recorded` and `plan` (plain JSON values) to the folder `out`. Return the number of manifests.

    Files of an earlier render that differ are replaced atomically. Manifests of an earlier render that are no
    longer declared are removed.

    Raises BadInput if `out` contains files that are not from a render.
    """
    owned = _owned_manifests(out)
    manifests = _manifests(recorded)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write_index(out, owned | manifests.keys())  # written first, so that the next render can remove all files
        _write(out / "resources.json", _json_lines(record.to_json() for record in recorded.resources))
        _write(out / "state.json", _state_text(recorded))
        _write(out / "plan.json", json.dumps(plan, indent=2, ensure_ascii=False) + "\n")
        for folder in {PurePosixPath(path).parent for path in manifests}:
            (out / folder).mkdir(parents=True, exist_ok=True)
        for path, manifest in manifests.items():
            _write(out / path, mapping_text(manifest))
        _remove(out, owned - manifests.keys())
        _write_index(out, manifests.keys())
    except OSError as error:
        raise BadInput(
            str(out), [Problem("--out", error.strerror or str(error), "a folder that can be written to")]
        ) from error
    return len(manifests)


def _manifests(recorded: RecordedProgram) -> dict[str, Mapping[str, Any]]:
    """Return the manifest of each plain Kubernetes object, by its path below the output folder."""
    manifests: dict[str, Mapping[str, Any]] = {}
    for record in recorded.resources:
        if is_plain_object(record):
            manifest = manifest_of(record, reveal=False)
            key = object_key(manifest)
            folder = f"{_MANIFESTS}/{_file_name(key.namespace or _CLUSTER_SCOPED)}"
            path = f"{folder}/{_file_name(f'{key.kind.lower()}-{key.name or record.name}')}.yaml"
            if path in manifests:  # two API groups have the same kind name, or names are unknown
                path = f"{folder}/{_file_name(f'{key.group_kind.lower()}-{record.name}')}.yaml"
            manifests[path] = manifest
    return manifests


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


# -- the index --------------------------------------------------------------------------------------------


def _owned_manifests(out: Path) -> set[str]:
    """Return the manifests of an earlier render in `out`. Raises BadInput if `out` is not from a render."""
    try:
        index = json.loads((out / _INDEX).read_bytes())
        return {path for path in cast("list[str]", index["manifests"]) if _is_manifest_path(path)}
    except (FileNotFoundError, NotADirectoryError):
        if not out.exists() or (out.is_dir() and not any(out.iterdir())):
            return set()
        found = "a folder with other files" if out.is_dir() else "a file"
    except (ValueError, KeyError, TypeError):
        found = f"an unreadable {_INDEX}"
    raise BadInput(
        str(out),
        [
            Problem(
                "--out", found, "a new or empty folder, or the folder of an earlier render", "use another folder"
            )
        ],
    )


def _is_manifest_path(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return len(parts) == 3 and parts[0] == _MANIFESTS and ".." not in parts and path.endswith(".yaml")


def _write_index(out: Path, manifests: Iterable[str]) -> None:
    _write(out / _INDEX, json.dumps({"manifests": sorted(manifests)}) + "\n")


def _remove(out: Path, paths: Iterable[str]) -> None:
    """Remove manifests, and namespace folders that become empty."""
    folders: set[Path] = set()
    for path in paths:
        (out / path).unlink(missing_ok=True)
        _temporary(out / path).unlink(missing_ok=True)
        folders.add((out / path).parent)
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


# -- text output -----------------------------------------------------------------------------------------


def _write(path: Path, text: str) -> None:
    """Replace a file atomically, unless it already has this text. On some disks each replacement takes 5 ms."""
    content = text.encode()
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    temporary = _temporary(path)
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _json_lines(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return a JSON list with one entry per line: small, fast to write, and suitable for `grep` and `diff`."""
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]\n"


def _state_text(recorded: RecordedProgram) -> str:
    state: dict[str, Any] = {
        "version": 3,
        "deployment": {
            "manifest": deployment_manifest(),
            "resources": deployment_resources(recorded),
            "metadata": {},
        },
    }
    return json.dumps(state, ensure_ascii=False) + "\n"

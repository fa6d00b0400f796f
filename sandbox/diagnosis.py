"""Explains why a sandbox's API server may not answer: a full disk, a stopped component, or an error at the end of
its log.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.base.paths import sandbox_dir
from sandbox._daemons import Daemon

LOW_DISK_MIB: Final = 512  # etcd, logs and audit data of a sandbox grow by about 10 MiB an hour
NO_DISK_MIB: Final = 64  # with less, etcd cannot even create its write-ahead log
_COMPONENTS: Final = ("etcd", "kube-apiserver")


def diagnose(name: str) -> str:
    """Return the likely reason why the API server of a sandbox does not answer, with the next step."""
    folder = sandbox_dir(name).resolve()
    parts: list[str] = []
    if (free := free_mib(folder)) < LOW_DISK_MIB:
        parts.append(f"The disk of {folder} has only {free} MiB left: delete files first.")
    parts += [
        f"{component} of the sandbox is not running." for component in _COMPONENTS if not _runs(component, folder)
    ]
    logs = ", ".join(str(Daemon(component, folder).log) for component in _COMPONENTS)
    parts.append(f"Logs: {logs}. `gpu-platform sandbox up --name {name}` starts the stopped components")
    return " ".join(parts)


def require_disk(folder: Path) -> None:
    """Raise UnknownOutcome if the disk of a sandbox's data folder is so full that no component could start."""
    if (free := free_mib(folder)) < NO_DISK_MIB:
        raise UnknownOutcome(
            f"the disk of {folder} has {free} MiB left; a sandbox needs at least {NO_DISK_MIB} MiB to start and "
            f"{LOW_DISK_MIB} MiB to work. Delete files and run the command again; nothing was started"
        )


def free_mib(folder: Path) -> int:
    """Return the free disk space of a folder, or of its nearest existing parent folder, in MiB."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free // (1024 * 1024)


def _runs(component: str, folder: Path) -> bool:
    return Daemon(component, folder).pid() is not None

"""Finds a usable Pulumi CLI on this machine, or installs the version that matches the SDK."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from pulumi import automation
from semver import VersionInfo

from gpu_platform.base.paths import cache_dir
from gpu_platform.deploy.pulumi.pulumi_process import InterruptibleCommand
from gpu_platform.stack.project import chosen_backend

NO_INSTALL_VARIABLE: Final = "GPU_PLATFORM_NO_INSTALL"
_INSTALL_SECONDS: Final = 180.0
_CONNECT_SECONDS: Final = 5.0  # timeout of the installer's connections


@dataclass(frozen=True, slots=True)
class PulumiCli:
    """A usable Pulumi CLI. `why` describes its version, where it was found, and its backend."""

    command: automation.PulumiCommand
    why: str


class Unusable(Exception):  # not a GpuPlatformError, because the caller may use the embedded engine instead
    """No Pulumi CLI can be used on this machine. The message is the reason."""


def find_cli(*, install: bool) -> PulumiCli:
    """Return the CLI on PATH, or the cached CLI whose version matches the SDK.

    With `install`, the CLI is downloaded if the cache does not contain it. Raises Unusable if there is no CLI, or
    if no backend for the state is configured.
    """
    backend = chosen_backend()
    if not backend:
        absent = "" if shutil.which("pulumi") else "; pulumi is not on PATH either"
        raise Unusable(f"no Pulumi backend is configured (set PULUMI_BACKEND_URL, or run `pulumi login`){absent}")
    wanted = VersionInfo.parse(version("pulumi"))
    try:
        command = InterruptibleCommand(version=wanted)
        return PulumiCli(command, f"pulumi {command.version or ''} is on PATH, with backend {backend}")
    except FileNotFoundError:
        reason = "pulumi is not on PATH"
    except (automation.InvalidVersionError, subprocess.CalledProcessError, OSError) as error:
        reason = f"the pulumi on PATH cannot be used: {_first_line(error)}"
    root = cache_dir() / "pulumi" / str(wanted)
    if not _is_installed(root) and (not install or os.environ.get(NO_INSTALL_VARIABLE) == "1"):
        raise Unusable(reason)
    try:
        command = _installed(root, wanted)
    except Unusable as error:
        raise Unusable(f"{reason}; {error}") from None
    return PulumiCli(command, f"{reason}; pulumi {wanted} in {root} is used, with backend {backend}")


def _is_installed(root: Path) -> bool:
    return (root / "bin" / "pulumi").exists()


def _installed(root: Path, wanted: VersionInfo) -> automation.PulumiCommand:
    """Return the CLI in `root`. If it is missing, the Automation API's installer downloads it."""
    if not _is_installed(root):
        _install(root, wanted)
    try:
        return InterruptibleCommand(root=str(root), version=wanted)
    except (automation.InvalidVersionError, subprocess.CalledProcessError, OSError) as error:
        raise Unusable(f"the pulumi in {root} cannot be run: {_first_line(error)}") from error


def _install(root: Path, wanted: VersionInfo) -> None:
    # The installer has no timeout, so it runs as a process group that can be killed.
    script = (
        "import socket, sys\n"
        "from pulumi.automation import PulumiCommand\n"
        "from semver import VersionInfo\n"
        "socket.setdefaulttimeout(float(sys.argv[3]))\n"
        "PulumiCommand.install(root=sys.argv[1], version=VersionInfo.parse(sys.argv[2]))\n"
    )
    arguments = [sys.executable, "-c", script, str(root), str(wanted), str(_CONNECT_SECONDS)]
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _, stderr = process.communicate(timeout=_INSTALL_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Unusable(f"installing pulumi {wanted} took more than {_INSTALL_SECONDS:.0f} s") from None
            raise
    if process.returncode:
        raise Unusable(f"pulumi {wanted} cannot be installed: {stderr.strip().rsplit(chr(10), 1)[-1]}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

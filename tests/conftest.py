"""Fixtures that the tests of several packages share.

Every sandbox that a test starts keeps its data in this run's folder, and is stopped when the run ends, even if its
tests fail. pytest-xdist (`--dist loadgroup`) runs the tests of a group (`xdist_group`) one after the other in one
worker, because they share a sandbox and its cluster-scoped objects. After the last test of a group, the sandbox is
emptied. A later group of the same worker uses it again, because starting a sandbox takes 8 s of CPU time. An idle
control plane uses 1 s of CPU time per minute. The tests of a folder that use the fixture `sandbox` form a group,
unless they are marked with another group. In a worker, the other tests of a file also form a group, so that their
shared values are computed only once.

No test depends on the speed of the machine. Tests wait with `support.eventually`, and none asserts an upper limit
on time. pytest-timeout (pyproject.toml) ends a test that hangs.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import tests.support.protobuf  # noqa: F401 - must precede both SDKs
from gpu_platform.base.progress import Progress
from sandbox import build, control_plane
from sandbox._modules import DEFAULT, kubernetes_versions
from sandbox.control_plane import Status
from tests.support.emptied import Contents
from tests.support.size import THOROUGH, size

# `make test` runs a few Hypothesis examples per test, which are the same each time.
# `make test-thorough` runs many Hypothesis examples per test, which differ each time.
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=size(40, 1000),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not THOROUGH,
)
settings.load_profile("suite")

_FOLDER = "GPU_PLATFORM_SANDBOX_DIR"
_BEGIN_WITH_SANDBOX = 3  # number of workers, of four, that begin with a group that has a sandbox
# After this fraction of the groups without a sandbox, no group with a sandbox begins.
# The remaining groups without a sandbox keep all workers busy until the end.
_WAITING_UNTIL = 0.95
# Name prefix of the sandbox that a group hands over to the next group.
_SHARED = "e2e"
_started: dict[str, tuple[Status, Contents]] = {}
"""Running sandboxes of the current group, by name, with the contents that each had when it started."""
_used: set[str] = set()
"""Names of the running sandboxes that the current group has used."""
_deployed: dict[str, Any] = {}
"""The last deployed platform object of each stack, in the sandbox of the current group."""
_groups: list[str] = []
"""The groups of the tests that have run. The last group owns the sandboxes."""


def pytest_configure(config: pytest.Config) -> None:
    # Pytest imports readline, which sets COLUMNS and LINES for the workers of xdist.
    for size_of_terminal in ("COLUMNS", "LINES"):
        os.environ.pop(size_of_terminal, None)
    gc.disable()  # until all tests are collected, because the tests stay in use
    # A shell ignores SIGINT in its background jobs.
    # Child processes would ignore SIGINT too, but tests interrupt these processes.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist inherits its parent's environment
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="gpu-platform-test-sandboxes-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = Path(os.environ[_FOLDER])  # `control_plane.down` reads the same variable
        for sandbox in folder.iterdir():
            control_plane.down(sandbox.name)
        folder.rmdir()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # runs before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        if "sandbox" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.sandbox)
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(f"sandbox-{item.path.parent.name}"))
        elif hasattr(config, "workerinput") and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(config.rootpath))))
    yield
    if hasattr(config, "workerinput"):
        items[:] = _by_workers(items)


def _by_workers(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which workers run their groups. The tests of a group follow each other.

    Groups with a sandbox mostly wait, but other groups use a whole core. Therefore, three workers begin with a
    group that has a sandbox, and one begins with a group that has none. The remaining groups with a sandbox are
    spread evenly between the groups without one.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(_group(item) or "", []).append(item)
    waiting = [tests for tests in groups.values() if tests[0].get_closest_marker("sandbox")]
    computing = [tests for tests in groups.values() if not tests[0].get_closest_marker("sandbox")]
    first, rest = waiting[:_BEGIN_WITH_SANDBOX], waiting[_BEGIN_WITH_SANDBOX:]
    places = [(_WAITING_UNTIL * index / max(len(rest), 1), tests) for index, tests in enumerate(rest)]
    places += [(index / max(len(computing), 1), tests) for index, tests in enumerate(computing)]
    spread = [tests for _, tests in sorted(places, key=lambda place: place[0])]
    return [item for tests in (*first, *spread) for item in tests]


def _group(item: pytest.Item | None) -> str | None:
    marker = item and item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Empty or stop the sandboxes of a group after its last test. Without pytest-xdist workers, do this before the
    next group starts.
    """
    yield
    group, following = _group(item), _group(nextitem)
    if group:
        _groups.append(group)
    if following or hasattr(item.config, "workerinput"):
        goes_on = bool(_groups) and following == _groups[-1]
    else:
        goes_on = nextitem is not None
    if goes_on:
        return
    _deployed.clear()
    needed = nextitem is not None and _waiting_after(nextitem)
    for name, (_, contents) in list(_started.items()):
        if name not in _used and needed:
            continue  # the sandbox has been empty since an earlier group
        if not needed or name != _name(_SHARED) or not contents.restore():
            del _started[name]
            control_plane.down(name)
    _used.clear()


def _waiting_after(item: pytest.Item) -> bool:
    """Return whether this test, or a later test in the workers' order, needs a sandbox."""
    items = item.session.items
    return any(one.get_closest_marker("sandbox") for one in items[items.index(item) :])


def pytest_sessionfinish() -> None:
    gc.freeze()  # pytest runs the garbage collector again when it ends


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test, because a build on a new machine exceeds the time limit of a
    test.
    """
    # The cloud SDKs and 8,000 tests are a million objects. Freezing them saves a tenth of all CPU time.
    gc.freeze()  # collecting garbage before this call would take half a second and free little memory
    gc.set_threshold(20_000, 20, 50)
    gc.enable()
    if "pulumi" in sys.modules:  # pulumi is imported only if a test runs a Pulumi program
        from tests.support import pulumi_sdk

        pulumi_sdk.install()
    if session.config.option.collectonly or not any(item.get_closest_marker("sandbox") for item in session.items):
        return
    older = any("older" in getattr(item, "fixturenames", ()) for item in session.items)
    queues = any("kueue_sandbox" in getattr(item, "fixturenames", ()) for item in session.items)
    for version in kubernetes_versions() if older else (DEFAULT.kubernetes,):
        build.binaries(Progress(quiet=True), version, kueue=queues)


@pytest.fixture(scope="session")
def start_sandbox() -> Callable[..., Status]:
    """Return a function that starts a sandbox for this worker, unless the worker already has it.

    The function takes the prefix of the sandbox's name.
    """

    def start(part: str = _SHARED, *, karpenter: bool = False) -> Status:
        name = _name(part)
        _used.add(name)
        if name not in _started:
            status = control_plane.up(name, karpenter=karpenter, progress=Progress(quiet=True))
            _started[name] = status, Contents(status.kubeconfig)
        return _started[name][0]

    return start


@pytest.fixture(scope="session")
def deployed_stacks() -> dict[str, Any]:
    """Return the platform objects that tests of the group have deployed, by stack. Test files that run later in
    the group use these objects.
    """
    return _deployed


def _name(part: str) -> str:
    return f"{part}-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"


@pytest.fixture(scope="module")
def sandbox(start_sandbox: Callable[..., Status]) -> Status:
    """The sandbox that all tests of one xdist group share. Use unique names in it, and remove the nodes that you
    add.
    """
    return start_sandbox()

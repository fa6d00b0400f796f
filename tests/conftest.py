"""Fixtures that several rooms' tests share.

Every sandbox that a test starts, by whatever way, keeps its data in a folder of this run and is stopped when
the run ends, however its tests ended. One of them, the fixture `sandbox`, serves the whole run, or one worker of
pytest-xdist. The tests of a folder that use it are run by one worker (`--dist loadgroup`), for they share the
cluster-scoped objects, too; those of two folders may run side by side.

No test depends on how fast the machine is: it waits with `support.eventually`, and none asserts an upper limit of
time. pytest-timeout (pyproject.toml) ends a test that hangs.
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import tests.support.protobuf  # noqa: F401 - before either SDK
from gpu_platform.progress import Progress
from sandbox import build, control_plane
from sandbox.control_plane import Status

# In CI property tests draw the same examples each time: a run that is repeated gives the same answer.
settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("suite")

_FOLDER = "GPU_PLATFORM_SANDBOX_DIR"


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job ignores SIGINT, and all that it starts would: tests interrupt what they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist inherits its parent's environment
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="gpu-platform-test-sandboxes-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = Path(os.environ[_FOLDER])  # which `down` reads, too
        for sandbox in folder.iterdir():
            control_plane.down(sandbox.name)
        folder.rmdir()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "sandbox" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.sandbox)
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(f"sandbox-{item.path.parent.name}"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test: on a new machine that takes longer than a test may."""
    if any(item.get_closest_marker("sandbox") for item in session.items) and not session.config.option.collectonly:
        build.binaries(Progress(quiet=True))


@pytest.fixture(scope="session")
def sandbox() -> Status:
    """The worker's sandbox. Use names of your own, and remove the nodes that you add."""
    name = f"shared-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    return control_plane.up(name, progress=Progress(quiet=True))

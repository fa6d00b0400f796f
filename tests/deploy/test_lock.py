"""Two runs never change the same stack at the same time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from gpu_platform.base.errors import ExitCode, UnknownOutcome
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.lock import StackLock
from gpu_platform.deploy.process_identity import has_ended, own_identity
from gpu_platform.live.client import KubernetesClient
from tests.support.eventually import DEADLINES_SECONDS, eventually

STACK = "engine-locked"


class Said(Progress):
    """A fake progress display that stores its lines."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)


def lease(client: KubernetesClient) -> dict[str, Any] | None:
    return client.get("coordination.k8s.io/v1", "Lease", f"gpu-platform-{STACK}", "kube-system")


def held_by(
    client: KubernetesClient,
    holder: str,
    seconds: int,
    renewed: str = "2126-01-01T00:00:00.000000Z",
    process: str = "",
) -> None:
    """Write the Lease of a run that does not renew the Lease."""
    metadata = {
        "name": f"gpu-platform-{STACK}",
        "namespace": "kube-system",
        "annotations": {"gpu-platform.dev/command": "destroy", "gpu-platform.dev/process": process},
    }
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": renewed,
        "renewTime": renewed,
    }
    client.merge({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


@pytest.fixture(autouse=True)
def _free(client: KubernetesClient) -> Any:
    yield
    if (live := lease(client)) is not None:
        client.delete(live)


def test_the_lock_is_held_during_the_body_and_then_removed(client: KubernetesClient) -> None:
    lock = StackLock(client, STACK, "up", Said())

    with lock.held():
        live = lease(client)
    assert live is not None
    assert live["spec"]["holderIdentity"] == lock.holder
    assert lease(client) is None


def test_the_lock_is_given_back_when_the_body_fails(client: KubernetesClient) -> None:
    with pytest.raises(ValueError, match="broken"), StackLock(client, STACK, "up", Said()).held():
        raise ValueError("broken")

    assert lease(client) is None


def test_a_run_without_the_lock_names_its_holder_and_changes_nothing(client: KubernetesClient) -> None:
    held_by(client, "anna@host:7", seconds=3600)
    before, said = lease(client), Said()

    second = StackLock(client, STACK, "up", said, wait_seconds=1)
    with (
        pytest.raises(UnknownOutcome, match=r"`destroy` of anna@host:7 has held the lock") as caught,
        second.held(),
    ):
        pytest.fail("two runs held the lock at once")

    assert caught.value.exit_code is ExitCode.UNKNOWN
    assert "nothing was changed" in str(caught.value)
    assert "`destroy` of anna@host:7 has held the lock" in said.lines[0]
    assert lease(client) == before


def test_the_lock_of_a_killed_run_is_taken_over_after_its_lease(client: KubernetesClient) -> None:
    held_by(client, "anna@host:7", seconds=1)
    said = Said()
    lock = StackLock(client, STACK, "up", said)

    with lock.held():
        live = lease(client)
    assert live is not None
    assert (live["spec"]["holderIdentity"], live["spec"]["leaseTransitions"]) == (lock.holder, 1)
    assert "taken over" in said.lines[-1]


def test_the_lock_of_a_run_that_was_killed_long_ago_is_taken_over_at_once(client: KubernetesClient) -> None:
    held_by(client, "anna@host:7", seconds=100_000, renewed="2020-01-01T00:00:00.000000Z")
    lock = StackLock(client, STACK, "up", Said(), wait_seconds=3600)

    with lock.held():
        live = lease(client)
    assert live is not None
    assert live["spec"]["holderIdentity"] == lock.holder


def test_the_lock_of_a_killed_local_process_is_taken_over_at_once(
    client: KubernetesClient,
) -> None:
    print_identity = "from gpu_platform.deploy.process_identity import own_identity; print(own_identity())"
    ended = subprocess.run([sys.executable, "-c", print_identity], capture_output=True, text=True, check=True)
    held_by(client, "anna@host:7", seconds=100_000, process=ended.stdout.strip())
    lock = StackLock(client, STACK, "up", Said(), wait_seconds=3600)

    with lock.held():
        live = lease(client)
    assert live is not None
    assert live["spec"]["holderIdentity"] == lock.holder


def test_remote_and_running_processes_do_not_count_as_ended() -> None:
    machine, pid, start = own_identity().split(":")
    assert not has_ended(own_identity())
    assert has_ended(f"{machine}:{pid}:{start}0"), "a new process with the same id"
    assert not has_ended(f"other-{machine}:{pid}:{start}0")
    assert not has_ended("")


def test_a_run_renews_its_lock_and_the_next_one_gets_it_afterwards(client: KubernetesClient) -> None:
    order: list[str] = []
    for seconds in DEADLINES_SECONDS[:-1]:
        order = _in_turn(client, int(seconds))
        if order[0] == "first":  # if a renewal is late, the first run loses the lock
            break

    assert order == ["first", "second"]


def _in_turn(client: KubernetesClient, lease_seconds: int) -> list[str]:
    """Let two runs take the lock, the first for longer than its lease. Return the order in which they finish."""
    order: list[str] = []
    first = StackLock(client, STACK, "up", Said(), lease_seconds=lease_seconds)
    second = StackLock(client, STACK, "destroy", Said(), wait_seconds=3600)

    def run() -> None:
        with second.held():
            order.append("second")

    waiting = threading.Thread(target=run)
    with suppress(UnknownOutcome), first.held():
        before = lease(client)
        assert before is not None
        waiting.start()
        deadline = time.monotonic() + 2.5 * lease_seconds
        eventually(lambda: time.monotonic() > deadline)
        live = lease(client)
        assert live is not None
        assert live["spec"]["renewTime"] > before["spec"]["renewTime"]
        order.append("first")
    waiting.join()
    return order


def test_a_run_whose_lock_was_taken_over_stops(client: KubernetesClient) -> None:
    def work() -> None:
        with StackLock(client, STACK, "up", Said(), lease_seconds=1).held():
            held_by(client, "anna@host:7", seconds=3600)
            eventually(lambda: False)

    with pytest.raises(
        UnknownOutcome, match=r"lost its lock .*another run took it over.*[Rr]un the same command again"
    ):
        work()

    live = lease(client)
    assert live is not None
    assert live["spec"]["holderIdentity"] == "anna@host:7"

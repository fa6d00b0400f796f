"""Lock of one stack: a Lease in the cluster, so that two runs never change the stack at the same time.

The Lease is next to the ApplySet's parent in `kube-system`. Its holder renews it three times per lease duration. A
killed run therefore blocks other runs for at most one lease duration. Runs on the same machine are not blocked,
because they detect that the process has ended. As in client-go, a waiting run considers the Lease expired if
nobody renews it while the run waits for one lease duration. The clocks of two machines may differ, so the run
compares the time in the Lease with its own clock only to find Leases that were last renewed many minutes ago.
"""

from __future__ import annotations

import getpass
import os
import signal
import socket
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from gpu_platform.base.errors import GpuPlatformError, UnknownOutcome
from gpu_platform.base.names import STACK_LABEL
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.embedded.applyset import PARENT_NAMESPACE, parent_name
from gpu_platform.deploy.process_identity import has_ended, own_identity
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.connection import Limits, Refused
from gpu_platform.live.objects import annotation, mapping_at

LEASE_SECONDS: Final = 30
# The wait is longer than a Lease's duration, so that the Lease of a killed run expires and is taken over.
WAIT_SECONDS: Final = 60.0
_API_VERSION: Final = "coordination.k8s.io/v1"
_COMMAND_ANNOTATION: Final = "gpu-platform.dev/command"
_PROCESS_ANNOTATION: Final = "gpu-platform.dev/process"
_POLL_SECONDS: Final = 0.5
_REQUEST_SECONDS: Final = 5.0
# A Lease that was last renewed this long ago has expired, even if the clocks of two machines differ.
# If two clocks differed by more than this time, TLS and tokens would fail.
_SURELY_EXPIRED_SECONDS: Final = 600.0


class StackLock:
    """Lock of one stack in one cluster, for one command of this process."""

    def __init__(
        self,
        client: KubernetesClient,
        stack: str,
        command: str,
        progress: Progress,
        *,
        lease_seconds: int = LEASE_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """Prepare a lock for `command` (`up`, `destroy`). Nothing is written before `held` is called."""
        seconds = max(lease_seconds / 3, _REQUEST_SECONDS)  # a renewal must end before the Lease expires
        self._client = client.limited(Limits(connect=_REQUEST_SECONDS, read=seconds, total=seconds))
        self._stack = stack
        self._command = command
        self._progress = progress
        self._lease_seconds = lease_seconds
        self._wait_seconds = wait_seconds
        self._name = parent_name(stack)
        self.holder: Final = f"{_user()}@{socket.gethostname()}:{os.getpid()}"
        self._held: Mapping[str, Any] = {}
        self._lost = ""
        self._done = threading.Event()

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold the lock while the body runs. The body must run in the main thread.

        Waits while another run holds the lock. Raises UnknownOutcome if that run does not end within
        `wait_seconds`. Also raises UnknownOutcome if the lock is lost while the body runs, because this process
        was suspended or could not reach the cluster.
        """
        self._acquire()
        renewing = threading.Thread(target=self._renew, name="stack-lock", daemon=True)
        renewing.start()
        try:
            yield
        except KeyboardInterrupt:
            if self._lost:
                raise UnknownOutcome(self._lost) from None
            raise
        finally:
            self._done.set()
            renewing.join()
            if not self._lost:
                with suppress(GpuPlatformError):  # if the deletion fails, the Lease expires
                    self._client.delete(self._held, unchanged=True)

    def _acquire(self) -> None:
        started = seen_at = time.monotonic()
        seen: object = None
        told = False
        while not self._try_to_take(expired=seen is not None and self._is_over(seen_at)):
            live = self._held
            now = time.monotonic()
            spec = mapping_at(live, "spec")
            if (spec.get("holderIdentity"), spec.get("renewTime")) != seen:
                seen, seen_at = (spec.get("holderIdentity"), spec.get("renewTime")), now
            if now - started > self._wait_seconds:
                raise UnknownOutcome(
                    f"stack {self._stack}: {_holder_of(live)}; waited {now - started:.0f} s, and "
                    "nothing was changed. Run the command again when that run is over"
                )
            if live and not told:
                told = True
                self._progress.line(
                    f"stack {self._stack}: {_holder_of(live)}; waiting up to {self._wait_seconds:.0f} s "
                    f"(a killed run on another machine holds it for {spec.get('leaseDurationSeconds')} s)"
                )
            time.sleep(_POLL_SECONDS)

    def _is_over(self, seen_at: float) -> bool:
        """Return whether the holder of the last-read Lease has ended, or has not renewed the Lease in time."""
        spec = mapping_at(self._held, "spec")
        if has_ended(annotation(self._held, _PROCESS_ANNOTATION)):
            return True
        if time.monotonic() - seen_at > float(spec.get("leaseDurationSeconds") or self._lease_seconds):
            return True
        try:
            renewed = datetime.fromisoformat(str(spec.get("renewTime")))
        except ValueError:
            return False
        return (datetime.now(UTC) - renewed).total_seconds() > _SURELY_EXPIRED_SECONDS

    def _try_to_take(self, *, expired: bool) -> bool:
        """Take the lock if it is free or `expired`. Otherwise store the current Lease in `_held`."""
        live = self._client.get(_API_VERSION, "Lease", self._name, PARENT_NAMESPACE)
        before, self._held = self._held, live or {}
        now = _now()
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self._lease_seconds,
            "acquireTime": now,
            "renewTime": now,
        }
        if live is None:
            try:
                self._held = self._client.create(self._lease(spec))
            except Refused as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
                return False
            return True
        unchanged = _version(before) == _version(live)
        if not (expired and unchanged):
            return False
        transitions = int(mapping_at(live, "spec").get("leaseTransitions") or 0) + 1
        taken = self._write(self._lease({**spec, "leaseTransitions": transitions}, live))
        if taken:
            self._progress.line(
                f"stack {self._stack}: {_holder_of(live)} but did not renew it, so it was taken over"
            )
        return taken

    def _renew(self) -> None:
        renewed_at = time.monotonic()
        while not self._done.wait(self._lease_seconds / 3):
            try:
                if not self._write(self._lease({"renewTime": _now()}, self._held)):
                    return self._lose("another run took it over")
                renewed_at = time.monotonic()
            except GpuPlatformError as error:
                if time.monotonic() - renewed_at > self._lease_seconds:
                    return self._lose(str(error))
        return None

    def _lose(self, why: str) -> None:
        self._lost = (
            f"stack {self._stack}: this run lost its lock after {self._lease_seconds} s without renewal ({why}) "
            "and stopped. Run the same command again to continue"
        )
        # A background job of a shell ignores SIGINT, so such a process receives SIGTERM.
        # A signal also interrupts a wait for a server that does not answer.
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGTERM if ignored else signal.SIGINT)

    def _write(self, lease: Mapping[str, Any]) -> bool:
        """Write the Lease unless it was changed or deleted since it was read. Return whether it was written."""
        try:
            self._held = self._client.merge_if_unchanged(lease)
        except Refused as refusal:
            if refusal.status in (404, 409):
                return False
            raise
        return True

    def _lease(self, spec: Mapping[str, Any], live: Mapping[str, Any] | None = None) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": self._name,
            "namespace": PARENT_NAMESPACE,
            "labels": {STACK_LABEL: self._stack},
            "annotations": {_COMMAND_ANNOTATION: self._command, _PROCESS_ANNOTATION: own_identity()},
        }
        if live is not None:
            metadata["resourceVersion"] = _version(live)
        return {"apiVersion": _API_VERSION, "kind": "Lease", "metadata": metadata, "spec": dict(spec)}


def _version(live: Mapping[str, Any]) -> str:
    return str(mapping_at(live, "metadata").get("resourceVersion") or "")


def _holder_of(live: Mapping[str, Any]) -> str:
    spec = mapping_at(live, "spec")
    command = annotation(live, _COMMAND_ANNOTATION) or "another run"
    return f"`{command}` of {spec.get('holderIdentity')} has held the lock since {spec.get('acquireTime')}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no entry in the password file
        return str(os.getuid())

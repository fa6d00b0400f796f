"""Starts, repairs, inspects and removes sandboxes: Kubernetes control planes on this machine with simulated nodes.

The processes are real (etcd, API server, controller manager, scheduler) and keep running after the command that
started them. KWOK and the simulator simulate the nodes. All processes listen on the loopback address or on sockets
in the sandbox's data folder.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal

from gpu_platform.base.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.base.paths import sandbox_dir
from gpu_platform.base.progress import Progress
from sandbox import _components, build
from sandbox._components import Component
from sandbox._daemons import Daemon
from sandbox._definitions import Document, read_definitions
from sandbox._layout import ADMIN, HOST, Layout, Settings
from sandbox._locks import file_lock
from sandbox._modules import DEFAULT, KARPENTER
from sandbox.diagnosis import diagnose, require_disk
from sandbox.versions import check_kubernetes

_START_SECONDS: Final = 300.0  # A start takes 4 s, and over 120 s on a machine with a load of 30.
_ANSWER_SECONDS: Final = 60.0  # time limit for components that an earlier `up` has started
_POLL_SECONDS: Final = 0.05
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")

# Components in the order of their start. They stop in reverse order.
_NAMES: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "simulator",
    "kueue",  # only for stacks with queues
    "karpenter",  # only for autoscaled pools, or on request
)

State = Literal["running", "degraded", "stopped", "absent"]


@dataclass(frozen=True, slots=True)
class Status:
    """Current state of a sandbox. `pids` contains the process ID of each component, or None if the component is
    not running.
    """

    name: str
    state: State
    data_dir: Path
    kubeconfig: Path
    server: str | None
    kubernetes: str
    pids: dict[str, int | None]

    def to_json(self) -> dict[str, Any]:
        """Return the status as plain JSON values."""
        return json.loads(json.dumps(asdict(self), default=str))


def up(
    name: str,
    *,
    data_dir: Path | None = None,
    api_port: int | None = None,
    crds_dir: Path | None = None,
    kubernetes: str | None = None,
    kueue: bool = False,
    karpenter: bool = False,
    karpenter_offers: Mapping[str, Mapping[str, int]] | None = None,
    progress: Progress | None = None,
) -> Status:
    """Start the sandbox `name`. Build its binaries, create its data and restart components if needed.

    Args:
        name: Lower-case letters, digits and hyphens. Sandboxes with different names can run at the same time.
        data_dir: An empty or new folder for the data, needed only in the first `up`. The default is
            `paths.sandbox_dir(name)`. If another folder is given, this path becomes a link to it.
        api_port: TCP port of the API server. By default, the sandbox chooses a free port and keeps it.
        crds_dir: Folder of CustomResourceDefinitions to install instead of the permissive definitions.
        kubernetes: Minor version of the control plane. The default is the sandbox's current version, or the newest
            version for a new sandbox. A newer version upgrades the sandbox in place.
        kueue: Run Kueue from now on.
        karpenter: Run Karpenter from now on.
        karpenter_offers: Extended resources of a node by machine type, for types that Karpenter creates. None or
            an empty mapping leaves them unchanged.
        progress: Shows the progress of long steps.

    Raises:
        BadInput: The name, folder, port or version cannot be used, or `crds_dir` contains other files.
        UnknownOutcome: The disk is full, or a component could not be built or started. The message contains the
            end of the component's log.
    """
    progress = progress or Progress()
    definitions = read_definitions(crds_dir) if crds_dir else []
    check_kubernetes(_home(name), name, kubernetes, "--kubernetes")
    layout = Layout(_claim(name, data_dir))
    require_disk(layout.folder)
    known = layout.settings()
    wanted = kubernetes or (known.kubernetes if known is not None else DEFAULT.kubernetes)
    kueue = kueue or (known is not None and known.kueue_port is not None)
    karpenter = karpenter or (known is not None and known.karpenter)
    binaries = build.binaries(progress, wanted, kueue=kueue, karpenter=karpenter)
    what = f"Starting sandbox {name}"
    found = status(name)
    if found.state == "running":
        what = f"Checking sandbox {name}, which runs"
    elif found.state == "degraded" and all(found.pids.values()):
        what = f"Waiting for the API server of sandbox {name}, which does not answer"
    if known is not None and known.kubernetes != wanted:
        what = f"Upgrading sandbox {name} from Kubernetes {known.kubernetes} to {wanted}"
    waiting = f"Waiting for another process that starts or stops sandbox {name}"
    with file_lock(layout.lock, on_wait=lambda: progress.waiting(waiting)), progress.step(what):
        starter = _Starter(name, layout, binaries, wanted, kueue=kueue, karpenter=karpenter)
        if karpenter_offers:
            layout.write_offers(karpenter_offers)
        try:
            return starter.run(api_port, definitions)
        except KeyboardInterrupt:
            starter.stop_started()
            raise


def down(name: str, *, keep_data: bool = False) -> Status:
    """Stop all processes of the sandbox `name`. Unless `keep_data` is set, also remove its data folder."""
    home = _home(name)
    layout = Layout(home.resolve())
    if layout.lock.exists():
        waiting = f"Waiting for another process that starts or stops sandbox {name}"
        with file_lock(layout.lock, on_wait=lambda: Progress(quiet=True).waiting(waiting)):
            for component in reversed(_NAMES):
                # Processes need time to write their data only if the data is kept.
                Daemon(component, layout.folder).stop(grace_seconds=10.0 if keep_data else 0.0)
            if not keep_data:
                shutil.rmtree(layout.folder)
    if not keep_data and home.is_symlink():
        home.unlink()
    return status(name)


def has_data(name: str) -> bool:
    """Return whether a sandbox has a data folder, even if its first start was interrupted."""
    return Layout(_home(name).resolve()).lock.exists()


def names() -> list[str]:
    """Return the names of this machine's sandboxes, running or stopped."""
    folder = sandbox_dir("").resolve()
    if not folder.is_dir():
        return []
    found = (home.name for home in folder.iterdir() if _NAME.fullmatch(home.name))
    return sorted(name for name in found if Layout(_home(name).resolve()).settings() is not None)


def status(name: str) -> Status:
    """Return the status of the sandbox `name`."""
    layout = Layout(_home(name).resolve())
    settings = layout.settings()
    optional = {
        "kueue": settings is not None and settings.kueue_port is not None,
        "karpenter": settings is not None and settings.karpenter,
    }
    pids = {
        component: Daemon(component, layout.folder).pid() for component in _NAMES if optional.get(component, True)
    }
    state: State
    if settings is None:
        state = "absent"
    elif not any(pids.values()):
        state = "stopped"
    elif all(pids.values()) and _is_ready(layout, settings):
        state = "running"
    else:
        state = "degraded"
    return Status(
        name=name,
        state=state,
        data_dir=layout.folder,
        kubeconfig=layout.kubeconfig,
        server=settings.server if settings else None,
        kubernetes=build.version_of(settings.kubernetes if settings else None),
        pids=pids,
    )


class _Starter:
    """One run of `up` for a sandbox. It holds the sandbox's lock."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        binaries: build.Binaries,
        kubernetes: str,
        *,
        kueue: bool,
        karpenter: bool,
    ) -> None:
        self._name = name
        self._kubernetes = kubernetes
        self._layout = layout
        self._binaries = binaries
        self._kueue = kueue
        self._karpenter = karpenter
        self._since = time.monotonic()
        self._started: set[str] = set()
        self._ran = {component for component in _NAMES if Daemon(component, layout.folder).pid() is not None}
        self._ensured: dict[str, Callable[[], None]] = {}

    def run(self, api_port: int | None, definitions: Sequence[Document]) -> Status:
        layout, binaries = self._layout, self._binaries
        layout.folder.chmod(0o700)  # only these permissions protect etcd's sockets
        settings = self._settings(api_port)
        layout.scratch.mkdir(exist_ok=True)
        layout.ensure_tokens()

        self._ensure(_components.etcd(binaries))
        self._ensure(_components.api_server(binaries, layout, settings.api_port))
        from sandbox import _objects  # imported late, to use the time in which the API server starts
        from sandbox.kueue.manifests import definitions as kueue_definitions

        self._wait("kube-apiserver", "create its certificate", lambda: layout.write_kubeconfigs(settings))
        self._wait("kube-apiserver", "become ready", lambda: _is_ready(layout, settings))
        self._ensure(_components.controller_manager(binaries, layout))
        self._ensure(_components.scheduler(binaries, layout))
        self._ensure(_components.kwok(binaries, layout), lambda: _objects.forget_leases(layout, settings))
        self._ensure(_components.simulator(layout))
        if settings.kueue_port is not None:
            definitions = [*definitions, *kueue_definitions(binaries.manifests("kueue"), settings.kueue_port)]
        if settings.karpenter:
            folder = binaries.manifests("karpenter")
            definitions = [
                *definitions,
                *(one for part in KARPENTER.copied for one in read_definitions(folder / part)),
            ]
        _objects.install(layout, settings, definitions)
        self._wait("kube-apiserver", "serve the new kinds", lambda: _objects.kinds_are_served(layout, settings))
        if settings.kueue_port is not None:
            self._ensure(_components.kueue(binaries, layout, settings.kueue_port))
        if settings.karpenter:
            from gpu_platform.catalog import load_catalog
            from sandbox.karpenter.instance_types import instance_types

            layout.write_instance_types(instance_types(load_catalog(), layout.offers()))
            self._ensure(_components.karpenter(binaries, layout))
        accounts = "create the service accounts of pods"
        self._wait("kube-controller-manager", accounts, lambda: _objects.pods_are_accepted(layout, settings))
        self._keep_alive()
        return status(self._name)

    def stop_started(self) -> None:
        """Stop the components that this `up` started. The data remains, and the next `up` continues from there."""
        for component in reversed(_NAMES):
            if component not in self._ran:
                Daemon(component, self._layout.folder).stop(grace_seconds=5.0)

    def _settings(self, api_port: int | None) -> Settings:
        """Return the settings to use. If the port or certificate changes, first stop all components."""
        layout = self._layout
        known = layout.settings()
        runs = Daemon("kube-apiserver", layout.folder).pid() is not None
        if known is not None and api_port in (None, known.api_port) and (runs or _is_free(known.api_port)):
            settings = replace(known, kubernetes=self._kubernetes)
        else:
            if api_port is not None and not _is_free(api_port):
                fix = "omit it to use a free port"
                raise BadInput("sandbox", [Problem("--api-port", f"{api_port}, in use", "a free port", fix)])
            settings = Settings(self._name, api_port or _free_port(), self._kubernetes)
        if self._kueue and settings.kueue_port is None:
            settings = replace(settings, kueue_port=known.kueue_port if known is not None else None)
        if self._kueue and settings.kueue_port is None:
            settings = replace(settings, kueue_port=_free_port())
        settings = replace(settings, karpenter=self._karpenter)
        moved = known is None or settings.api_port != known.api_port
        if moved or layout.certificate_is_old():
            for component in reversed(_NAMES):
                Daemon(component, layout.folder).stop(grace_seconds=10.0)
            if layout.certificate_is_old():
                shutil.rmtree(layout.certificates)
        # The settings are written first, so that the next `up` continues an interrupted upgrade.
        layout.write_settings(settings)
        return settings

    def _ensure(self, component: Component, prepare: Callable[[], None] | None = None) -> None:
        daemon = Daemon(component.name, self._layout.folder)
        env = _components.environment(self._layout)
        if daemon.ensure(component.command, env=env, reads=component.reads, prepare=prepare):
            self._started.add(component.name)
        self._ensured[component.name] = lambda: self._ensure(component, prepare)

    def _wait(self, component: str, what: str, done: Callable[[], bool]) -> None:
        while not done():
            self._keep_alive()
            limit = _START_SECONDS if self._started else _ANSWER_SECONDS
            if time.monotonic() - self._since > limit:
                daemon = Daemon(component, self._layout.folder)
                raise UnknownOutcome(
                    f"Sandbox {self._name}: {component} did not {what} within {limit:.0f} s."
                    f" {diagnose(self._name)}. The end of {daemon.log}:\n{daemon.log_tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def _keep_alive(self) -> None:
        """Restart components that have ended. Raises UnknownOutcome if this `up` started one of them."""
        for name, ensure in list(self._ensured.items()):
            daemon = Daemon(name, self._layout.folder)
            if daemon.pid() is not None:
                continue
            if name in self._started:
                raise UnknownOutcome(
                    f"Sandbox {self._name}: {name} ended during the start. The end of {daemon.log}:\n"
                    f"{daemon.log_tail()}"
                )
            ensure()


def _home(name: str) -> Path:
    """Return the path of the sandbox `name`: its data folder, or a link to it."""
    if _NAME.fullmatch(name) is None:
        allowed = "at most 42 lower-case letters, digits and hyphens, starting and ending with a letter or digit"
        plain = re.sub("[^a-z0-9-]+", "-", name.casefold()).strip("-")[:42] or "local"
        raise BadInput("sandbox", [Problem("--name", repr(name), allowed, f"for example {plain!r}")])
    return sandbox_dir(name)


def _claim(name: str, data_dir: Path | None) -> Path:
    """Return the data folder of the sandbox `name`. It is created if it does not exist."""
    home = _home(name)
    wanted = (data_dir or home).expanduser().resolve()
    if home.exists() and home.resolve() != wanted:
        fix = f"run `gpu-platform sandbox down --name {name}` first, or use another name"
        raise BadInput("sandbox", [Problem("--data-dir", str(wanted), f"its folder {home.resolve()}", fix)])
    wanted.mkdir(parents=True, exist_ok=True)
    # The folder must not contain other files, because `down` removes it.
    if not Layout(wanted).lock.exists() and any(wanted.iterdir()):
        raise BadInput("sandbox", [Problem("--data-dir", f"other files in {wanted}", "an empty or new folder")])
    if home.is_symlink() and not home.exists():  # the folder that the link points to was deleted
        home.unlink()
    if data_dir is not None and not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        home.symlink_to(wanted)
    return wanted


def _is_ready(layout: Layout, settings: Settings) -> bool:
    try:
        trust = ssl.create_default_context(cafile=layout.authority)
        connection = http.client.HTTPSConnection(HOST, settings.api_port, timeout=5, context=trust)
        with contextlib.closing(connection):
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {layout.token(ADMIN)}"})
            return connection.getresponse().status == HTTPStatus.OK
    except (OSError, http.client.HTTPException):  # the server has no certificate yet, or is not listening yet
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]

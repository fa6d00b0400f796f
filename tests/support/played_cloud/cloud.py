"""The simulated cloud that a test starts: an empty account in a folder, the CLI's environment, and a log of
events.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from gpu_platform.base.paths import PROJECT_ROOT
from tests.support.played_cloud.account import Account, Store
from tests.support.played_cloud.azure import AGENT_POOL
from tests.support.played_cloud.eks import SCHEDULE, run_scheduled
from tests.support.played_cloud.network import played_network
from tests.support.played_cloud.services import Services

FOLDER: Final = "PLAYED_CLOUD"
_PROVIDER: Final = f"""#!/bin/sh
PLAYED_VERSION=%s PYTHONPATH={PROJECT_ROOT} exec {sys.executable} -m tests.support.played_cloud "$@"
"""
# Replaces `kubelogin get-token`, whose arguments do not contain the cluster.
_KUBELOGIN: Final = """#!/bin/sh
exec cat "$PLAYED_CLOUD"/token-*.json
"""
# Replaces `aws eks get-token --cluster-name NAME`, and prints a token that the API server accepts.
_AWS: Final = """#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != --cluster-name ]; do shift; done
exec cat "$PLAYED_CLOUD/token-$2.json"
"""


@dataclass(frozen=True, slots=True)
class Happened:
    """How a step changed the nodes of each pool, as numbers of nodes and GPUs. The key None stands for the system
    nodes. `created` and `removed` do not count surge nodes.
    """

    created: Mapping[str | None, tuple[int, int]]
    removed: Mapping[str | None, tuple[int, int]]
    rolled: frozenset[str | None]
    """Pools whose nodes were replaced within their node group."""
    most_missing: Mapping[str | None, int]
    """Maximum number of nodes that a pool lacked at any time during the step, compared with its size before or
    after the step, whichever is smaller.
    """
    events: tuple[Mapping[str, Any], ...]


class PlayedCloud:
    """A simulated account in a folder. `env` contains the environment variables for programs that use it."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.env = dict(env)
        self._store = Store(folder)

    @property
    def account(self) -> Account:
        """The current state of the account."""
        return self._store.read()

    def since(self, mark: int) -> Happened:
        """Return the effects of all events after the first `mark` events."""
        events = self.account.events[mark:]
        return Happened(
            created=_by_pool(event for event in events if event["what"] == "node created"),
            removed=_by_pool(event for event in events if event["what"] == "node removed"),
            rolled=frozenset(event["pool"] for event in events if event.get("why") == "rolled"),
            most_missing=_most_missing(events),
            events=tuple(events),
        )

    def node_groups(self, pool: str) -> list[str]:
        """Return the ids of a pool's node groups or agent pools."""
        found: list[str] = []
        for type_, labels in (("aws:eks/nodeGroup:NodeGroup", "labels"), (AGENT_POOL, "nodeLabels")):
            for own_id, group in self.account.of(type_):
                if group["inputs"].get(labels, {}).get("gpu-platform.dev/pool") == pool:
                    found.append(own_id)
        return found

    def delete(self, type_: str, own_id: str) -> None:
        """Delete a resource outside Pulumi, as a person would in the console."""
        Services(self._store).delete(type_, own_id)

    def run_scheduled(self, what: str) -> None:
        """Immediately run the scheduled action whose name begins with `gpu-platform-<what>-`."""
        with self._store.changing() as account:
            (action,) = (one for one, _ in account.of(SCHEDULE) if one.startswith(f"gpu-platform-{what}-"))
            run_scheduled(account, action)

    @contextmanager
    def holding(self, type_: str, name: str) -> Generator[None]:
        """Prevent the resources with this type and name from becoming ready. The cloud has created or updated the
        resources, but the engine still waits for them.

        `name` is a part of the resource's id.
        """
        self._store.held.write_text(f"{type_} {name}", "utf-8")
        try:
            yield
        finally:
            self._store.held.unlink()

    @contextmanager
    def failing(self, type_: str, name: str) -> Generator[None]:
        """Let the creation of the resources with this type and name fail after the cloud has accepted it.

        `name` is a part of the resource's id.
        """
        self._store.failing.write_text(f"{type_} {name}", "utf-8")
        try:
            yield
        finally:
            self._store.failing.unlink()

    def changing(self) -> Any:
        """Lock the account and yield it for changes that a person would make in the console."""
        return self._store.changing()


def _by_pool(events: Iterable[Mapping[str, Any]]) -> dict[str | None, tuple[int, int]]:
    found: dict[str | None, tuple[int, int]] = {}
    for event in events:
        if not event["surge"]:
            nodes, gpus = found.get(event["pool"], (0, 0))
            found[event["pool"]] = (nodes + 1, gpus + event["gpus"])
    return found


def _most_missing(events: Iterable[Mapping[str, Any]]) -> dict[str | None, int]:
    change: Counter[str | None] = Counter()
    least: Counter[str | None] = Counter()
    for event in events:
        change[event.get("pool")] += {"node created": 1, "node removed": -1}.get(str(event["what"]), 0)
        least[event.get("pool")] = min(least[event.get("pool")], change[event.get("pool")])
    return {pool: min(0, change[pool]) - number for pool, number in least.items() if number < min(0, change[pool])}


@contextmanager
def played_cloud(folder: Path) -> Generator[PlayedCloud]:
    """Serve the network of an empty account, and yield the account."""
    programs = folder / "bin"
    programs.mkdir()
    providers = {
        f"pulumi-resource-{name}": _PROVIDER % version(f"pulumi-{name}") for name in ("aws", "azure", "gcp")
    }
    for name, text in {**providers, "aws": _AWS, "kubelogin": _KUBELOGIN}.items():
        (programs / name).write_text(text, "utf-8")
        (programs / name).chmod(0o755)
    with played_network(folder) as network:
        yield PlayedCloud(
            folder, {**network, FOLDER: str(folder), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        )

"""The resources and events of the simulated account, in one JSON file that is locked during changes."""

from __future__ import annotations

import fcntl
import json
import secrets
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.played_cloud.kinds import kinds

ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-2"
SUBSCRIPTION: Final = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
_THREADS: Final = threading.Lock()


@dataclass(eq=False)
class Failed(Exception):
    """Raised if a creation fails after the cloud has accepted it. The resource exists.

    `remembered` is true if the provider returns the resource with the error.
    """

    reason: str
    own_id: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    remembered: bool

    def __str__(self) -> str:
        return self.reason


class Refused(Exception):
    """Raised if the simulated cloud refuses a request. The message begins with the error code of the API."""


class Account:
    """A simulated AWS account and Azure subscription: its resources by type and id, and a list of events.

    A resource has `inputs` and `outputs`. An event has `what` and further fields that depend on `what`.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self.resources: dict[str, dict[str, Any]] = content.get("resources", {})
        self.events: list[dict[str, Any]] = content.get("events", [])

    def of(self, type_: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the id and the content of each resource of a type."""
        for key, resource in self.resources.items():
            kind, _, own_id = key.partition(" ")
            if kind == type_:
                yield own_id, resource

    def get(self, type_: str, own_id: str) -> dict[str, Any] | None:
        """Return a resource, or None if it does not exist."""
        return self.resources.get(f"{type_} {own_id}")

    def put(self, type_: str, own_id: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Create or replace a resource."""
        self.resources[f"{type_} {own_id}"] = {"inputs": dict(inputs), "outputs": dict(outputs)}

    def remove(self, type_: str, own_id: str) -> None:
        """Remove a resource."""
        del self.resources[f"{type_} {own_id}"]

    def record(self, what: str, **fields: Any) -> None:
        """Add an event."""
        self.events.append({"what": what, **fields})

    def new_id(self, type_: str, inputs: Mapping[str, Any]) -> str:
        """Return an id for a new resource."""
        return str(_filled(kinds()[type_].id, {**inputs, "subscription": SUBSCRIPTION}))

    def computed(self, type_: str, own_id: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs that the cloud computes for a new resource."""
        known = {
            "path": "/",
            **inputs,
            "id": own_id,
            "account": ACCOUNT,
            "region": REGION,
            "subscription": SUBSCRIPTION,
        }
        return {name: _filled(value, known) for name, value in kinds()[type_].outputs.items()}

    def refuse_deletion_in_use(self, type_: str, own_id: str) -> None:
        """Raise Refused if another resource depends on the given resource."""
        for other, path in kinds()[type_].blocked_by.items():
            for other_id, resource in self.of(other):
                value = own_id if path == "*" else at(resource["inputs"], path)
                if own_id == value or (isinstance(value, list) and own_id in value):
                    raise Refused(f"DependencyViolation: {type_} {own_id} has {other} {other_id}")


class Store:
    """The file that stores a simulated account."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "account.json"
        self._lock = folder / "account.lock"

    @property
    def held(self) -> Path:
        """File with a resource type and a part of an id. While the file exists, the creation or update of a
        matching resource does not finish.
        """
        return self._file.with_name("held")

    @property
    def failing(self) -> Path:
        """File with a resource type and a part of an id. While the file exists, the creation of a matching
        resource fails.
        """
        return self._file.with_name("failing")

    def fails(self, type_: str, own_id: str) -> bool:
        """Return whether the creation of a resource must fail, because `failing` names the resource."""
        return _names(self.failing, type_, own_id)

    def holds(self, type_: str, own_id: str) -> bool:
        """Return whether a creation or update must not finish yet, because `held` names the resource."""
        return _names(self.held, type_, own_id)

    def read(self) -> Account:
        """Return the current state of the account."""
        return Account(json.loads(self._file.read_text("utf-8")) if self._file.exists() else {})

    @contextmanager
    def changing(self) -> Generator[Account]:
        """Lock the account and yield it for changes, which are saved at the end even after a refusal."""
        with _THREADS, self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            account = self.read()
            try:
                yield account
            finally:
                written = self._file.with_suffix(".new")
                content = {"resources": account.resources, "events": account.events}
                written.write_text(json.dumps(content, indent=1), "utf-8")
                written.replace(self._file)


def at(value: Any, path: str) -> Any:
    """Return the value at a dotted path, or None."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _names(file: Path, type_: str, own_id: str) -> bool:
    """Return whether a file exists and contains the type and a part of the id."""
    try:
        named, _, part = file.read_text("utf-8").partition(" ")
    except FileNotFoundError:
        return False
    return named == type_ and part in own_id


def _filled(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, known) for name, one in value.items()}
    if isinstance(value, str):
        return value.format(**known, uid=secrets.token_hex(9)[:17], hex=secrets.token_hex(4)[:7])
    return value

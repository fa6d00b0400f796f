"""Creates the initial objects of a sandbox: CustomResourceDefinitions and a namespace."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final, cast

import urllib3

from gpu_platform.base.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.base.names import SANDBOX_NAMESPACE
from sandbox._definitions import Document, read_definitions
from sandbox._layout import ADMIN, Layout, Settings
from sandbox.diagnosis import diagnose

_PERMISSIVE_CRDS: Final = Path(__file__).resolve().parent / "crds"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FIELD_MANAGER: Final = "gpu-platform-sandbox"
REQUEST_SECONDS: Final = 30.0


class _Refused(Exception):
    """The API server refused a request. The exception's text is the server's message."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class _Client:
    """Client for the sandbox's API server. It avoids the API classes of `kubernetes`, whose import takes 0.9 s."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        # The environment's proxy is not used, because the API server is on this machine.
        self._pool = urllib3.PoolManager(ca_certs=str(layout.authority), timeout=REQUEST_SECONDS, retries=1)
        self._server = settings.server
        self._headers = {"Authorization": f"Bearer {layout.token(ADMIN)}"}

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()

    def get(self, path: str) -> Document:
        """Return the object or list at an API path."""
        return self._request("GET", path)

    def apply(self, path: str, document: Document) -> None:
        """Apply an object with server-side apply."""
        content = {"Content-Type": "application/apply-patch+yaml"}  # JSON is valid YAML
        query = f"?fieldManager={_FIELD_MANAGER}&force=true"
        self._request("PATCH", f"{path}/{_name(document)}{query}", content, json.dumps(document))

    def delete_all(self, path: str) -> None:
        """Delete all objects of a collection."""
        self._request("DELETE", path)

    def _request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> Document:
        answer = self._pool.request(
            method, self._server + path, headers={**self._headers, **(headers or {})}, body=body
        )
        found = _json(answer.data)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise _Refused(answer.status, str(found.get("message") or f"HTTP {answer.status} {answer.reason}"))
        return found


def install(layout: Layout, settings: Settings, given: Sequence[Document]) -> None:
    """Create the initial objects of a sandbox.

    The definitions in `given` are applied. The sandbox's own definitions permit any content, and are applied only
    if the cluster does not have them yet.

    Raises:
        BadInput: the API server rejects definitions.
        UnknownOutcome: the API server does not answer.
    """
    with _client(layout, settings) as client:
        present = {_name(item) for item in client.get(_DEFINITIONS)["items"]}
        absent = [item for item in _permissive_definitions() if _name(item) not in present]
        refused: list[Problem] = []
        for definition in [*absent, *given]:
            try:
                client.apply(_DEFINITIONS, definition)
            except _Refused as error:
                allowed = "a CustomResourceDefinition that the API server accepts"
                refused.append(Problem(_name(definition), str(error), allowed))
        if refused:
            raise BadInput("CRD folder", refused)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SANDBOX_NAMESPACE}}
        client.apply("/api/v1/namespaces", namespace)


@cache
def _permissive_definitions() -> Sequence[Document]:
    return read_definitions(_PERMISSIVE_CRDS)


def kinds_are_served(layout: Layout, settings: Settings) -> bool:
    """Return whether the API server serves the kinds of all definitions."""
    with _client(layout, settings) as client:
        return all(_is_established(item) for item in client.get(_DEFINITIONS)["items"])


def pods_are_accepted(layout: Layout, settings: Settings) -> bool:
    """Return whether the controllers have created the service account and the CA certificate that pods mount."""
    with _client(layout, settings) as client:
        try:
            client.get("/api/v1/namespaces/default/serviceaccounts/default")
            client.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
        except _Refused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True


def forget_leases(layout: Layout, settings: Settings) -> None:
    """Delete all node leases. Otherwise, a new KWOK waits up to 40 s for the leases of a killed KWOK to expire."""
    with _client(layout, settings) as client:
        client.delete_all("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")


@contextmanager
def _client(layout: Layout, settings: Settings) -> Generator[_Client]:
    try:
        with _Client(layout, settings) as client:
            yield client
    except (urllib3.exceptions.HTTPError, _Refused) as error:
        cause = f"HTTP {error.status}: {error}" if isinstance(error, _Refused) else str(error)
        raise UnknownOutcome(
            f"The sandbox's API server at {settings.server} does not answer: {cause}. {diagnose(settings.name)}"
        ) from error


def _json(text: bytes) -> Document:
    """Parse a response as JSON, and return an empty document if the response is not a JSON object."""
    try:
        found: object = json.loads(text)
    except ValueError:
        return {}
    return cast("Document", found) if isinstance(found, dict) else {}


def _is_established(definition: Document) -> bool:
    # The conditions of a new definition are null.
    conditions: Sequence[Document] = definition["status"].get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def _name(document: Document) -> str:
    return document["metadata"]["name"]

"""A small Kubernetes client with plain JSON objects, patches, and collections that watches keep up to date."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import urlencode

import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import load_kube_config

Object = Mapping[str, Any]

_WATCH_SECONDS: Final = 300
_RETRY_SECONDS: Final = 0.5
_ANSWER: Final = urllib3.Timeout(10)
_PATCH_TYPES: Final = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ApiError(Exception):
    """The API server rejected a request, or did not answer (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Api:
    """Client for one API server. Safe to use from several threads."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = Configuration()
        load_kube_config(config_file=str(kubeconfig), client_configuration=configuration, persist_config=False)
        configuration.proxy = None  # the API server is on this machine, so the environment's proxy is ignored
        configuration.connection_pool_maxsize = 16
        self.server: str = configuration.host
        self.authority: str = configuration.ssl_ca_cert or ""
        auth = cast("Mapping[str, Mapping[str, str]]", configuration.auth_settings())
        self._headers = {setting["key"]: setting["value"] for setting in auth.values()}
        self._pool = RESTClientObject(configuration).pool_manager

    def get(self, path: str) -> Object:
        """Return an object or a list. Raises ApiError if the API server rejects the request or does not answer."""
        return self._request("GET", path)

    def create(self, path: str, body: Object) -> Object:
        """Create an object and return the response. Raises ApiError if the API server rejects the request or does
        not answer.
        """
        return self._request("POST", path, body, "application/json")

    def patch(self, path: str, body: Object, kind: Literal["merge", "strategic"]) -> Object:
        """Patch an object and return the result. Raises ApiError if the API server rejects the request or does not
        answer.
        """
        return self._request("PATCH", path, body, _PATCH_TYPES[kind])

    def delete_now(self, path: str, uid: str) -> None:
        """Delete the object with this UID without a grace period if it still exists. Raises ApiError if the API
        server rejects the request or does not answer.
        """
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        }
        try:
            self._request("DELETE", path, options, "application/json")
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def watch(self, path: str, selectors: Mapping[str, str], version: str) -> Iterator[Object]:
        """Yield the watch events after `version` until the server ends the watch. Raises ApiError if the API
        server rejects the request or does not answer.
        """
        timing = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
        timeout = urllib3.Timeout(connect=5, read=_WATCH_SECONDS + 30)
        response = self._open("GET", path + query({**selectors, **timing}), timeout, preload_content=False)
        try:
            rest = b""
            for chunk in response.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, str(error)) from error
        finally:
            response.close()

    def _request(self, method: str, path: str, body: Object | None = None, content: str = "") -> Object:
        headers = {"Content-Type": content} if content else {}
        data = None if body is None else json.dumps(body).encode()
        return json.loads(self._open(method, path, _ANSWER, headers=headers, body=data).data)

    def _open(
        self,
        method: str,
        path: str,
        timeout: urllib3.Timeout,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        preload_content: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        try:
            response = self._pool.request(
                method,
                self.server + path,
                headers={**self._headers, **(headers or {})},
                body=body,
                timeout=timeout,
                preload_content=preload_content,
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, str(error)) from error
        if response.status >= 400:
            raise ApiError(response.status, response.data.decode(errors="replace")[:400])
        return response


class Informer:
    """The objects of one collection. A watch in a thread keeps them up to date.

    There are no objects until the API server serves the kind. `changed` is set after every change. Objects are
    replaced, never changed in place.
    """

    def __init__(
        self, api: Api, path: str, changed: threading.Event, selectors: Mapping[str, str] | None = None
    ) -> None:
        self._api = api
        self._path = path
        self._selectors = selectors or {}
        self._changed = changed
        self._lock = threading.Lock()
        self._objects: dict[str, Object] = {}
        self.synced = threading.Event()
        threading.Thread(target=self._run, name=f"watch {path}", daemon=True).start()

    def all(self) -> list[Object]:
        """Return all objects."""
        with self._lock:
            return list(self._objects.values())

    def patch(self, item: Object, subresource: str, body: Object, *, only_unchanged: bool = False) -> Object:
        """Patch an object of the collection (strategic merge) and return the result. Raises ApiError.

        The result is stored immediately, so that the next reconciliation does not read the old object. With
        `only_unchanged`, the patch fails with status 409 if the object is newer than `item`.
        """
        # The patch contains the UID, so it fails on a new object with the same name.
        metadata = {**body.get("metadata", {}), "uid": item["metadata"]["uid"]}
        if only_unchanged:
            metadata["resourceVersion"] = item["metadata"]["resourceVersion"]
        path = _path_of(self._path, item) + (f"/{subresource}" if subresource else "")
        patched = self._api.patch(path, {**body, "metadata": metadata}, "strategic")
        with self._lock:
            known = self._objects.get(key_of(item))
            if known is not None and version_of(known) < version_of(patched):
                self._objects[key_of(item)] = patched
        return patched

    def delete_now(self, item: Object) -> None:
        """Delete an object of the collection without a grace period. Raises ApiError if the API server rejects the
        request or does not answer.
        """
        self._api.delete_now(_path_of(self._path, item), item["metadata"]["uid"])

    def _run(self) -> None:
        silent = False
        while True:
            try:
                self._follow()
                silent = False
            except ApiError as error:
                if error.status == 404:
                    self._replace([])
                elif error.status != 410 and not silent:
                    log(f"watch {self._path}: {error}")
                    silent = True  # log one line for each outage
                time.sleep(_RETRY_SECONDS)

    def _follow(self) -> None:
        listed = self._api.get(self._path + query(self._selectors))
        self._replace(listed["items"])
        for event in self._api.watch(self._path, self._selectors, listed["metadata"]["resourceVersion"]):
            item: Object = event["object"]
            if event["type"] == "ERROR":
                raise ApiError(int(item.get("code", 0)), str(item.get("message", "")))
            with self._lock:
                if event["type"] == "DELETED":
                    self._objects.pop(key_of(item), None)
                elif version_of(self._objects.get(key_of(item), {})) < version_of(item):
                    self._objects[key_of(item)] = item
            self._changed.set()

    def _replace(self, items: list[Object]) -> None:
        with self._lock:
            self._objects = {key_of(item): item for item in items}
        self.synced.set()
        self._changed.set()


def key_of(item: Object) -> str:
    """Return the object's key, `namespace/name`."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _path_of(collection: str, item: Object) -> str:
    """Return an object's path. `collection` is the path of its collection, in all namespaces or in one."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    if namespace and "/namespaces/" not in collection:
        root, _, kind = collection.rpartition("/")
        collection = f"{root}/namespaces/{namespace}/{kind}"
    return f"{collection}/{metadata['name']}"


def version_of(item: Object) -> int:
    """Return an object's resource version, or 0 if it has none. The version increases with every change to the
    object.
    """
    return int(item.get("metadata", {}).get("resourceVersion", 0))


def query(parameters: Mapping[str, str]) -> str:
    """Return the query string of a URL with its question mark, or an empty string if there are no parameters."""
    return f"?{urlencode(parameters)}" if parameters else ""


def log(line: str) -> None:
    """Print a line with the current time to standard output, unbuffered."""
    print(time.strftime("%H:%M:%S"), line, flush=True)

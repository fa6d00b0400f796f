"""Kubernetes client for objects of any kind as dicts, with discovery and readable errors.

It uses the official client for the kubeconfig (with exec plugins) and the connection, but not its generated
models, since the objects of a program can be of any kind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import urllib3
import yaml
from kubernetes.config import ConfigException, new_client_from_config  # pyright: ignore[reportUnknownVariableType]

from gpu_platform.engine.objects import object_key
from gpu_platform.errors import Finding, UnknownOutcome
from gpu_platform.names import FIELD_MANAGER

_TIMEOUT_SECONDS: Final = 60.0
_PAGE_SIZE: Final = 500
_RETRY_PAUSES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 4.0)  # long enough for a restart of the API server
_RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is YAML
_MERGE_PATCH: Final = "application/merge-patch+json"


class Refused(Finding):
    """The API server refused a request.

    `status` is the HTTP status, `reason` that of the API (`Invalid`, `Forbidden`, `AlreadyExists`, ...).
    """

    def __init__(self, what: str, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        super().__init__(f"{what}: {message}")


@dataclass(frozen=True, slots=True)
class ApiResource:
    """Endpoint of a kind: API version, plural name, and whether it is namespaced."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of an object, or of the collection if `name` is empty."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{quote(name)}" if name else "")


class KubernetesClient:
    """Client of one cluster, with a cache of the discovery.

    Methods raise Refused if the API server refuses the request, and UnknownOutcome if it does not answer.
    """

    def __init__(
        self, kubeconfig: Path | None = None, context: str | None = None, *, source: str | None = None
    ) -> None:
        """Read a kubeconfig file (default: $KUBECONFIG, else ~/.kube/config) and select one of its contexts.

        `source`: description of the kubeconfig in errors, default its path. The file is not read again.
        """
        self._source = source or (str(kubeconfig) if kubeconfig else "the default kubeconfig")
        try:
            api: Any = new_client_from_config(str(kubeconfig) if kubeconfig else None, context)
        except (ConfigException, OSError, ValueError, yaml.YAMLError) as error:
            raise UnknownOutcome(f"{self._source} cannot be used: {error}. {_HOW_TO_REACH}") from error
        self._configuration: Any = api.configuration
        self._pool: urllib3.PoolManager = api.rest_client.pool_manager
        self._resources: dict[str, dict[str, ApiResource]] = {}

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._configuration.host)

    # -- objects -------------------------------------------------------------------------------------------

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return an object, or None if it or its kind does not exist."""
        resource = self.find_resource(api_version, kind)
        if resource is None:
            return None
        try:
            return self._request("GET", resource.path(namespace, name), f"reading {kind} {name}")
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    def objects(
        self,
        api_version: str,
        kind: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of a kind in one namespace or in all; none if the kind does not exist."""
        resource = self.find_resource(api_version, kind)
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": str(_PAGE_SIZE)}
        while resource is not None:
            page = self._request("GET", resource.path(namespace), f"listing {kind}", query)
            for item in page.get("items") or ():
                yield {"apiVersion": api_version, "kind": kind, **item}
            metadata: dict[str, str] = page.get("metadata") or {}
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def apply(
        self, manifest: Mapping[str, Any], *, dry_run: bool = False, manager: str = FIELD_MANAGER
    ) -> dict[str, Any]:
        """Apply an object on the server with strict validation, taking over the fields that it declares."""
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        return self._write("PATCH", manifest, query, dry_run=dry_run, content_type=_APPLY_PATCH)

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object; raises Refused with reason AlreadyExists if it exists and the manifest is valid."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return self._write("POST", manifest, query, dry_run=dry_run)

    def could_be_created(self, manifest: Mapping[str, Any]) -> bool:
        """Return whether the manifest of an existing object would be valid for a new one."""
        try:
            self.create(manifest, dry_run=True)
        except Refused as refusal:
            return refusal.reason == "AlreadyExists"  # the server validates before it checks the name
        return True

    def merge(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Merge fields into an object, None removes a field; creates the object if it does not exist."""
        query = {"fieldManager": FIELD_MANAGER}
        try:
            return self._write("PATCH", manifest, query, content_type=_MERGE_PATCH)
        except Refused as refusal:
            if refusal.status != 404:
                raise
        return self._write("POST", _without_nulls(manifest), query)

    def delete(self, live: Mapping[str, Any]) -> None:
        """Delete this live object; no error if it does not exist, or if another object has its name.

        A workload is deleted after its pods, so that waiting for it includes them.
        """
        key = object_key(live)
        resource = self.resource(str(live["apiVersion"]), key.kind)
        policy = "Foreground" if key.group in ("apps", "batch") else "Background"
        body = {"propagationPolicy": policy, "preconditions": {"uid": live["metadata"]["uid"]}}
        try:
            self._request("DELETE", resource.path(key.namespace, key.name), f"deleting {key}", body=body)
        except Refused as refusal:
            if refusal.status not in (404, 409):  # 409: the precondition
                raise

    def evict(self, pod: Mapping[str, Any]) -> None:
        """Evict this pod, without retries; no error if it does not exist.

        Raises Refused, with status 429 if a PodDisruptionBudget does not allow the eviction now.
        """
        metadata = pod["metadata"]
        named = {"name": metadata["name"], "namespace": metadata["namespace"]}
        path = self.resource("v1", "Pod").path(**named) + "/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": named,
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        }
        try:
            self._request(
                "POST", path, f"evicting pod {metadata['namespace']}/{metadata['name']}", body=body, patient=False
            )
        except Refused as refusal:
            if refusal.status not in (404, 409):  # 409: the precondition
                raise

    # -- discovery -----------------------------------------------------------------------------------------

    def resource(self, api_version: str, kind: str) -> ApiResource:
        """Return the endpoint of a kind; raises Finding if the cluster does not have it."""
        if (resource := self.find_resource(api_version, kind)) is None:
            raise Finding(
                f"the cluster {self.server} does not have the kind {kind} of {api_version}: "
                "its CustomResourceDefinition is not installed"
            )
        return resource

    def find_resource(self, api_version: str, kind: str) -> ApiResource | None:
        """Return the endpoint of a kind, or None; a missing kind is looked up again at each call."""
        if kind not in self._resources.get(api_version, {}):
            self._resources[api_version] = self._discover(api_version)
        return self._resources[api_version].get(kind)

    def find_served(self, group: str, kind: str) -> ApiResource | None:
        """Return the endpoint of a kind in any served version, the preferred version first, or None."""
        if not group:
            return self.find_resource("v1", kind)
        try:
            served = self._request("GET", f"/apis/{group}", f"looking for {group}")
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise
        versions = [served["preferredVersion"], *served["versions"]]
        found = (self.find_resource(str(version["groupVersion"]), kind) for version in versions)
        return next(filter(None, found), None)

    def _discover(self, api_version: str) -> dict[str, ApiResource]:
        root = "/apis" if "/" in api_version else "/api"
        try:
            served = self._request("GET", f"{root}/{api_version}", f"looking for {api_version}")
        except Refused as refusal:
            if refusal.status == 404:
                return {}
            raise
        return {
            entry["kind"]: ApiResource(api_version, entry["kind"], entry["name"], bool(entry["namespaced"]))
            for entry in served["resources"]
            if "/" not in entry["name"]
        }

    # -- requests ------------------------------------------------------------------------------------------

    def _write(
        self,
        method: str,
        manifest: Mapping[str, Any],
        query: Mapping[str, str],
        *,
        dry_run: bool = False,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        key = object_key(manifest)
        resource = self.resource(str(manifest["apiVersion"]), key.kind)
        path = resource.path(key.namespace, "" if method == "POST" else key.name)
        query = {**query, "dryRun": "All" if dry_run else ""}
        return self._request(method, path, str(key), query, body=manifest, content_type=content_type)

    def _request(
        self,
        method: str,
        path: str,
        what: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        patient: bool = True,
    ) -> dict[str, Any]:
        """Send a request with retries and return the parsed answer; `what` describes the request in errors.

        Without `patient` a temporary refusal is raised at once.
        """
        parameters = urlencode({key: value for key, value in (query or {}).items() if value})
        url = f"{self.server}{path}" + (f"?{parameters}" if parameters else "")
        data = None if body is None else json.dumps(body).encode()
        for pause in (*_RETRY_PAUSES_SECONDS, None):
            try:
                response = self._pool.request(
                    method,
                    url,
                    body=data,
                    headers=self._headers(content_type),
                    timeout=_TIMEOUT_SECONDS,
                    retries=False,
                )
            except urllib3.exceptions.HTTPError as error:
                # No retry for a refused connection; a broken one may be a restart of the server.
                if pause is None or isinstance(error, urllib3.exceptions.NewConnectionError):
                    cause = str(error).rsplit(": ", 1)[-1]
                    raise UnknownOutcome(
                        f"the cluster of {self._source} ({self.server}) does not answer: {cause}. {_HOW_TO_REACH}"
                    ) from error
            else:
                if response.status < 300:
                    return cast("dict[str, Any]", json.loads(response.data))
                refusal = _refusal(what, response.status, response.data)
                if response.status == 401:
                    raise UnknownOutcome(
                        f"{self.server} does not accept the credentials of {self._source}: {refusal}"
                    )
                if pause is None or not patient or not _is_passing(refusal):
                    raise refusal
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        settings: dict[str, Any] = self._configuration.auth_settings()  # calls the kubeconfig's exec plugin anew
        if "BearerToken" in settings:
            headers["Authorization"] = str(settings["BearerToken"]["value"])
        return headers


_HOW_TO_REACH: Final = "For a sandbox on this machine run `gpu-platform sandbox up`."


def _is_passing(refusal: Refused) -> bool:
    """Return whether the same request may succeed later."""
    if refusal.status == 409:
        return refusal.reason == "Conflict" and "precondition" not in refusal.message.lower()
    return refusal.status in _RETRIED_STATUSES and "typed patch" not in refusal.message


def _refusal(what: str, status: int, data: bytes) -> Refused:
    """Return the refusal in the Status object of an answer, with each cause and its field, else the message."""
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        return Refused(what, status, "", data.decode(errors="replace").strip() or f"HTTP {status}")
    details: dict[str, Any] = answer.get("details") or {}
    causes = [
        f"{cause['field']}: {cause['message']}" for cause in details.get("causes") or () if cause.get("field")
    ]
    if status == 429:  # of an eviction: the PodDisruptionBudget and its condition
        causes = [str(cause["message"]) for cause in details.get("causes") or () if cause.get("message")]
    message = "; ".join(causes) or str(answer.get("message") or f"HTTP {status}")
    return Refused(what, status, str(answer.get("reason") or ""), message)


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(cast("Mapping[str, Any]", inner)) if isinstance(inner, Mapping) else inner
        for key, inner in value.items()
        if inner is not None
    }

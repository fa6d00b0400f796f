"""A thin layer over the official Kubernetes client: any object as a dict, discovery, errors a user can read.

From the official client come the kubeconfig (with its exec plugins) and the connection; its generated models
are not used, since a program's objects are of any kind.
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
_RETRY_PAUSES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 4.0)  # an API server that restarts is back by then
_RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is YAML
_MERGE_PATCH: Final = "application/merge-patch+json"


class Refused(Finding):
    """The API server answered, and the answer was no.

    `status` is HTTP's, `reason` the API's (`Invalid`, `Forbidden`, `AlreadyExists`, ...).
    """

    def __init__(self, what: str, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        super().__init__(f"{what}: {message}")


@dataclass(frozen=True, slots=True)
class ApiResource:
    """How one kind is reached: its path below the server, and whether its objects live in namespaces."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of one object, or of the collection where `name` is empty."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{quote(name)}" if name else "")


class KubernetesClient:
    """One cluster. Discovery is kept in memory for the life of the client.

    Methods raise Refused for a request that the API server refuses, and UnknownOutcome where it does not answer.
    """

    def __init__(
        self, kubeconfig: Path | None = None, context: str | None = None, *, source: str | None = None
    ) -> None:
        """Take a kubeconfig file (default: $KUBECONFIG, else ~/.kube/config) and one of its contexts.

        `source`: what errors call the file, where its path would tell nobody anything. The file is read here,
        and never again.
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
        """The URL of the API server."""
        return str(self._configuration.host)

    # -- objects -------------------------------------------------------------------------------------------

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return one object, or None where it, or its kind, does not exist."""
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
        """Yield the objects of a kind, of one namespace or of all; none where the kind does not exist."""
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
        """Apply an object on the server, as the one owner of what it declares, strictly validated."""
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        return self._write("PATCH", manifest, query, dry_run=dry_run, content_type=_APPLY_PATCH)

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object; Refused with reason AlreadyExists where it is there and would be valid."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return self._write("POST", manifest, query, dry_run=dry_run)

    def would_be_valid_anew(self, manifest: Mapping[str, Any]) -> bool:
        """Return whether an object that is there, and refused a change, could be created as it is declared."""
        try:
            self.create(manifest, dry_run=True)
        except Refused as refusal:
            return refusal.reason == "AlreadyExists"  # the server validates first, and only then looks
        return True

    def merge(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Merge fields into an object, None removing one; creates the object where it is not there."""
        query = {"fieldManager": FIELD_MANAGER}
        try:
            return self._write("PATCH", manifest, query, content_type=_MERGE_PATCH)
        except Refused as refusal:
            if refusal.status != 404:
                raise
        return self._write("POST", _without_nulls(manifest), query)

    def delete(self, live: Mapping[str, Any]) -> None:
        """Delete exactly this live object; fine where it is gone, or where another has its name by now.

        A workload goes after its pods, so that waiting for it is waiting for them.
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
        """Ask once for the eviction of exactly this pod; fine where it is gone.

        Raises Refused, with status 429 where a PodDisruptionBudget does not allow it now.
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
        """Return how a kind is reached; raises Finding where the cluster does not know it."""
        if (resource := self.find_resource(api_version, kind)) is None:
            raise Finding(
                f"the cluster {self.server} does not know {kind} of {api_version}: "
                "its CustomResourceDefinition is not installed"
            )
        return resource

    def find_resource(self, api_version: str, kind: str) -> ApiResource | None:
        """Return how a kind is reached, or None; a kind that was missing is looked for anew at each call."""
        if kind not in self._resources.get(api_version, {}):
            self._resources[api_version] = self._discover(api_version)
        return self._resources[api_version].get(kind)

    def find_served(self, group: str, kind: str) -> ApiResource | None:
        """Return how a kind is reached in the first version that serves it, the preferred one before others."""
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
        """Send one request; `what` names it in errors. An answer that is an object is returned, parsed.

        Without `patient` a refusal that may pass is raised at once.
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
                # Refused connections are told at once; a connection that broke may be a server that restarts.
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


_HOW_TO_REACH: Final = "For a cluster on this machine run `gpu-platform sandbox up`."


def _is_passing(refusal: Refused) -> bool:
    """Return whether the same request may succeed a moment later."""
    if refusal.status == 409:
        return refusal.reason == "Conflict" and "precondition" not in refusal.message.lower()
    return refusal.status in _RETRIED_STATUSES and "typed patch" not in refusal.message


def _refusal(what: str, status: int, data: bytes) -> Refused:
    """Read the Status object of an answer: each cause with its field, else the message."""
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        return Refused(what, status, "", data.decode(errors="replace").strip() or f"HTTP {status}")
    details: dict[str, Any] = answer.get("details") or {}
    causes = [
        f"{cause['field']}: {cause['message']}" for cause in details.get("causes") or () if cause.get("field")
    ]
    if status == 429:  # of an eviction: which PodDisruptionBudget, and what it needs
        causes = [str(cause["message"]) for cause in details.get("causes") or () if cause.get("message")]
    message = "; ".join(causes) or str(answer.get("message") or f"HTTP {status}")
    return Refused(what, status, str(answer.get("reason") or ""), message)


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(cast("Mapping[str, Any]", inner)) if isinstance(inner, Mapping) else inner
        for key, inner in value.items()
        if inner is not None
    }

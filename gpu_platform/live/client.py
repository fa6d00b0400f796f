"""Kubernetes client for objects of any kind as dicts, with discovery and readable errors.

It uses the official client to read the kubeconfig (with exec plugins) and to connect. It does not use the official
client's generated models, because the program handles objects of any kind.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import urllib3
import yaml
from kubernetes.config import ConfigException, new_client_from_config

from gpu_platform.base.errors import Finding, UnknownOutcome
from gpu_platform.base.names import FIELD_MANAGER
from gpu_platform.live.connection import Connection, Limits, Refused
from gpu_platform.live.objects import WORKLOAD_GROUPS, object_key

_PAGE_SIZE: Final = 500
_APPLY_PATCH: Final = "application/apply-patch+yaml"  # the body is JSON, which is valid YAML
_MERGE_PATCH: Final = "application/merge-patch+json"
_GROUPS_OF_KUBERNETES: Final = ("admissionregistration.k8s.io",)  # built-in API groups, which have no CRDs


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


def _in_one_line(error: Exception) -> str:
    """Return the problem with a kubeconfig in one line. The surrounding lines are left out, because they may
    contain secrets.
    """
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"it is not YAML: {error.problem} in line {error.problem_mark.line + 1}"
    return str(error).partition("\n")[0]


class KubernetesClient:
    """Client for one cluster, which caches API discovery.

    Methods raise Refused if the API server refuses the request, and UnknownOutcome if it does not answer within 60
    s, including retries.
    """

    def __init__(
        self,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        source: str | None = None,
        limits: Limits | None = None,
        diagnose: Callable[[], str] | None = None,
    ) -> None:
        """Read a kubeconfig file (default: $KUBECONFIG, else ~/.kube/config) and select one of its contexts.

        `source` describes the kubeconfig in errors; the default is its path. The file is not read again. `limits`
        are the time limits of a request. `diagnose` returns more information about a server that does not answer.
        """
        source = source or (str(kubeconfig) if kubeconfig else "the default kubeconfig")
        try:
            api: Any = new_client_from_config(str(kubeconfig) if kubeconfig else None, context)
        except (ConfigException, OSError, ValueError, yaml.YAMLError) as error:
            missing = kubeconfig is not None and not kubeconfig.expanduser().exists()
            why = "does not exist" if missing else f"cannot be used: {_in_one_line(error)}"
            raise UnknownOutcome(f"{source} {why}") from error
        pool: urllib3.PoolManager = api.rest_client.pool_manager
        self._connection = Connection(
            pool, api.configuration, source, limits=limits or Limits(), diagnose=diagnose
        )
        self._resources: dict[str, dict[str, ApiResource]] = {}

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._connection.server

    def limited(self, limits: Limits) -> KubernetesClient:
        """Return a client for the same cluster with other time limits for requests."""
        client = copy.copy(self)
        client._connection = self._connection.limited(limits)
        return client

    # -- objects -------------------------------------------------------------------------------------------

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return an object, or None if it or its kind does not exist."""
        resource = self.find_resource(api_version, kind)
        if resource is None:
            return None
        try:
            return self._connection.request("GET", resource.path(namespace, name), f"reading {kind} {name}")
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
        """Yield the objects of a kind in one or all namespaces, or nothing if the kind does not exist."""
        resource = self.find_resource(api_version, kind)
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": str(_PAGE_SIZE)}
        while resource is not None:
            page = self._connection.request("GET", resource.path(namespace), f"listing {kind}", query)
            for item in page.get("items") or ():
                yield {"apiVersion": api_version, "kind": kind, **item}
            metadata: dict[str, str] = page.get("metadata") or {}
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def apply(
        self,
        manifest: Mapping[str, Any],
        *,
        dry_run: bool = False,
        manager: str = FIELD_MANAGER,
        patient: bool = True,
    ) -> dict[str, Any]:
        """Apply an object on the server with strict validation, and take over the fields that it declares.

        Without `patient`, a temporary refusal is raised immediately. For a manifest with a resourceVersion, this
        includes the conflict with a newer version of the object.
        """
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        return self._write("PATCH", manifest, query, dry_run=dry_run, content_type=_APPLY_PATCH, patient=patient)

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object. Raises Refused with reason AlreadyExists if it exists and the manifest is valid."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return self._write("POST", manifest, query, dry_run=dry_run)

    def refusal_of_new(self, manifest: Mapping[str, Any]) -> Refused | None:
        """Return why the API server would refuse to create this manifest as a new object, or None if it would not.
        The object may already exist.
        """
        try:
            self.create(manifest, dry_run=True)
        except Refused as refusal:
            return (
                None if refusal.reason == "AlreadyExists" else refusal
            )  # the API server checks all other fields before the name
        return None

    def merge(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Merge fields into an object, or create it if it does not exist. A value of None removes the field."""
        query = {"fieldManager": FIELD_MANAGER}
        try:
            return self._write("PATCH", manifest, query, content_type=_MERGE_PATCH)
        except Refused as refusal:
            if refusal.status != 404:
                raise
        return self._write("POST", _without_nulls(manifest), query)

    def merge_if_unchanged(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Merge fields into an object that still has the resourceVersion of the manifest, without retries.

        Raises Refused with status 409 if the object was changed, and 404 if it was deleted.
        """
        query = {"fieldManager": FIELD_MANAGER}
        return self._write("PATCH", manifest, query, content_type=_MERGE_PATCH, patient=False)

    def delete(self, live: Mapping[str, Any], *, unchanged: bool = False) -> None:
        """Delete this live object. It is not an error if the object does not exist, or another object now has its
        name.

        With `unchanged`, the object is deleted only if nobody has changed it since it was read. A workload is
        deleted after its pods, so that waiting for the workload includes the pods.
        """
        key = object_key(live)
        resource = self.resource(str(live["apiVersion"]), key.kind)
        policy = "Foreground" if key.group in WORKLOAD_GROUPS else "Background"
        metadata: dict[str, Any] = live["metadata"]
        preconditions = {"uid": metadata["uid"]}
        if unchanged:
            preconditions["resourceVersion"] = metadata["resourceVersion"]
        body = {"propagationPolicy": policy, "preconditions": preconditions}
        try:
            self._connection.request(
                "DELETE", resource.path(key.namespace, key.name), f"deleting {key}", body=body
            )
        except Refused as refusal:
            if refusal.status not in (404, 409):  # 409: the object is no longer the one that was read
                raise

    def evict(self, pod: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Evict this pod, without retries. It is not an error if the pod does not exist.

        With `dry_run`, only check whether the pod would be evicted. Raises Refused, with status 429 if a
        PodDisruptionBudget does not allow the eviction now.
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
        what = f"evicting pod {metadata['namespace']}/{metadata['name']}"
        query = {"dryRun": "All" if dry_run else ""}
        try:
            self._connection.request("POST", path, what, query, body=body, patient=False)
        except Refused as refusal:
            if refusal.status not in (404, 409):  # 409: the pod is no longer the one that was read
                raise

    def kubernetes_version(self) -> str:
        """Return the version of the API server, such as `v1.35.2-eks-4f4795d`."""
        return str(self._connection.request("GET", "/version", "reading the version")["gitVersion"])

    # -- discovery -----------------------------------------------------------------------------------------

    def resource(self, api_version: str, kind: str) -> ApiResource:
        """Return the endpoint of a kind. Raises Finding if the cluster does not have the kind."""
        if (resource := self.find_resource(api_version, kind)) is None:
            missing = "its CustomResourceDefinition is not installed"
            if api_version.partition("/")[0] in _GROUPS_OF_KUBERNETES:
                missing = (
                    f"Kubernetes {self.kubernetes_version()} does not serve it; write this version as "
                    "cluster.kubernetes in the environment's stack file, so that such objects are left out"
                )
            raise Finding(f"the cluster {self.server} does not have the kind {kind} of {api_version}: {missing}")
        return resource

    def find_resource(self, api_version: str, kind: str) -> ApiResource | None:
        """Return the endpoint of a kind, or None. A missing kind is looked up again at each call."""
        if kind not in self._resources.get(api_version, {}):
            self._resources[api_version] = self._discover(api_version)
        return self._resources[api_version].get(kind)

    def find_served(self, group: str, kind: str) -> ApiResource | None:
        """Return the endpoint of a kind in the preferred version or, if that version does not have the kind, in
        any other served version. Return None if no served version has the kind.
        """
        if not group:
            return self.find_resource("v1", kind)
        try:
            served = self._connection.request("GET", f"/apis/{group}", f"looking for {group}")
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise
        versions = [served["preferredVersion"], *served["versions"]]
        found = (self.find_resource(str(version["groupVersion"]), kind) for version in versions)
        return next(filter(None, found), None)

    def api_versions(self) -> tuple[str, ...]:
        """Return the preferred API version of each group that the cluster serves."""
        groups = self._connection.request("GET", "/apis", "looking for API groups").get("groups") or ()
        return ("v1", *(str(group["preferredVersion"]["groupVersion"]) for group in groups))

    def namespaced_kinds(self, api_version: str) -> tuple[str, ...]:
        """Return the namespaced kinds of an API version whose objects can be listed and deleted.

        Raises Refused if the server of the group, such as the server of an aggregated API, does not answer.
        """
        root = "/apis" if "/" in api_version else "/api"
        served = self._connection.request("GET", f"{root}/{api_version}", f"looking for {api_version}")
        return tuple(
            str(entry["kind"])
            for entry in served["resources"]
            if entry["namespaced"] and "/" not in entry["name"] and {"list", "delete"} <= set(entry["verbs"])
        )

    def _discover(self, api_version: str) -> dict[str, ApiResource]:
        root = "/apis" if "/" in api_version else "/api"
        try:
            served = self._connection.request("GET", f"{root}/{api_version}", f"looking for {api_version}")
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
        patient: bool = True,
    ) -> dict[str, Any]:
        key = object_key(manifest)
        resource = self.resource(str(manifest["apiVersion"]), key.kind)
        path = resource.path(key.namespace, "" if method == "POST" else key.name)
        query = {**query, "dryRun": "All" if dry_run else ""}
        return self._connection.request(
            method, path, str(key), query, body=manifest, content_type=content_type, patient=patient
        )


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(cast("Mapping[str, Any]", inner)) if isinstance(inner, Mapping) else inner
        for key, inner in value.items()
        if inner is not None
    }

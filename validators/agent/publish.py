"""Publishes a node's report as a ConfigMap by server-side apply, with the pod's service account."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from validators.agent.report import Identity, Report

ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
FIELD_MANAGER = "gpu-platform-node-agent"
REPORT_LABEL = "gpu-platform.dev/validation-report"
REPORT_KEY = "report.json"
_TIMEOUT_SECONDS = 10
_CONFLICT = 409
_NOT_FOUND = 404
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class PublishError(Exception):
    """The report could not be published; the message is the reason."""


class Conflict(PublishError):
    """The object exists already, or another field manager changes it at the same time."""


class NotFound(PublishError):
    """There is no such object."""


@dataclass(frozen=True)
class ApiServer:
    """URL of the API server, and the files of the token and the CA ("": the system's CAs)."""

    url: str
    token_file: str
    ca_file: str

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> ApiServer:
        """Return the API server of the cluster in which this pod runs.

        `GPU_PLATFORM_API_SERVER`, `GPU_PLATFORM_TOKEN_FILE` and `GPU_PLATFORM_CA_FILE` override it.
        Raises PublishError outside a cluster, and for a URL that would send the token unencrypted.
        """
        url = environment.get("GPU_PLATFORM_API_SERVER", "")
        if not url:
            host = environment.get("KUBERNETES_SERVICE_HOST", "")
            if not host:
                raise PublishError("not in a cluster: KUBERNETES_SERVICE_HOST is not set")
            host = f"[{host}]" if ":" in host else host
            url = f"https://{host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise PublishError(f"{url}: not an https URL")
        return cls(
            url.rstrip("/"),
            environment.get("GPU_PLATFORM_TOKEN_FILE", f"{ACCOUNT_DIR}/token"),
            environment.get("GPU_PLATFORM_CA_FILE", f"{ACCOUNT_DIR}/ca.crt"),
        )


def publish(report: Report, identity: Identity, server: ApiServer) -> None:
    """Apply the ConfigMap `node-validation-<node>`, whose owner is the agent's pod, so that it is deleted with it.

    Raises PublishError.
    """
    if not identity.namespace:
        raise PublishError("POD_NAMESPACE is not set")
    manifest = _manifest(report, identity)
    name = manifest["metadata"]["name"]
    path = f"/api/v1/namespaces/{identity.namespace}/configmaps/{name}"
    send(server, "PATCH", path, manifest, {"fieldManager": FIELD_MANAGER, "force": "true"})


APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


def send(
    server: ApiServer,
    method: str,
    path: str,
    manifest: Mapping[str, Any],
    query: Mapping[str, str],
    *,
    patch: str = APPLY,
) -> dict[str, Any]:
    """Send a request about an object to the API server and return the answer; `patch`: the kind of a PATCH.

    Raises Conflict for one that exists already or that somebody else changed, NotFound, else PublishError.
    """
    kind = patch if method == "PATCH" else "application/json"
    url = server.url + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
    try:
        with open(server.token_file, encoding="ascii") as file:  # read each time: the kubelet renews it
            token = file.read().strip()
        request = urllib.request.Request(  # noqa: S310 - ApiServer has checked the scheme
            url,
            data=json.dumps(manifest).encode(),
            method=method,
            headers={"Authorization": f"Bearer {token}", "Content-Type": kind},
        )
        with _opener(server).open(request, timeout=_TIMEOUT_SECONDS) as response:
            answer: dict[str, Any] = json.loads(response.read())
            return answer
    except urllib.error.HTTPError as error:
        problem = {_CONFLICT: Conflict, _NOT_FOUND: NotFound}.get(error.code, PublishError)
        raise problem(f"API server: {error.code} {_message(error)}") from None
    except (OSError, ValueError) as error:  # URLError is an OSError
        raise PublishError(f"API server {server.url}: {error}") from None


def _manifest(report: Report, identity: Identity) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": f"node-validation-{identity.node}",
        "namespace": identity.namespace,
        "labels": {REPORT_LABEL: report["pool"]},
    }
    if identity.pod_name and identity.pod_uid:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": identity.pod_name, "uid": identity.pod_uid}
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {REPORT_KEY: json.dumps(report, indent=1, ensure_ascii=False)},
    }


def _opener(server: ApiServer) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler({})
    ]  # never use a proxy for the API server
    if server.url.startswith("https"):
        context = ssl.create_default_context(cafile=server.ca_file or None)
        # Cluster CAs often lack the key identifiers that Python 3.13 requires.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _message(error: urllib.error.HTTPError) -> str:
    """Return the message of the API server, else the HTTP reason."""
    try:
        return json.loads(error.read())["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)

"""Publishes a node's report as a ConfigMap, by server-side apply, with the pod's own service account."""

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
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class PublishError(Exception):
    """The report could not be published; the text says why."""


@dataclass(frozen=True)
class ApiServer:
    """How the API server is reached: its URL, and the files of token and CA ("": the system's CAs)."""

    url: str
    token_file: str
    ca_file: str

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> ApiServer:
        """Return the cluster that this pod runs in.

        `GPU_PLATFORM_API_SERVER`, `GPU_PLATFORM_TOKEN_FILE` and `GPU_PLATFORM_CA_FILE` say otherwise.
        Raises PublishError outside a cluster, and for a URL that would carry the token in the clear.
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
    """Apply the ConfigMap `node-validation-<node>`, owned by the agent's pod, so that it goes with the pod.

    Raises PublishError.
    """
    if not identity.namespace:
        raise PublishError("POD_NAMESPACE is not set")
    manifest = _manifest(report, identity)
    name = manifest["metadata"]["name"]
    query = urllib.parse.urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
    path = f"/api/v1/namespaces/{identity.namespace}/configmaps/{name}?{query}"
    try:
        with open(server.token_file, encoding="ascii") as file:  # read each time: the kubelet renews it
            token = file.read().strip()
        request = urllib.request.Request(  # noqa: S310 - ApiServer has checked the scheme
            server.url + path,
            data=json.dumps(manifest).encode(),
            method="PATCH",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/apply-patch+yaml"},
        )
        with _opener(server).open(request, timeout=_TIMEOUT_SECONDS) as response:
            response.read()
    except urllib.error.HTTPError as error:
        raise PublishError(f"API server: {error.code} {_message(error)}") from None
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
    ]  # the API server is never behind one
    if server.url.startswith("https"):
        context = ssl.create_default_context(cafile=server.ca_file or None)
        # Cluster CAs often lack the key identifiers that Python 3.13 began to demand.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _message(error: urllib.error.HTTPError) -> str:
    """Return the API server's own words, else HTTP's."""
    try:
        return json.loads(error.read())["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)

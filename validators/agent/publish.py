"""Publishes a node's report as a ConfigMap with server-side apply, using the pod's service account."""

from __future__ import annotations

import json
from typing import Any

from validators.agent.api_server import ApiError, ApiServer, send
from validators.agent.report import Identity, Report

FIELD_MANAGER = "gpu-platform-node-agent"
REPORT_LABEL = "gpu-platform.dev/validation-report"
REPORT_KEY = "report.json"


def publish(report: Report, identity: Identity, server: ApiServer) -> None:
    """Apply the ConfigMap `node-validation-<node>`.

    The agent's pod owns the ConfigMap, so both are deleted together. Raises ApiError if a request fails.
    """
    if not identity.namespace:
        raise ApiError("POD_NAMESPACE is not set")
    manifest = _manifest(report, identity)
    name = manifest["metadata"]["name"]
    path = f"/api/v1/namespaces/{identity.namespace}/configmaps/{name}"
    send(server, "PATCH", path, manifest, {"fieldManager": FIELD_MANAGER, "force": "true"})


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

"""Kueue's CRDs and webhooks for a sandbox, where the controller runs on this machine instead of in a pod."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from sandbox._definitions import Document, read_definitions

NAMESPACE: Final = "kueue-system"
SERVICE: Final = "kueue-webhook-service"
SECRET: Final = "kueue-webhook-server-cert"  # noqa: S105 - its name
DEFINITIONS: Final = "config/components/crd/bases"
WEBHOOKS: Final = "config/components/webhook/manifests.yaml"
# Kueue writes its certificate authority into these CRDs. Without their conversion webhook, Kueue does not start.
_CONVERTED: Final = frozenset({"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"})


def definitions(folder: Path, port: int) -> list[Document]:
    """Return Kueue's CustomResourceDefinitions. `folder` contains the files of the Go module."""
    found: list[Document] = []
    for document in read_definitions(folder / DEFINITIONS):
        if document["spec"]["names"]["plural"] in _CONVERTED:
            document["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"service": _service("/convert", port)},
                    "conversionReviewVersions": ["v1"],
                },
            }
        found.append(document)
    return found


def webhooks(folder: Path, port: int, authority: str, selector: Mapping[str, Any]) -> list[Document]:
    """Return Kueue's webhook configurations.

    `authority` is the certificate authority in base64. `selector` selects the namespaces whose Jobs and pods Kueue
    manages. Kueue's chart sets the same selector on the same webhooks.
    """
    found: list[Document] = []
    for document in yaml.safe_load_all((folder / WEBHOOKS).read_text("utf-8")):
        document["metadata"]["name"] = f"kueue-{document['metadata']['name']}"
        for webhook in document["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"service": _service(path, port), "caBundle": authority}
            if not any("kueue.x-k8s.io" in rule["apiGroups"] for rule in webhook["rules"]):
                webhook["namespaceSelector"] = dict(selector)
        found.append(document)
    return found


def service() -> Document:
    """Return the Service through which the API server reaches the controller. Its external name is this machine.

    Kueue creates its certificate for the Service's name. The webhooks therefore use the Service and not a URL.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


def _service(path: str, port: int) -> Document:
    return {"name": SERVICE, "namespace": NAMESPACE, "path": path, "port": port}

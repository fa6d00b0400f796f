"""Kueue's CRDs and webhooks as a sandbox registers them: the controller is on this machine instead of in a pod."""

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
# Where Kueue puts its certificate authority; it does not start otherwise.
_CONVERTED: Final = frozenset({"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"})


def definitions(folder: Path, port: int) -> list[Document]:
    """Return Kueue's CustomResourceDefinitions; `folder`: of the Go module's files."""
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

    `authority`: base64 of the certificate authority; `selector`: of the namespaces whose Jobs and pods Kueue
    manages, which Kueue's chart gives to the same webhooks.
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
    """Return the Service by which the API server reaches the controller: a name for this machine.

    The certificate that Kueue makes is for the Service's name, so it is reached by that and not by a URL.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


def _service(path: str, port: int) -> Document:
    return {"name": SERVICE, "namespace": NAMESPACE, "path": path, "port": port}

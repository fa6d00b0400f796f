"""What `up` writes on a node whose MIG layout it changes: a cordon, and why, in an annotation.

All of it is one server-side apply by a field manager of the stack's own: what the next one leaves out goes, unless
somebody else said it too. So a node that was cordoned before stays cordoned after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from gpu_platform import names
from gpu_platform.engine.objects import annotation, items_at, mapping_at

_LABELS: Final = ("f:metadata", "f:labels")


@dataclass(frozen=True, slots=True)
class Mark:
    """Why a node is cordoned: `config` is on its way, or failed because of `failure`."""

    stack: str
    config: str
    failure: str = ""

    def to_text(self) -> str:
        """Return it as the annotation's text."""
        told = {"stack": self.stack, "config": self.config}
        return json.dumps(told | ({"failure": self.failure} if self.failure else {}))


def field_manager(stack: str) -> str:
    """Return who writes: the API server allows a manager 128 characters."""
    return f"{names.MIG_FIELD_MANAGER}-{stack}"[:128]


def mark_of(node: Mapping[str, Any]) -> Mark | None:
    """Return the mark on a node; None where there is none that can be read."""
    try:
        told = json.loads(annotation(node, names.MIG_ROLLOUT_ANNOTATION) or "null")
        return Mark(str(told["stack"]), str(told["config"]), str(told.get("failure", "")))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def node_document(node: Mapping[str, Any], labels: Mapping[str, str], mark: Mark | None = None) -> dict[str, Any]:
    """Return what is applied to a live node: labels, and a cordon with its mark where there is one."""
    # Without its uid an apply would make a node that is gone anew.
    own = {key: node["metadata"][key] for key in ("name", "uid")}
    metadata: dict[str, Any] = {**own, "labels": dict(labels)}
    if mark is None:
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    metadata["annotations"] = {names.MIG_ROLLOUT_ANNOTATION: mark.to_text()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"unschedulable": True}}


def labels_by(manager: str, node: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a node that a manager has applied."""
    labels = mapping_at(node, "metadata", "labels")
    mine = [
        mapping_at(entry, "fieldsV1", *_LABELS)
        for entry in items_at(node, "metadata", "managedFields")
        if entry["manager"] == manager and entry["operation"] == "Apply"
    ]
    keys = {key.removeprefix("f:") for fields in mine for key in fields}
    return {key: str(labels[key]) for key in keys if key in labels}


def is_alone(manager: str, node: Mapping[str, Any], label: str) -> bool:
    """Return whether nobody but this manager says a label, so that it would go with it."""
    return not any(
        f"f:{label}" in mapping_at(entry, "fieldsV1", *_LABELS)
        for entry in items_at(node, "metadata", "managedFields")
        if entry["manager"] != manager
    )


def is_cordoned(node: Mapping[str, Any]) -> bool:
    """Return whether new pods stay off a node."""
    return cast("bool", mapping_at(node, "spec").get("unschedulable", False))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether a node's kubelet is there and well."""
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in items_at(node, "status", "conditions")
    )

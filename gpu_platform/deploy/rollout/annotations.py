"""Cordon, annotation and labels that `up` writes to a node whose MIG layout it changes.

They are written in one server-side apply by the stack's own field manager. A field that the next apply omits is
removed, unless another manager owns it too. A node that was cordoned before the change therefore stays cordoned
after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from gpu_platform.base import names
from gpu_platform.live.objects import annotation, items_at, mapping_at

_LABELS: Final = ("f:metadata", "f:labels")


@dataclass(frozen=True, slots=True)
class RolloutAnnotation:
    """Reason why `up` has cordoned a node.

    Either `up` is changing the node to `config`, or this change failed because of `failure`.
    """

    stack: str
    config: str
    failure: str = ""

    def to_text(self) -> str:
        """Return the value of the annotation."""
        fields = {"stack": self.stack, "config": self.config}
        return json.dumps(fields | ({"failure": self.failure} if self.failure else {}))


def field_manager(stack: str) -> str:
    """Return the field manager of a stack, cut to the 128 characters that the API server allows."""
    return f"{names.MIG_FIELD_MANAGER}-{stack}"[:128]


def rollout_annotation(node: Mapping[str, Any]) -> RolloutAnnotation | None:
    """Return the rollout annotation of a node, or None if the annotation is missing or cannot be parsed."""
    try:
        fields = json.loads(annotation(node, names.MIG_ROLLOUT_ANNOTATION) or "null")
        return RolloutAnnotation(str(fields["stack"]), str(fields["config"]), str(fields.get("failure", "")))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def node_document(
    node: Mapping[str, Any], labels: Mapping[str, str], reason: RolloutAnnotation | None = None
) -> dict[str, Any]:
    """Return the manifest to apply to a live node, with `labels`, and with a cordon and an annotation for
    `reason`.
    """
    # Without the uid, an apply would create a node that was deleted in the meantime.
    own = {key: node["metadata"][key] for key in ("name", "uid")}
    metadata: dict[str, Any] = {**own, "labels": dict(labels)}
    if reason is None:
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    metadata["annotations"] = {names.MIG_ROLLOUT_ANNOTATION: reason.to_text()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"unschedulable": True}}


def labels_by(manager: str, node: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a node that a field manager has applied."""
    labels = mapping_at(node, "metadata", "labels")
    mine = [
        mapping_at(entry, "fieldsV1", *_LABELS)
        for entry in items_at(node, "metadata", "managedFields")
        if entry["manager"] == manager and entry["operation"] == "Apply"
    ]
    keys = {key.removeprefix("f:") for fields in mine for key in fields}
    return {key: str(labels[key]) for key in keys if key in labels}


def is_only_owner(manager: str, node: Mapping[str, Any], label: str) -> bool:
    """Return whether no other field manager owns a label. If so, the label is removed when this manager no longer
    applies it.
    """
    return not any(
        f"f:{label}" in mapping_at(entry, "fieldsV1", *_LABELS)
        for entry in items_at(node, "metadata", "managedFields")
        if entry["manager"] != manager
    )


def is_cordoned(node: Mapping[str, Any]) -> bool:
    """Return whether a node is cordoned."""
    return cast("bool", mapping_at(node, "spec").get("unschedulable", False))

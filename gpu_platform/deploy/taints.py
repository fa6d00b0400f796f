"""Applies nodes without changing the taints that others put on them.

`spec.taints` is one atomic list for server-side apply, so whoever applies it owns the whole list. People who
cordon a node, autoscalers and Kubernetes itself add taints, so the declared taints are merged into the live list.
The annotation TAINTS_ANNOTATION contains the taints that the stack declared last, so that a taint is removed when
the stack no longer declares it.

Source: `x-kubernetes-list-type: atomic` of NodeSpec.taints, Kubernetes 1.36 API, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.base.names import READINESS_TAINT_KEY, STARTUP_TAINT_KEY, TAINTS_ANNOTATION
from gpu_platform.deploy.changes import owned_fields
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import annotation, items_at, mapping_at, object_key

Taint = Mapping[str, Any]

# The kubelet and controllers change a node all the time, so it may change between a read and an apply.
_ATTEMPTS: Final = 20


def apply_over(
    client: KubernetesClient, manifest: Mapping[str, Any], live: Mapping[str, Any], *, dry_run: bool = False
) -> dict[str, Any]:
    """Apply an object that exists as `live`. For a Node with taints, keep the taints of others.

    Raises Refused if the API server refuses the change, or if others change the node during every attempt.
    """
    if object_key(manifest).group_kind != "Node" or "taints" not in mapping_at(manifest, "spec"):
        return client.apply(manifest, dry_run=dry_run)
    if dry_run:
        return client.apply(_with_taints(manifest, live), dry_run=True)
    for attempt in range(_ATTEMPTS):
        version = {"resourceVersion": live["metadata"]["resourceVersion"]}
        merged = _with_taints(manifest, live)
        try:
            return client.apply({**merged, "metadata": {**merged["metadata"], **version}}, patient=False)
        except Refused as refusal:
            if refusal.status != 409:
                return client.apply(merged)  # with the usual retries after a temporary refusal
            found = client.get("v1", "Node", live["metadata"]["name"])
            if found is None or attempt == _ATTEMPTS - 1:
                raise
            live = found
    raise AssertionError("the last attempt returns or raises")


def repair_taints(client: KubernetesClient, declared: Mapping[str, Sequence[Taint]]) -> list[str]:
    """Set the declared taints on existing nodes, and keep the taints that other tools have set.

    `declared` contains the taints by node name. Return the changed nodes. Engines that do not change the taints of
    existing nodes need this function. Raises Refused if the API server refuses a change.
    """
    changed: list[str] = []
    for name, taints in declared.items():
        for attempt in range(_ATTEMPTS):
            live = client.get("v1", "Node", name)
            merged = merged_taints(taints, live) if live is not None else []
            if live is None or merged == list(items_at(live, "spec", "taints")):
                break
            metadata = {"name": name, "resourceVersion": live["metadata"]["resourceVersion"]}
            patch = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": merged}}
            try:
                client.merge_if_unchanged(patch)
            except Refused as refusal:
                if refusal.status != 409 or attempt == _ATTEMPTS - 1:
                    raise
            else:
                changed.append(name)
                break
    return changed


def merged_taints(declared: Sequence[Taint], live: Mapping[str, Any]) -> list[Taint]:
    """Return the taints for a live node: declared taints and the taints of others, in the live order."""
    before = _declared_before(live)
    wanted = {_identity(taint): taint for taint in declared}
    merged: list[Taint] = []
    for taint in items_at(live, "spec", "taints"):
        identity = _identity(taint)
        if identity in wanted:
            mine = wanted.pop(identity)
            same = (taint.get("value") or "") == (mine.get("value") or "")
            merged.append(taint if same else mine)  # the live taint may have a timeAdded
        elif before is not None and identity not in before:
            merged.append(taint)
    # Startup taints are removed after a node has passed its checks, so they are not added to an existing node.
    return [
        *merged,
        *(taint for taint in wanted.values() if taint["key"] not in (STARTUP_TAINT_KEY, READINESS_TAINT_KEY)),
    ]


def _with_taints(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    spec = mapping_at(manifest, "spec")
    return {**manifest, "spec": {**spec, "taints": merged_taints(spec["taints"], live)}}


def _declared_before(live: Mapping[str, Any]) -> set[tuple[str, str]] | None:
    """Return the taints (key, effect) that the stack put on a node, or None if the stack put all live taints
    there.

    A node that an earlier release applied has no annotation. Its whole list of taints belongs to the stack if
    nobody has changed the list since.
    """
    text = mapping_at(live, "metadata", "annotations").get(TAINTS_ANNOTATION)
    if text is None:
        owned = mapping_at(owned_fields(live), "f:spec")
        return None if "f:taints" in owned else set()
    parts = (part.rpartition(":") for part in annotation(live, TAINTS_ANNOTATION).split(",") if part)
    return {(head.partition("=")[0], effect) for head, _, effect in parts}


def _identity(taint: Taint) -> tuple[str, str]:
    """Return the key and effect that identify a taint on a node."""
    return str(taint["key"]), str(taint["effect"])

"""Keeps pods off the agent's own node by taints: of a new node until it passes, and of one that fails later.

A node comes up with the startup taint, by its node group, NodePool or machine image; the agent removes it. It sets
it again on a node whose GPUs have lost their instances: since Hopper MIG mode is off after each boot and each load
of the driver (NVIDIA, MIG User Guide, "GPU Reset on Hopper+ GPUs"; read 2026-11-29), so that such a node offers
whole GPUs as a new one does. A pod that gets one keeps the MIG manager from partitioning it. It does so
already when the driver goes away: after a replacement only the agent's next container sees the GPUs, and the node
may be uncordoned before.

The taint of a failing node is set where the stack allows it, on so many nodes of a pool at a time: each needs one
of the pool's Leases, `held-POOL-NUMBER`, which belongs to the Node object and goes with it. Each report compares
the node's Leases with its taint, so that a Lease ends whoever removed the taint. A lower maximum releases no node:
one that has the taint keeps its Lease, or takes one above the maximum, and further nodes wait. Only where failing
nodes are no longer held back at all the taint goes with the next report. The agent has no right to read nodes: a
patch returns the object that it changed.

`spec.taints` is one list of all owners, so the list is replaced only as it was read, by its resourceVersion.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validators.agent.api_server import MERGE, ApiServer, Conflict, NotFound, send
from validators.agent.outcome import FAIL, PASS
from validators.agent.publish import FIELD_MANAGER
from validators.agent.report import Identity, Report, loses_instances

STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-unvalidated"
FAILED_TAINT = "status-taint.cluster-autoscaler.kubernetes.io/gpu-failed"
MOST_HELD_VARIABLE = "GPU_PLATFORM_MOST_HELD"
HELD_WITH_VARIABLE = "GPU_PLATFORM_HELD_WITH"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
_ATTEMPTS = 5  # a node is changed by its kubelet and controllers, each time between a read and a patch

Taint = Mapping[str, Any]


@dataclass(frozen=True)
class Holding:
    """How many nodes of the pool failing checks may hold back at a time; 0: none.

    `pool`: whose nodes are counted together, if it is not the pool of the report. `new`: new nodes are held back.
    """

    most: int
    pool: str = ""
    new: bool = False

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Holding:
        """Return what the pod's variable says; without it no failing node is held back."""
        text = environment.get(MOST_HELD_VARIABLE, "")
        known = text.isdigit()
        return cls(int(text) if known else 0, environment.get(HELD_WITH_VARIABLE, ""), new=known)


class NodeTaints:
    """Sets and removes the agent's taints of its node."""

    def __init__(self, identity: Identity, server: ApiServer, holding: Holding) -> None:
        self._identity = identity
        self._server = server
        self._holding = holding

    def set(self, report: Report, node: Mapping[str, Any], now: str) -> str:
        """Set the taints of a node by its report; return why a failing node is not held back, or "".

        `node`: as it was returned last. Raises PublishError.
        """
        for attempt in range(_ATTEMPTS):
            taints, not_held = _taints(node), ""
            holders = self._holders() if self._holding.most or _held(taints) else {}
            leases: Sequence[str] = [name for name, holder in holders.items() if holder == self._identity.node]
            if report["verdict"] == PASS:
                wanted = [one for one in taints if one["key"] not in (STARTUP_TAINT, FAILED_TAINT)]
            elif report["verdict"] == FAIL and self._holding.most:
                lease = self._lease(self._holding.pool or report["pool"], node, holders, held=_held(taints))
                leases = [one for one in leases if one != lease]
                failed = {"key": FAILED_TAINT, "value": lease, "effect": "NoSchedule", "timeAdded": now}
                wanted = [*taints, failed] if lease and not _held(taints) else list(taints)
                if not lease and not _held(taints):
                    not_held = f"as many nodes of the pool as allowed ({self._holding.most}) are held back already"
            elif not self._holding.most:
                wanted = [one for one in taints if one["key"] != FAILED_TAINT]
            else:
                wanted = list(taints)
                leases = () if _held(taints) else leases
            if self._holding.new and loses_instances(report) and not _has(taints, STARTUP_TAINT):
                wanted.append({"key": STARTUP_TAINT, "value": "true", "effect": "NoSchedule"})
            # Leases first: while one is left over, the taint or the list of Leases brings the next pass here.
            for one in leases:
                self._release(one)
            if wanted == list(taints):
                return not_held
            try:
                self._replace(node, wanted)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                node = self._read()
                continue
            return not_held
        return ""

    def _replace(self, node: Mapping[str, Any], taints: Sequence[Taint]) -> None:
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        self._patch({"metadata": version, "spec": {"taints": list(taints)}})

    def _read(self) -> dict[str, Any]:
        """Return the node as it is: a patch without changes returns it."""
        return self._patch({})

    def _patch(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        path = f"/api/v1/nodes/{self._identity.node}"
        return send(self._server, "PATCH", path, patch, {"fieldManager": FIELD_MANAGER}, patch=MERGE)

    def _holders(self) -> dict[str, str]:
        """Return the node that has each Lease, by the Lease's name."""
        answer = send(self._server, "GET", self._path("").rstrip("/"), None, {})
        return {
            str(one["metadata"]["name"]): str((one.get("spec") or {}).get("holderIdentity"))
            for one in answer.get("items") or ()
        }

    def _lease(self, pool: str, node: Mapping[str, Any], holders: Mapping[str, str], *, held: bool) -> str:
        """Return the name of a Lease that this node has now; empty: other nodes have all of them.

        `held`: the node has the taint, so that it takes a Lease above the maximum, too.
        """
        taken = {name: holder for name, holder in holders.items() if name.rpartition("-")[0] == f"held-{pool}"}
        for name, holder in taken.items():
            if holder == self._identity.node:
                return name
        most = self._holding.most
        free = [name for number in range(most + len(taken)) if (name := f"held-{pool}-{number}") not in taken]
        # Nodes that fail at the same time try the same names, so that they do not exceed the maximum together.
        names = free[: most if held else max(0, most - len(taken))]
        # Without force an apply of another holder's Lease is a conflict.
        node_hash = hashlib.sha256(self._identity.node.encode()).hexdigest()[:16]
        query = {"fieldManager": f"{FIELD_MANAGER}-{node_hash}"}
        metadata = node["metadata"]
        for name in names:
            owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": self._identity.namespace, "ownerReferences": [owner]},
                "spec": {"holderIdentity": self._identity.node},
            }
            try:
                send(self._server, "PATCH", self._path(name), lease, query)
            except Conflict:
                continue
            return name
        return ""

    def _release(self, lease: str) -> None:
        """Delete a Lease of the node; one that is gone was deleted before."""
        with contextlib.suppress(NotFound):
            send(self._server, "DELETE", self._path(lease), {}, {})

    def _path(self, lease: str) -> str:
        return _LEASES.format(self._identity.namespace, lease)


def _taints(node: Mapping[str, Any]) -> Sequence[Taint]:
    spec: Mapping[str, Any] = node.get("spec") or {}
    return spec.get("taints") or ()


def _held(taints: Sequence[Taint]) -> bool:
    return _has(taints, FAILED_TAINT)


def _has(taints: Sequence[Taint], key: str) -> bool:
    return any(one["key"] == key for one in taints)

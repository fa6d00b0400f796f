"""Taints that keep pods off the agent's own node until it passes, and again if it fails later.

The node group, NodePool or machine image sets the startup taint on a new node, and the agent removes it. The agent
sets it again when the node's GPUs have lost their MIG instances. Since Hopper, MIG mode is off after each boot and
each load of the driver (NVIDIA, MIG User Guide, "GPU Reset on Hopper+ GPUs"; read 2026-11-29). The node then
offers whole GPUs, as a new node does. A pod on such a GPU prevents the MIG manager from partitioning it. Only the
agent's next container can use the new driver, and the node may be uncordoned before that container starts. The
agent therefore sets the taint as soon as the driver disappears.

If the stack allows it, the agent also sets a taint on a failing node. Each tainted node needs one of the pool's
Leases, `held-POOL-NUMBER`, which limit how many nodes of a pool are tainted at a time. The Node object owns its
Lease, so both are deleted together. The agent compares the node's Leases with its taint for each report, so a
Lease is released no matter who removed the taint. If the maximum is lowered, existing taints stay. A node that has
the taint keeps its Lease, or takes a Lease above the maximum, and further nodes wait. The next report removes the
taint only if failing nodes are no longer tainted at all. The agent has no permission to read nodes, so it sends a
patch, which returns the changed object.

`spec.taints` is one list that several owners share. The agent replaces the list only if its resourceVersion is
unchanged since the agent read it.
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
_ATTEMPTS = (
    5  # number of tries, because the kubelet and controllers may change the node between a read and a patch
)

Taint = Mapping[str, Any]


@dataclass(frozen=True)
class Holding:
    """Maximum number of failing nodes of a pool that may be tainted at a time, or 0 for none.

    `pool` is the pool to which the maximum applies, if it differs from the report's pool. If `new` is true, new
    nodes are also tainted until they pass.
    """

    most: int
    pool: str = ""
    new: bool = False

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Holding:
        """Return the settings in the pod's environment variables. Without them, no node is tainted."""
        text = environment.get(MOST_HELD_VARIABLE, "")
        known = text.isdigit()
        return cls(int(text) if known else 0, environment.get(HELD_WITH_VARIABLE, ""), new=known)


class NodeTaints:
    """Sets and removes the agent's taints on its node."""

    def __init__(self, identity: Identity, server: ApiServer, holding: Holding) -> None:
        self._identity = identity
        self._server = server
        self._holding = holding

    def set(self, report: Report, node: Mapping[str, Any], now: str) -> str:
        """Set the taints of a node according to its report.

        Return why a failing node is not tainted, or "". `node` is the node as the API server last returned it.
        Raises ApiError if a request fails.
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
                    not_held = f"the pool already has the maximum number of held-back nodes ({self._holding.most})"
            elif not self._holding.most:
                wanted = [one for one in taints if one["key"] != FAILED_TAINT]
            else:
                wanted = list(taints)
                leases = () if _held(taints) else leases
            if self._holding.new and loses_instances(report) and not _has(taints, STARTUP_TAINT):
                wanted.append({"key": STARTUP_TAINT, "value": "true", "effect": "NoSchedule"})
            # Release Leases first.
            # If the release of a Lease fails, the taint stays set, and the next pass repeats the release.
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
        """Return the current node, by sending a patch without changes."""
        return self._patch({})

    def _patch(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        path = f"/api/v1/nodes/{self._identity.node}"
        return send(self._server, "PATCH", path, patch, {"fieldManager": FIELD_MANAGER}, patch=MERGE)

    def _holders(self) -> dict[str, str]:
        """Return the node that holds each Lease, by the Lease's name."""
        answer = send(self._server, "GET", self._path("").rstrip("/"), None, {})
        return {
            str(one["metadata"]["name"]): str((one.get("spec") or {}).get("holderIdentity"))
            for one in answer.get("items") or ()
        }

    def _lease(self, pool: str, node: Mapping[str, Any], holders: Mapping[str, str], *, held: bool) -> str:
        """Acquire a Lease for this node and return its name, or "" if other nodes hold all of them.

        With `held`, the node already has the taint, so it may take a Lease above the maximum.
        """
        taken = {name: holder for name, holder in holders.items() if name.rpartition("-")[0] == f"held-{pool}"}
        for name, holder in taken.items():
            if holder == self._identity.node:
                return name
        most = self._holding.most
        free = [name for number in range(most + len(taken)) if (name := f"held-{pool}-{number}") not in taken]
        # Nodes that fail at the same time try the same names, so that they cannot exceed the maximum together.
        names = free[: most if held else max(0, most - len(taken))]
        # Without `force`, applying another holder's Lease causes a conflict.
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
        """Delete a Lease of the node, if it still exists."""
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

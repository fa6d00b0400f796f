"""Simulates how operands restart after the operator's release changes, node by node. Meanwhile, the node's GPUs
are unavailable.

The operands are DaemonSets that update one pod at a time (gpu-operator values.yaml,
daemonsets.rollingUpdate.maxUnavailable: 1). While the device plugin restarts, the kubelet has no healthy devices
from it. Pods with allocated devices keep them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from gpu_platform.base import names
from sandbox.simulator.kube import Informer, Object, log

_IDLE_SECONDS: Final = 60.0
_RESTARTING: Final = " restarting"


class Operands:
    """The operands of all simulated nodes. `restart_seconds` is the duration of a restart on one node."""

    def __init__(self, nodes: Informer, *, restart_seconds: float) -> None:
        self._nodes = nodes
        self._restart_seconds = restart_seconds
        self._since: dict[str, float] = {}

    def reconcile(self, nodes: Sequence[Object], release: str) -> float:
        """Restart the operands on the next node whose operands have another release, and return the seconds
        until the next step.
        """
        if not release:
            return _IDLE_SECONDS
        for node in (one for one in nodes if not _operands(one)):  # new nodes start with this release
            self._set(node, release)
        restarting = next((node for node in nodes if operands_restart(node)), None)
        if restarting is not None:
            name = restarting["metadata"]["name"]
            left = self._since.setdefault(name, time.monotonic()) + self._restart_seconds - time.monotonic()
            if left > 0:
                return left
            del self._since[name]
            self._set(restarting, release)
            return _IDLE_SECONDS  # the patch triggers another reconciliation
        following = next((node for node in nodes if _operands(node) not in ("", release)), None)
        if following is not None:
            log(f"node {following['metadata']['name']}: the operands of {release} start")
            self._set(following, release + _RESTARTING)
        return _IDLE_SECONDS

    def _set(self, node: Object, value: str) -> None:
        self._nodes.patch(node, "", {"metadata": {"annotations": {names.SANDBOX_OPERANDS_ANNOTATION: value}}})


def operands_restart(node: Object) -> bool:
    """Return whether the operands of a node are restarting."""
    return _operands(node).endswith(_RESTARTING)


def _operands(node: Object) -> str:
    annotations: Mapping[str, str] = node["metadata"].get("annotations") or {}
    return annotations.get(names.SANDBOX_OPERANDS_ANNOTATION, "")

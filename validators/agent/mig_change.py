"""Keeps the agent away from the GPUs while the MIG manager changes them, and reads the node's requested layout.

To change MIG mode, the MIG manager resets all GPUs of the node. A reset is refused while any process has a GPU
open, such as this agent during a pass. The manager stops the operands of the GPU Operator before a reset, but not
this agent. It sets the state `pending` before it stops the operands. Stopping them takes longer than a pass that
has already begun.

Sources: NVIDIA/mig-parted, pkg/mig/reconfigure/reconfigure.go, cmd/nvidia-mig-parted/apply/mode.go and issue 181
("In use by another client"); read 2026-11-29.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from validators.agent.api_server import MERGE, ApiError, ApiServer, send
from validators.agent.expectations import Expectations
from validators.agent.publish import FIELD_MANAGER
from validators.agent.report import Identity

MIG_CONFIG_LABEL = "nvidia.com/mig.config"
MIG_STATE_LABEL = "nvidia.com/mig.config.state"
IN_PROGRESS = ("pending", "rebooting")
MOST_SECONDS = 1800.0  # after this time, the manager is assumed to have stopped, and the GPUs are read again
_CHECKS = ("mig-mode", "mig-instances")  # checks that exist if the MIG manager may change the GPUs


class MigChange:
    """Checks before each pass whether the MIG manager is working on the node.

    `config` is the MIG layout that the node's label requests, or "" if it is not known.
    """

    def __init__(self, identity: Identity, clock: Callable[[], float] = time.monotonic) -> None:
        self._identity = identity
        self._clock = clock
        self._since: float | None = None
        self.config = ""

    def why_wait(self) -> str:
        """Return why the GPUs must not be read now, or "". Without an API server, the agent does not wait."""
        try:
            labels = self._labels()
        except ApiError:
            return ""
        state, self.config = labels.get(MIG_STATE_LABEL), str(labels.get(MIG_CONFIG_LABEL) or "")
        if state not in IN_PROGRESS:
            self._since = None
            return ""
        now = self._clock()
        self._since = now if self._since is None else self._since
        return f"the MIG manager is changing the GPUs: {state}" if now - self._since < MOST_SECONDS else ""

    def _labels(self) -> Mapping[str, Any]:
        """Return the node's labels by sending an empty patch, because the agent may not read nodes."""
        path, query = f"/api/v1/nodes/{self._identity.node}", {"fieldManager": FIELD_MANAGER}
        node = send(ApiServer.of_environment(), "PATCH", path, {}, query, patch=MERGE)
        return (node.get("metadata") or {}).get("labels") or {}


def mig_change(expectations: Expectations | None, identity: Identity) -> MigChange | None:
    """Return a MigChange for the node, or None if no MIG layout is expected."""
    if expectations is None or not any(check in expectations.expect for check in _CHECKS):
        return None
    return MigChange(identity)

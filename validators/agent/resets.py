"""Stores detected GPU resets in an annotation of the agent's node, for the next agent on the node.

A new agent cannot detect an earlier reset, because the energy counter has already restarted. The Xid error that
the reset cleared is still in the kernel log.
"""

from __future__ import annotations

import json
from typing import Any

from validators.agent.api_server import MERGE, ApiError, ApiServer, send
from validators.agent.history import Remembering
from validators.agent.publish import FIELD_MANAGER
from validators.agent.report import Identity

RESETS_ANNOTATION = "gpu-platform.dev/gpu-resets"  # JSON: time in seconds since the epoch, by GPU index


class SeenResets:
    """Reads the annotation before the first pass, and writes it after a reset was detected."""

    def __init__(self, identity: Identity, reader: Remembering) -> None:
        self._path = f"/api/v1/nodes/{identity.node}"
        self._reader = reader
        self._kept: dict[int, int] | None = None

    def recall(self) -> None:
        """Read the GPU resets that earlier agents stored on the node, and pass them to the NVML reader.

        Calls after a successful call do nothing. A call after a failed request repeats the request.
        """
        if self._kept is not None:
            return
        try:
            node = self._patch(ApiServer.of_environment(), {})  # a patch without changes returns the node
        except ApiError:
            return
        annotations = (node.get("metadata") or {}).get("annotations") or {}
        self._kept = _parsed(annotations.get(RESETS_ANNOTATION, ""))
        self._reader.recall(self._kept)

    def keep(self, server: ApiServer) -> None:
        """Write the resets to the node if a new one was detected. Raises ApiError if a request fails."""
        seen = self._reader.reset_times
        if self._kept is None or seen == self._kept:
            return
        text = json.dumps({str(index): at for index, at in sorted(seen.items())})
        self._patch(server, {"metadata": {"annotations": {RESETS_ANNOTATION: text}}})
        self._kept = seen

    def _patch(self, server: ApiServer, patch: dict[str, Any]) -> dict[str, Any]:
        return send(server, "PATCH", self._path, patch, {"fieldManager": FIELD_MANAGER}, patch=MERGE)


def _parsed(text: str) -> dict[int, int]:
    """Return the resets in an annotation, or no resets if the annotation is invalid."""
    try:
        return {int(index): int(at) for index, at in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}

"""Status and Event that the kubelet writes when it refuses to run a pod."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

UNEXPECTED: Final = "UnexpectedAdmissionError"
TOPOLOGY: Final = "TopologyAffinityError"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the kubelet rejects a pod that is bound to its node."""

    reason: str
    message: str

    def status(self) -> dict[str, Any]:
        """Return the status of the rejected pod (pkg/kubelet/kubelet.go, rejectPod)."""
        unready = [
            {"type": kind, "status": "False", "reason": "PodFailed"} for kind in ("Ready", "ContainersReady")
        ]
        return {
            "phase": "Failed",
            "reason": self.reason,
            "message": f"Pod was rejected: {self.message}",
            "conditions": unready,
            "containerStatuses": None,
            "initContainerStatuses": None,
        }

    def event(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """Return the Event for the rejected pod, as an event recorder creates it (client-go, tools/record)."""
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{time.time_ns():x}", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": "Warning",
            "reason": self.reason,
            "message": self.message,
            "source": {"component": "kubelet", "host": node},
            "reportingComponent": "kubelet",
            "reportingInstance": node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def allocation_error(error: str) -> Rejection:
    """Return the rejection after an error in a device plugin or resource manager (cm/admission/errors.go)."""
    return Rejection(UNEXPECTED, f"Allocate failed due to {error}, which is unexpected")

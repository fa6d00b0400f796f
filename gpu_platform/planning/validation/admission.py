"""Rules at admission that keep the node agent's account to the agent's own node.

All agents share a service account. The token of a pod names the pod's node, so the API server can compare it with
the object: Kubernetes docs, Managing Service Accounts, "Additional metadata in service account tokens" (in tokens
of pods by default since 1.30); ValidatingAdmissionPolicy. Read 2026-11-25.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_platform import names

REPORT_PREFIX: Final = "node-validation-"
"""Of the ConfigMap of a node's report, before the node's name."""
_NODE: Final = "request.userInfo.extra['authentication.kubernetes.io/node-name'][0]"

BY_THE_AGENT: Final = (
    f"request.userInfo.username == 'system:serviceaccount:{names.VALIDATION_NAMESPACE}:{names.VALIDATION_APP}'"
)
"""Whether the node agent makes a request, as CEL."""


@dataclass(frozen=True, slots=True)
class AgentRule:
    """One rule: a CEL expression that must be true for a request of the agent, and the message if it is not."""

    expression: str
    message: str


REPORT_RULE: Final = AgentRule(
    f"object.metadata.name == '{REPORT_PREFIX}' + {_NODE}",
    "the node agent writes the report of its own node alone",
)

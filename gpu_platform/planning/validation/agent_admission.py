"""Parameters of the admission rules that limit a node agent to changing its own node.

The rules are in gpu_platform/catalog/rules/nodes.yaml.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.admission_rules import AdmissionPolicy, Value, admission_rules

REPORT_PREFIX: Final = "node-validation-"
"""Prefix of the name of a report's ConfigMap. The rest of the name is the name of the node."""
_POLICIES: Final = ("gpu-node-agent-reports", "gpu-node-agent-nodes", "gpu-node-agent-leases")
_OF_REPLACED_NODES: Final = "gpu-node-agent-node-claims"


def agent_policies(*, cordons: bool, replaces: bool) -> tuple[AdmissionPolicy, ...]:
    """Return the admission policies that limit what node agents may do.

    `cordons` allows an agent to cordon its node, and `replaces` allows it to delete the node's NodeClaim.
    """
    values: dict[str, Value] = {
        "node_agent": f"system:serviceaccount:{names.VALIDATION_NAMESPACE}:{names.VALIDATION_APP}",
        "report_prefix": REPORT_PREFIX,
        "validated_label": names.VALIDATED_LABEL,
        "validated_condition": names.VALIDATED_CONDITION,
        "agent_taints": (names.STARTUP_TAINT_KEY, names.FAILED_TAINT_KEY),
        "agent_annotations": (names.CORDON_ANNOTATION, names.RESETS_ANNOTATION),
        "cordon_annotation": names.CORDON_ANNOTATION,
        "agent_cordons": cordons,
    }
    policies = (*_POLICIES, _OF_REPLACED_NODES) if replaces else _POLICIES
    return tuple(admission_rules().policy(name, values) for name in policies)

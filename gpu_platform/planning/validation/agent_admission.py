"""Admission rules that limit the node agent's account to the agent's own node.

All agents share a service account. The token of a pod names the pod's node, so the API server can compare it with
the object: Kubernetes docs, Managing Service Accounts, "Additional metadata in service account tokens" (in tokens
of pods by default since 1.30); ValidatingAdmissionPolicy. Read 2026-11-25.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names

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
    "the node agent writes only the report of its own node",
)

_OURS: Final = f"['{names.VALIDATED_LABEL}']"


def _others(where: str) -> str:
    """Return the labels of a node without that of the agent, as a list of texts in CEL."""
    labels = f"(has({where}.metadata.labels) ? {where}.metadata.labels : {{}})"
    return f"{labels}.map(key, !(key in {_OURS}), key + '=' + {labels}[key])"


def _same(field: str, empty: str) -> str:
    """Return that a field that may be absent is as before, in CEL."""
    old, new = (f"(has({where}.{field}) ? {where}.{field} : {empty})" for where in ("oldObject", "object"))
    return f"{old} == {new}"


def _other_conditions(where: str) -> str:
    conditions = f"(has({where}.status.conditions) ? {where}.status.conditions : [])"
    return f"{conditions}.filter(one, one.type != '{names.VALIDATED_CONDITION}')"


_TAINTS: Final = f"['{names.STARTUP_TAINT_KEY}', '{names.FAILED_TAINT_KEY}']"


def _taints(where: str) -> str:
    return f"(has({where}.spec.taints) ? {where}.spec.taints : [])"


def _other_taints(where: str) -> str:
    """Return the taints of a node that are not the agent's, in CEL."""
    return f"{_taints(where)}.filter(one, !(one.key in {_TAINTS}))"


LEASE_RULE: Final = AgentRule(
    f"(request.operation == 'DELETE' || object.spec.holderIdentity == {_NODE}) && "
    f"(request.operation == 'CREATE' || oldObject.spec.holderIdentity == {_NODE})",
    "the node agent takes and releases Leases only for its own node",
)


def _unschedulable(where: str) -> str:
    return f"(has({where}.spec.unschedulable) && {where}.spec.unschedulable)"


def _marked(where: str) -> str:
    """Return whether the agent has cordoned a node, in CEL."""
    return f"(has({where}.metadata.annotations) && '{names.CORDON_ANNOTATION}' in {where}.metadata.annotations)"


def _other_annotations(where: str) -> str:
    annotations = f"(has({where}.metadata.annotations) ? {where}.metadata.annotations : {{}})"
    key = f"key in ['{names.CORDON_ANNOTATION}', '{names.RESETS_ANNOTATION}']"
    return f"{annotations}.map(key, {key} ? '' : key + '=' + {annotations}[key]).filter(one, one != '')"


# It uncordons a node that it has marked, also where it no longer cordons any.
_UNCORDONS: Final = (
    f"({_unschedulable('object')} == {_unschedulable('oldObject')}"
    f" && {_marked('object')} == {_marked('oldObject')})"
    f" || ({_marked('oldObject')} && !{_unschedulable('object')} && !{_marked('object')})"
)
# It cordons a node that nobody has cordoned, and marks it so.
_CORDONS: Final = f"!{_unschedulable('oldObject')} && {_unschedulable('object')} && {_marked('object')}"

CLAIM_RULE: Final = AgentRule(
    f"oldObject.?status.?nodeName.orValue('') == {_NODE}",
    "the node agent deletes only the NodeClaim of its own node",
)


# All fields of a node's status but its conditions: Kubernetes API, NodeStatus, v1.36; read 2026-11-29.
_STATUS_OF_OTHERS: Final = (
    "addresses",
    "allocatable",
    "capacity",
    "config",
    "daemonEndpoints",
    "declaredFeatures",
    "features",
    "images",
    "nodeInfo",
    "phase",
    "runtimeHandlers",
    "volumesAttached",
    "volumesInUse",
)


def node_rules(*, cordons: bool) -> tuple[AgentRule, ...]:
    """Return what the agent may change of nodes. `cordons`: it may cordon its own, too."""
    return (
        AgentRule(f"object.metadata.name == {_NODE}", "the node agent marks only its own node"),
        AgentRule(
            " && ".join(
                (
                    f"{_others('object')}.all(one, one in {_others('oldObject')})",
                    f"{_others('oldObject')}.all(one, one in {_others('object')})",
                    f"{_other_annotations('object')}.all(one, one in {_other_annotations('oldObject')})",
                    f"{_other_annotations('oldObject')}.all(one, one in {_other_annotations('object')})",
                    f"({_UNCORDONS} || ({_CORDONS}))" if cordons else f"({_UNCORDONS})",
                    _same("metadata.finalizers", "[]"),
                    _same("metadata.ownerReferences", "[]"),
                    f"{_other_taints('object')} == {_other_taints('oldObject')}",
                    f"{_taints('object')}.all(one, !(one.key in {_TAINTS}) || one.effect == 'NoSchedule')",
                    _same("spec.providerID", "''"),
                    _same("spec.podCIDR", "''"),
                    _same("spec.podCIDRs", "[]"),
                )
            ),
            f"of a node's metadata and spec the node agent writes the label {names.VALIDATED_LABEL}, its taints "
            f"{names.STARTUP_TAINT_KEY} and {names.FAILED_TAINT_KEY} and its own cordon alone",
        ),
        AgentRule(
            " && ".join(
                (
                    f"{_other_conditions('oldObject')} == {_other_conditions('object')}",
                    *(f"object.?status.?{field} == oldObject.?status.?{field}" for field in _STATUS_OF_OTHERS),
                )
            ),
            f"of a node's status the node agent writes the condition {names.VALIDATED_CONDITION} alone",
        ),
    )

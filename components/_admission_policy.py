"""ValidatingAdmissionPolicies of the catalogue's rules."""

from __future__ import annotations

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from gpu_platform.base import names
from gpu_platform.catalog.admission_rules import AdmissionPolicy

# A policy that cannot be evaluated refuses: an outage of it must not open the namespace, and a token of the node
# agent without a node's name writes nothing.
_FAILURE_POLICY = "Fail"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def namespace_policy(
    policy: AdmissionPolicy, namespace: str, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Create a policy of one namespace, `<name>-<namespace>`, with its binding. Create nothing without rules."""
    if not policy.rules:  # a policy has one at least
        return []
    metadata = {"name": f"{policy.name}-{namespace}", "labels": {names.TEAM_LABEL: namespace}}
    return bound_policy(metadata, policy_spec(policy, namespace), opts)


def bound_policy(metadata: Manifest, spec: Manifest, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Create a ValidatingAdmissionPolicy, and the binding by which it refuses."""
    name = metadata["name"]
    created = KubernetesObject(
        name, "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", metadata=metadata, spec=spec, opts=opts
    )
    binding = KubernetesObject(
        name,
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
        metadata=metadata,
        spec={"policyName": name, "validationActions": ["Deny"]},
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[created])),
    )
    return [created, binding]


def policy_spec(policy: AdmissionPolicy, namespace: str | None = None) -> Manifest:
    """Return the spec of a policy that judges requests of one namespace, or of the cluster."""
    selector = {"matchLabels": {_NAMESPACE_LABEL: namespace}} if namespace is not None else None
    return {
        "failurePolicy": _FAILURE_POLICY,
        "matchConstraints": {
            "namespaceSelector": selector,
            "resourceRules": [
                {
                    "apiGroups": [one.group],
                    "apiVersions": list(one.versions),
                    "operations": list(policy.operations),
                    "resources": list(one.resources),
                    "scope": one.scope,
                }
                for one in policy.matched
            ],
        },
        "matchConditions": [{"name": "is-judged", "expression": policy.condition}]
        if policy.condition is not None
        else None,
        "variables": [
            {"name": name, "expression": cel} for name, cel in {**policy.values, **policy.variables}.items()
        ]
        or None,
        "validations": [
            {
                "expression": rule.expression,
                "message": f"{rule.id}: {rule.message}",
                "messageExpression": rule.message_expression,
                "reason": "Forbidden",
            }
            for rule in policy.rules
        ],
    }

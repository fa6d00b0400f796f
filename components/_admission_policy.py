"""Admission policies with their bindings.

Validating policies refuse requests that violate the rules in catalog/admission_rules.py. Mutating policies add
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from gpu_platform.base import names
from gpu_platform.catalog.admission_rules import AdmissionPolicy

# Deny requests if their policy cannot be evaluated. Otherwise, a broken policy would admit every request.
_FAILURE_POLICY = "Fail"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
# If a default cannot be added, the object is still admitted. Rules and quotas check it without the default.
_DEFAULTS_FAILURE_POLICY = "Ignore"
# Webhooks run after the policy.
# If the policy ran again, it would replace the fields that webhooks have set.
_REINVOCATION_POLICY = "Never"


def namespace_policy(
    policy: AdmissionPolicy, namespace: str, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Create a policy named `<name>-<namespace>` for one namespace, and its binding. Create nothing if the policy
    has no rules.
    """
    if not policy.rules:  # Kubernetes requires at least one rule in a policy
        return []
    metadata = {"name": f"{policy.name}-{namespace}", "labels": {names.TEAM_LABEL: namespace}}
    return bound_policy(metadata, policy_spec(policy, namespace), opts)


def bound_policy(metadata: Manifest, spec: Manifest, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Create a ValidatingAdmissionPolicy and its binding. The API server then denies requests that violate the
    policy.
    """
    return _with_binding("ValidatingAdmissionPolicy", metadata, spec, {"validationActions": ["Deny"]}, opts)


def mutating_policy(
    metadata: Manifest,
    namespace: str,
    resources: Sequence[tuple[str, str, str]],
    patches: Sequence[str],
    opts: pulumi.ResourceOptions,
    *,
    conditions: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[pulumi.Resource]:
    """Create a MutatingAdmissionPolicy for new objects in one namespace, and its binding.

    `resources` are tuples of API group, version and plural name. `patches` are CEL expressions that return JSON
    patches. `conditions` and `variables` are CEL expressions by name.
    """
    spec = {
        "failurePolicy": _DEFAULTS_FAILURE_POLICY,
        "reinvocationPolicy": _REINVOCATION_POLICY,
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: namespace}},
            "resourceRules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": ["CREATE"],
                    "resources": [resource],
                }
                for group, version, resource in resources
            ],
        },
        "matchConditions": _expressions(conditions),
        "variables": _expressions(variables),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}} for patch in patches],
    }
    return _with_binding("MutatingAdmissionPolicy", metadata, spec, {}, opts)


def _expressions(by_name: Mapping[str, str] | None) -> list[Manifest] | None:
    """Return named expressions in the API's format, or None if there are none, because the API server drops an
    empty list.
    """
    return [{"name": name, "expression": text} for name, text in by_name.items()] if by_name else None


def _with_binding(
    kind: str, metadata: Manifest, spec: Manifest, binding_spec: Manifest, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    name = metadata["name"]
    api = "admissionregistration.k8s.io/v1"
    policy = KubernetesObject(name, f"{api}/{kind}", metadata=metadata, spec=spec, opts=opts)
    binding = KubernetesObject(
        name,
        f"{api}/{kind}Binding",
        metadata=metadata,
        spec={"policyName": name, **binding_spec},
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[policy])),
    )
    return [policy, binding]


def policy_spec(policy: AdmissionPolicy, namespace: str | None = None) -> Manifest:
    """Return the spec of a policy for requests in one namespace, or in the whole cluster if `namespace` is
    None.
    """
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

"""`TenantAdmission`: what the API server refuses in the namespace of a team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options, retained
from gpu_platform.base import names
from gpu_platform.planning.teams.admission_rule import PodRule
from gpu_platform.planning.teams.fabric import FabricAccess, exec_rule
from gpu_platform.planning.teams.guarded_objects import by_a_member
from gpu_platform.planning.teams.pod_admission import (
    CLAIM_VARIABLES,
    POD_CHANGES,
    SERVICE_RULES,
    SPEC_CHANGES,
    TEMPLATE_CHANGES,
    TEMPLATE_VARIABLES,
    VARIABLES,
)
from gpu_platform.planning.teams.pod_templates import TEMPLATE_KINDS
from gpu_platform.planning.teams.routes import ROUTE_CHANGES
from gpu_platform.planning.teams.train_jobs import GROUP, RESOURCE

# A policy that cannot be evaluated refuses: an outage of it must not open the namespace.
_FAILURE_POLICY = "Fail"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_CHANGES = ("CREATE", "UPDATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    """Resources of a group of the API, in versions with the same fields, which the server converts others to.

    `scope`: needed where `*` names resources of the cluster, too, which every namespace selector matches.
    """

    resources: tuple[str, ...]
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    scope: str | None = None


_PODS = _Matched(resources=("pods", "pods/ephemeralcontainers"))
_SERVICES = _Matched(resources=("services",))
_CLAIMS = _Matched(
    resources=("resourceclaims", "resourceclaimtemplates"), group="resource.k8s.io", versions=("v1", "v1beta2")
)
_SCALERS = _Matched(
    resources=("scaledobjects", "scaledjobs", "triggerauthentications"), group="keda.sh", versions=("*",)
)
_ROUTES = (
    _SERVICES,
    _Matched(resources=("ingresses",), group="networking.k8s.io"),
    _Matched(resources=("httproutes", "grpcroutes"), group="gateway.networking.k8s.io", versions=("*",)),
)
# `*` names no subresources; this one lets a pod grow.
_EVERYTHING = _Matched(resources=("*", "pods/ephemeralcontainers"), group="*", versions=("*",), scope="Namespaced")
_EXEC = _Matched(resources=("pods/exec", "pods/attach"))
# Versions of these kinds have their templates at the same places.
_TEMPLATES = tuple(
    _Matched(
        resources=(
            *(kind.resource for kind in TEMPLATE_KINDS if kind.group == group),
            *([RESOURCE] if group == GROUP else []),
        ),
        group=group,
        versions=("*",),
    )
    for group in dict.fromkeys(kind.group for kind in TEMPLATE_KINDS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAdmissionArgs:
    """The team's namespace, and its admission rules.

    The rules are those of pods, pod templates, claims, objects of KEDA, routes, and of requests of members on any
    object. `accounts`: service accounts of other namespaces that are members.
    """

    namespace: str
    rules: tuple[PodRule, ...]
    template_rules: tuple[PodRule, ...] = ()
    claim_rules: tuple[PodRule, ...] = ()
    scaling_rules: tuple[PodRule, ...] = ()
    route_rules: tuple[PodRule, ...] = ()
    object_rules: tuple[PodRule, ...] = ()
    accounts: tuple[str, ...] = ()


class TenantAdmission(pulumi.ComponentResource):
    """ValidatingAdmissionPolicies of one namespace, each with its binding.

    They are for pods, pod templates of other objects, Services and routes, claims of devices, objects of KEDA, and
    for all requests of members.

    They stay in the cluster as long as the namespace may: without them pods of a team that left could be recreated
    with what admission refused.

    `guards`: what workloads of the team must wait for.

    Outputs: `rules`, their ids.
    """

    guards: list[pulumi.Resource]
    rules: pulumi.Output[list[str]]

    def __init__(self, name: str, args: TenantAdmissionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TenantAdmission", name, None, opts)
        child = retained(child_options(self, opts))
        of = args.namespace
        self.guards = [
            *namespace_policy(
                "pods-of", of, [_PODS], args.rules, child, variables=VARIABLES, condition=POD_CHANGES
            ),
            *namespace_policy(
                "templates-of",
                of,
                _TEMPLATES,
                args.template_rules,
                child,
                variables=TEMPLATE_VARIABLES,
                condition=TEMPLATE_CHANGES,
            ),
            *namespace_policy("services-of", of, [_SERVICES], SERVICE_RULES, child, condition=SPEC_CHANGES),
            *namespace_policy(
                "claims-of",
                of,
                [_CLAIMS],
                args.claim_rules,
                child,
                variables=CLAIM_VARIABLES,
                operations=("CREATE",),  # their specs cannot be changed
            ),
            *namespace_policy("scalers-of", of, [_SCALERS], args.scaling_rules, child, condition=SPEC_CHANGES),
            *namespace_policy("routes-of", of, _ROUTES, args.route_rules, child, condition=ROUTE_CHANGES),
            *namespace_policy(
                "objects-of",
                of,
                [_EVERYTHING],
                args.object_rules,
                child,
                operations=(*_CHANGES, "DELETE"),
                condition=by_a_member(args.accounts),
            ),
        ]
        rules = (
            *args.rules,
            *SERVICE_RULES,
            *args.claim_rules,
            *args.scaling_rules,
            *args.route_rules,
            *args.object_rules,
        )
        self.rules = pulumi.Output.from_input([rule.id for rule in rules])
        self.register_outputs({"rules": self.rules})


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPodSecurityArgs:
    """The team's namespace, and what enforces its Pod Security level in place of its label."""

    namespace: str
    fabric: FabricAccess


class TenantPodSecurity(pulumi.ComponentResource):
    """Policies of the API server that enforce the Pod Security level of one namespace, with a fabric's exceptions.

    They match the namespace by its name, so that they exist before it, and stay in the cluster as long as it may:
    its label alone would admit every pod.

    `guards`: what the namespace must wait for.

    Outputs: `rules`, their ids.
    """

    guards: list[pulumi.Resource]
    rules: pulumi.Output[list[str]]

    def __init__(self, name: str, args: TenantPodSecurityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TenantPodSecurity", name, None, opts)
        child, fabric = retained(child_options(self, opts)), args.fabric
        rules = list(fabric.rules)
        self.guards = namespace_policy(
            names.POD_SECURITY_POLICY,
            args.namespace,
            [_PODS],
            fabric.rules,
            child,
            variables=fabric.variables,
            condition=SPEC_CHANGES,
        )
        if fabric.daemons:
            rules.append(exec_rule(fabric.daemons))
            self.guards += namespace_policy(
                names.EXEC_POLICY, args.namespace, [_EXEC], rules[-1:], child, operations=("CONNECT",)
            )
        self.rules = pulumi.Output.from_input([rule.id for rule in rules])
        self.register_outputs({"rules": self.rules})


def namespace_policy(
    prefix: str,
    namespace: str,
    matched: Sequence[_Matched],
    rules: Sequence[PodRule],
    opts: pulumi.ResourceOptions,
    *,
    variables: Mapping[str, str] | None = None,
    operations: Sequence[str] = _CHANGES,
    condition: str | None = None,
) -> list[pulumi.Resource]:
    """Create a policy for one namespace, `<prefix>-<namespace>`, with its binding; nothing without rules.

    `matched`: the resources, by `operations`; `condition`: which requests are judged, as CEL.
    """
    if not rules:  # a policy has one at least
        return []
    name = f"{prefix}-{namespace}"
    metadata = {"name": name, "labels": {names.TEAM_LABEL: namespace}}
    policy = KubernetesObject(
        name,
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
        metadata=metadata,
        spec={
            "failurePolicy": _FAILURE_POLICY,
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: namespace}},
                "resourceRules": [
                    {
                        "apiGroups": [one.group],
                        "apiVersions": list(one.versions),
                        "operations": list(operations),
                        "resources": list(one.resources),
                        "scope": one.scope,
                    }
                    for one in matched
                ],
            },
            "matchConditions": [{"name": "changes-what-runs", "expression": condition}]
            if condition is not None
            else None,
            "variables": [
                {"name": variable, "expression": expression} for variable, expression in variables.items()
            ]
            if variables
            else None,
            "validations": [
                {
                    "expression": rule.expression,
                    "message": f"{rule.id}: {rule.message}",
                    "messageExpression": rule.message_expression,
                    "reason": "Forbidden",
                }
                for rule in rules
            ],
        },
        opts=opts,
    )
    binding = KubernetesObject(
        name,
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
        metadata=metadata,
        spec={"policyName": name, "validationActions": ["Deny"]},
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[policy])),
    )
    return [policy, binding]

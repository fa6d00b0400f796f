"""Finds the team stacks that are deployed on the cluster of an environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.deploy.embedded.applyset import PARENT_NAMESPACE, PARENTS, outputs_of
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import annotation, mapping_at

_QUOTA: Final = "gpu-quota"
_MEMBERS: Final = "team-members"  # RoleBinding of each deployed team, which members cannot change


@dataclass(frozen=True, slots=True)
class TeamStack:
    """A team's stack on the cluster, with its namespaces and outputs.

    `outputs` is None for a stack of the Pulumi CLI, which keeps the outputs in its backend and not in the cluster.
    """

    stack: str
    namespaces: tuple[str, ...]
    outputs: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DeployedQuota:
    """The quota that now applies to a team's namespace.

    `hard` has the format of a ResourceQuota's `spec.hard`, but does not include quota that the team may borrow.
    """

    stack: str
    hard: Mapping[str, str]


def deployed_quotas(client: KubernetesClient) -> Mapping[str, DeployedQuota]:
    """Return the quotas of all teams on a cluster by namespace, regardless of stack and engine.

    Retained namespaces have no GPU quota.
    """
    found: dict[str, DeployedQuota] = {}
    for namespace in kept_namespaces.team_namespaces(client):
        live = None if namespace.is_retained else client.get("v1", "ResourceQuota", _QUOTA, namespace.name)
        if live is not None:
            found[namespace.name] = DeployedQuota(namespace.stack, _granted(live))
    return found


def _granted(quota: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a team's own quota, without the amount that it may borrow from other teams."""
    granted = annotation(quota, names.GRANTED_ANNOTATION)
    return json.loads(granted) if granted else mapping_at(quota, "spec", "hard")


def deployed_team_stacks(client: KubernetesClient, environment: str) -> tuple[TeamStack, ...]:
    """Return the team stacks on an environment's cluster by name, regardless of the engine.

    A stack of the embedded engine is found by its ApplySet, and a stack of the Pulumi CLI by a namespace whose
    team has access. Retained namespaces belong to no stack.
    """
    namespaces: dict[str, list[str]] = {}
    outputs: dict[str, Mapping[str, Any] | None] = {}
    for parent in client.objects("v1", "ConfigMap", namespace=PARENT_NAMESPACE, label_selector=PARENTS):
        stack = str(mapping_at(parent, "metadata", "labels")[names.STACK_LABEL])
        found = outputs_of(parent)
        if stack != environment and not (found and "pools" in found):  # not a team's stack, because it has pools
            namespaces.setdefault(stack, [])
            outputs[stack] = found
    for namespace in kept_namespaces.team_namespaces(client):
        if namespace.stack == environment or namespace.is_retained:
            continue
        if client.get("rbac.authorization.k8s.io/v1", "RoleBinding", _MEMBERS, namespace.name) is not None:
            namespaces.setdefault(namespace.stack, []).append(namespace.name)
    return tuple(TeamStack(stack, tuple(found), outputs.get(stack)) for stack, found in sorted(namespaces.items()))

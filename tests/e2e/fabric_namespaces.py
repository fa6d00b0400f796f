"""Namespaces of teams with GPU NICs on a real API server, as the program declares them for stacks on clouds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.eventually import eventually

Object = dict[str, Any]
_KINDS = (
    "Namespace",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
)
_LIMITS = ("LimitRange", "ResourceQuota")


def apply_team(client: KubernetesClient, platform: Object) -> str:
    """Create the namespace and the policies of a stack's only team. Return its name once the policies are in
    effect.
    """
    (team,) = platform["teams"]
    name = str(team["name"])
    loaded = LoadedStack("test", Path("/nowhere/Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    for record in record_stack(loaded).resources:
        metadata = record.inputs.get("metadata", {})
        kind = record.type.rpartition(":")[2]
        of_team = metadata.get("labels", {}).get("gpu-platform.dev/team") == name
        in_namespace = kind in _LIMITS and metadata.get("namespace") == name
        if kind == "PriorityClass" or in_namespace or (kind in _KINDS and of_team):
            client.apply(record.inputs)
    eventually(lambda: client.get("v1", "ServiceAccount", "default", name) is not None)
    bare: Object = {"containers": [{"name": "main", "image": "none", "securityContext": {"privileged": True}}]}
    escapes = {"metadata": {"annotations": {"cdi.k8s.io/gpu": "all"}}}
    # The API server reads new policies within a second or two.
    eventually(lambda: refusal(client, pod(name, bare)) != "")
    named = ("gpu-device-annotation", "bare-pod")  # `bare-pod` applies only if pods need a controller
    eventually(lambda: any(one in refusal(client, pod(name, honest(), **escapes["metadata"])) for one in named))
    return name


def remove(client: KubernetesClient, namespaces: Iterable[str]) -> None:
    """Delete namespaces and the policies of their teams."""
    for name in namespaces:
        for kind in reversed(_KINDS):
            api = "v1" if kind == "Namespace" else "admissionregistration.k8s.io/v1"
            for live in client.objects(api, kind, label_selector=f"gpu-platform.dev/team={name}"):
                client.delete(live)


def honest() -> Object:
    """Return a pod spec that satisfies `restricted`."""
    return {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "image": "none",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }


def pod(namespace: str, spec: Object, **metadata: Any) -> Object:
    """Return a pod manifest."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "attempt", "namespace": namespace, **metadata},
        "spec": spec,
    }


def refusal(client: KubernetesClient, wanted: Object) -> str:
    """Return the reason why the API server refuses an object, or an empty string if it admits the object."""
    try:
        client.create(wanted, dry_run=True)
    except Refused as refused:
        return refused.message
    return ""

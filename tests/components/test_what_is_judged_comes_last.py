"""Objects are written after the policies and quotas that apply to them. One deployment can therefore relax a rule
and create objects that need the relaxed rule.

The Pulumi CLI writes objects in parallel. Only dependencies determine their order.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.stack.field_cases import STACKS
from tests.support.recorded import Recorded, record_platform

_IMAGE = "registry.example.com/train:1.0"
_RUN = {"pool": "train", "image": _IMAGE, "command": ["python", "run.py"]}
_WORK: Mapping[str, list[dict[str, Any]]] = {
    "workloads": [{"name": "pretrain", "pool": "train", "gpus": 4, "cpu": "2", "memory": "4Gi"}],
    "training_jobs": [
        {"name": "fit", **_RUN, "gpus": 8, "replicas": 2},
        {"name": "trained", **_RUN, "api": "trainjob"},
    ],
    "batch_jobs": [{"name": "once", **_RUN}, {"name": "nightly", **_RUN, "schedule": "0 2 * * *"}],
    "notebooks": [{"name": "lab", "pool": "train"}],
    "inference_services": [
        {
            "name": "chat",
            "pool": "train",
            "image": _IMAGE,
            "autoscaling": {"max_replicas": 4, "query": "up", "threshold": 2.0},
        },
        {"name": "large", "pool": "train", "image": _IMAGE, "nodes": 2, "route": {"gateway": "edge/public"}},
    ],
    "ray_clusters": [
        {
            "name": "ray",
            "image": _IMAGE,
            "version": "2.49.0",
            "head": {},
            "workers": [{"name": "a", "pool": "train"}],
        }
    ],
}
_ADDONS = {
    "keda": "install",
    "kuberay": "install",
    "gateway": "install",
    "prometheus": "install",
    "leaderworkerset": "install",
    "trainer": "install",
}


def busy(provider: str, **fields: Any) -> dict[str, Any]:
    """Return a stack on a cloud. Its team runs workloads of every kind."""
    stack = copy.deepcopy(dict(STACKS[provider]))
    reached = [{"namespace": "envoy-gateway-system", "ports": [8080]}]
    work = {"quota": {"gpus": 48}, "ingress": reached, **_WORK}
    stack["teams"][0] |= work
    stack["pools"][0]["count"] = {"desired": 6}
    return {**stack, "addons": _ADDONS, **fields}


def claimed() -> dict[str, Any]:
    """Return a stack whose team claims devices."""
    stack = copy.deepcopy(dict(STACKS["eks"]))
    stack["pools"][0]["sharing"] = {"mode": "dra"}
    stack["teams"][0] |= {
        "quota": {"devices": {"gpu.nvidia.com": 8}},
        "claims": [{"name": "one"}],
        "workloads": [{"name": "pretrain", "pool": "train", "claim": "one"}],
    }
    return stack


STACKS_OF_WORK = {
    "eks": busy("eks"),
    "eks-queues": busy("eks", queueing={}),
    "gke": busy("gke"),
    "gke-queues": busy("gke", queueing={}),
    "eks-claims": claimed(),
}


def kind_of(record: ResourceRecord) -> str:
    """Return the API group and resource of an object in the form that admission policies use, such as
    `apps/deployments`.
    """
    group = str(record.inputs["apiVersion"]).rpartition("/")[0]
    return f"{group}/{plural(str(record.inputs['kind']))}"


def plural(kind: str) -> str:
    lower = kind.lower()
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}es" if lower.endswith("s") else f"{lower}s"


def judged_kinds(policy: ResourceRecord) -> set[str]:
    rules = policy.inputs["spec"]["matchConstraints"]["resourceRules"]
    return {f"{group}/{one}" for rule in rules for group in rule["apiGroups"] for one in rule["resources"]}


def counted_kinds(quota: ResourceRecord) -> set[str]:
    keys = [key.removeprefix("count/").partition(".") for key in quota.inputs["spec"]["hard"]]
    return {f"{group}/{name}" for name, _, group in keys}


def judges(found: Recorded, team: str) -> Iterator[tuple[ResourceRecord, set[str]]]:
    """Yield the policies, bindings and quotas of a team's namespace, each with the kinds of objects that it
    applies to.
    """
    for verb in ("Validating", "Mutating"):
        if not found.has(f"{verb}AdmissionPolicy"):
            continue
        bindings = {one.inputs["spec"]["policyName"]: one for one in found.of(f"{verb}AdmissionPolicyBinding")}
        for policy in found.of(f"{verb}AdmissionPolicy"):
            constraints = policy.inputs["spec"]["matchConstraints"]
            labels = constraints.get("namespaceSelector", {}).get("matchLabels", {})
            if labels.get("kubernetes.io/metadata.name") == team:
                kinds = judged_kinds(policy)
                yield policy, kinds
                yield bindings[policy.inputs["metadata"]["name"]], kinds
    for quota in found.of("ResourceQuota"):
        if quota.inputs["metadata"]["namespace"] == team:
            yield quota, counted_kinds(quota)


@pytest.mark.parametrize("stack", STACKS_OF_WORK.values(), ids=STACKS_OF_WORK)
def test_objects_are_written_after_the_policies_that_apply_to_them(stack: dict[str, Any]) -> None:
    found = record_platform(stack)
    team = stack["teams"][0]["name"]
    # The quota `addon-object-quota` is created only after the CRDs of the kinds that it counts.
    # A quota that is created before such a CRD would refuse objects of the kind for minutes.
    rules = [one for one in judges(found, team) if one[0].name != f"{team}/addon-object-quota"]
    objects = [
        one
        for one in found.resources
        if one.inputs.get("metadata", {}).get("namespace") == team and one not in [judge for judge, _ in rules]
    ]
    early: set[str] = set()
    tried = 0
    for one in objects:
        there = found.before(one)
        for judge, kinds in rules:
            if kind_of(one) in kinds:
                tried += 1
                if judge.urn not in there:
                    early.add(f"{kind_of(one)} {one.inputs['metadata']['name']} before {judge.name}")
    assert not early, "\n".join(sorted(early))
    assert tried > 5

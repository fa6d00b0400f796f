"""Rules find pods in objects of unknown kinds. A GPU request outside a pod spec is reported as not checked."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import TODAY

from policies import PolicyReport, evaluate

POD: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "registry.example.com/a:1.0",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        }
    ]
}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
RULE = "gpu-visible-devices-bypass"


def of(token: str, **inputs: Any) -> PolicyReport:
    """Evaluate the pack on one object of the resource type `token`, and return the report."""
    record = {
        "urn": f"urn:pulumi:s::p::{token}::one",
        "type": token,
        "name": "one",
        "inputs": {"metadata": {"name": "one", "namespace": "vision"}, **inputs},
        "dependencies": [],
    }
    return evaluate([record], {}, TODAY)


def rules_of(report: PolicyReport) -> set[str]:
    return {one.rule for one in report.violations}


DEPLOYMENT = rules_of(of("kubernetes:apps/v1:Deployment", spec={"template": TEMPLATE}))
ITEM = {"metadata": {"name": "a", "namespace": "vision"}, "spec": {"template": TEMPLATE}}


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        ("kubernetes:argoproj.io/v1alpha1:Rollout", {"spec": {"template": TEMPLATE}}),
        ("kubernetes:serving.knative.dev/v1:Service", {"spec": {"template": TEMPLATE}}),
        ("kubernetes:serving.kserve.io/v1beta1:InferenceService", {"spec": {"predictor": POD}}),
        ("kubernetes:kubeflow.org/v1:TFJob", {"spec": {"tfReplicaSpecs": {"Worker": {"template": TEMPLATE}}}}),
        ("kubernetes:kubeflow.org/v1:Notebook", {"spec": {"template": {"spec": POD}}}),
        ("kubernetes:batch.volcano.sh/v1alpha1:Job", {"spec": {"tasks": [{"template": TEMPLATE}]}}),
        ("kubernetes:apps.kruise.io/v1alpha1:CloneSet", {"spec": {"template": TEMPLATE}}),
        ("kubernetes:yaml/v2:ConfigGroup", {"objs": [{"kind": "Deployment", **ITEM}]}),
        ("kubernetes:apps/v1:DeploymentList", {"items": [ITEM]}),
        (
            "kubernetes:core/v1:PodList",
            {"items": [{"metadata": {"name": "a", "namespace": "vision"}, "spec": POD}]},
        ),
        ("kubernetes:core/v1:List", {"items": [{"apiVersion": "apps/v1", "kind": "Deployment", **ITEM}]}),
        ("kubernetes:apps/v1:DeploymentPatch", {"spec": {"template": TEMPLATE}}),
    ],
)
def test_pods_of_any_kind_are_judged_as_those_of_a_deployment(token: str, inputs: dict[str, Any]) -> None:
    assert RULE in DEPLOYMENT
    assert rules_of(of(token, **inputs)) == DEPLOYMENT


GPUS = {"requests": {"nvidia.com/gpu": 1}}


@pytest.mark.parametrize(
    ("token", "inputs", "place"),
    [
        (
            "kubernetes:argoproj.io/v1alpha1:Workflow",
            {"spec": {"templates": [{"name": "a", "container": {"resources": GPUS}}]}},
            'spec.templates[0].container.resources.requests["nvidia.com/gpu"]',
        ),
        (
            "kubernetes:apps.nvidia.com/v1alpha1:NIMService",
            {"spec": {"resources": GPUS}},
            'spec.resources.requests["nvidia.com/gpu"]',
        ),
        (
            "kubernetes:sparkoperator.k8s.io/v1beta2:SparkApplication",
            {"spec": {"executor": {"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}}},
            "spec.executor.gpu",
        ),
        (
            "kubernetes:helm.sh/v3:Release",
            {"chart": "./vllm", "version": "1.0.0", "values": {"resources": GPUS}},
            'values.resources.requests["nvidia.com/gpu"]',
        ),
    ],
)
def test_gpus_outside_a_pod_spec_are_not_checked_and_named(token: str, inputs: dict[str, Any], place: str) -> None:
    found = {(one.rule, one.path) for one in of(token, **inputs).not_checked}
    assert (RULE, place) in found


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        ("kubernetes:karpenter.sh/v1:NodePool", {"spec": {"limits": {"nvidia.com/gpu": "8"}}}),
        ("kubernetes:core/v1:ResourceQuota", {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}),
        (
            "kubernetes:helm.sh/v3:Release",
            {"chart": "./a", "version": "1.0.0", "values": {"tolerations": [{"key": "nvidia.com/gpu"}]}},
        ),
        ("kubernetes:core/v1:ConfigMap", {"data": {"pod.yaml": "containers: []"}}),
    ],
)
def test_what_has_no_pods_is_not_taken_for_one(token: str, inputs: dict[str, Any]) -> None:
    report = of(token, **inputs)
    assert RULE not in rules_of(report) | {one.rule for one in report.not_checked}

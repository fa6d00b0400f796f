"""Rules find the pods of every kind of resource that creates pods."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import UNKNOWN, container, kubernetes, not_checked, only, pod_spec, report_of, violations

RULE = "gpu-requests-equal-limits"
BAD = pod_spec(container({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 1}))
TEMPLATE = {"template": {"spec": BAD}}
JOB = {"template": {"spec": {"parallelism": 2, "template": {"spec": BAD}}}}
GOOD = {"template": {"spec": pod_spec()}}

KINDS: list[tuple[str, dict[str, Any], str]] = [
    ("core/v1:PodTemplate", {"template": {"spec": BAD}}, "template.spec"),
    ("core/v1:ReplicationController", {"spec": TEMPLATE}, "spec.template.spec"),
    ("apps/v1:DaemonSet", {"spec": TEMPLATE}, "spec.template.spec"),
    ("apps/v1:ReplicaSet", {"spec": TEMPLATE}, "spec.template.spec"),
    ("apps/v1:StatefulSet", {"spec": TEMPLATE}, "spec.template.spec"),
    ("batch/v1:CronJob", {"spec": {"jobTemplate": {"spec": TEMPLATE}}}, "spec.jobTemplate.spec.template.spec"),
    ("jobset.x-k8s.io/v1alpha2:JobSet", {"spec": {"replicatedJobs": [{"name": "w", **JOB}]}}, "replicatedJobs[0]"),
    (
        "trainer.kubeflow.org/v1alpha1:ClusterTrainingRuntime",
        {"spec": {"template": {"spec": {"replicatedJobs": [{"name": "node", **JOB}]}}}},
        "replicatedJobs[0]",
    ),
    ("kubeflow.org/v1:PyTorchJob", {"spec": {"pytorchReplicaSpecs": {"Worker": TEMPLATE}}}, "Worker"),
    ("kubeflow.org/v2beta1:MPIJob", {"spec": {"mpiReplicaSpecs": {"Worker": TEMPLATE}}}, "Worker"),
    (
        "ray.io/v1:RayCluster",
        {"spec": {"headGroupSpec": GOOD, "workerGroupSpecs": [TEMPLATE]}},
        "workerGroupSpecs[0]",
    ),
    ("ray.io/v1:RayCluster", {"spec": {"headGroupSpec": TEMPLATE}}, "headGroupSpec"),
    (
        "ray.io/v1:RayJob",
        {"spec": {"rayClusterSpec": {"workerGroupSpecs": [GOOD, TEMPLATE]}}},
        "workerGroupSpecs[1]",
    ),
    ("ray.io/v1:RayService", {"spec": {"rayClusterConfig": {"headGroupSpec": TEMPLATE}}}, "headGroupSpec"),
    (
        "leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
        {"spec": {"leaderWorkerTemplate": {"size": 4, "workerTemplate": {"spec": BAD}}}},
        "workerTemplate",
    ),
    ("keda.sh/v1alpha1:ScaledJob", {"spec": {"jobTargetRef": TEMPLATE}}, "jobTargetRef.template.spec"),
    ("kueue.x-k8s.io/v1beta2:Workload", {"spec": {"podSets": [{"count": 1, **TEMPLATE}]}}, "podSets[0]"),
]


@pytest.mark.parametrize(("kind", "inputs", "place"), KINDS)
def test_the_pods_of_a_kind_are_checked_at_their_place(kind: str, inputs: dict[str, Any], place: str):
    assert place in only(violations(RULE, kubernetes(kind, "x", **inputs))).problem.path


def test_each_pod_template_of_a_resource_is_evaluated_by_itself():
    groups = [TEMPLATE, GOOD, {"template": {"spec": UNKNOWN}}]
    found = report_of(RULE, kubernetes("ray.io/v1:RayCluster", "x", {"workerGroupSpecs": groups}))
    assert [violation.problem.path.split(".")[1] for violation in found.violations] == ["workerGroupSpecs[0]"]
    assert [gap.path for gap in found.not_checked] == ["spec.workerGroupSpecs[2].template.spec"]


def test_a_list_of_templates_that_is_not_known_is_not_checked():
    hidden = kubernetes("jobset.x-k8s.io/v1alpha2:JobSet", "x", {"replicatedJobs": UNKNOWN})
    assert "spec.replicatedJobs" in not_checked(RULE, hidden)


def test_the_pods_of_one_task_are_counted_over_the_groups_that_make_them():
    topology = kubernetes("kueue.x-k8s.io/v1beta2:Topology", "train", {"levels": []})
    job = {"name": "w", "replicas": 3, "template": {"spec": {"parallelism": 2, "template": {"spec": pod_spec()}}}}
    jobs = kubernetes("jobset.x-k8s.io/v1alpha2:JobSet", "x", {"replicatedJobs": [job]})
    jobs["inputs"]["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    assert only(violations("kueue-tas-multi-node", topology, jobs)).problem.found.startswith("6 pods")

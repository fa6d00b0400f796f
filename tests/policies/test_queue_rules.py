"""Rules about queueing with Kueue: job queues, borrowing and topology."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    container,
    deployment,
    job,
    kubernetes,
    not_checked,
    only,
    pod_spec,
    violations,
)

QUEUE = "kueue.x-k8s.io/queue-name"


def local_queue(name: str = "training", namespace: str = "vision") -> Record:
    return kubernetes("kueue.x-k8s.io/v1beta2:LocalQueue", name, {"clusterQueue": "vision"}, namespace)


def cluster_queue(resource: Any, **spec: Any) -> Record:
    groups = [{"coveredResources": [resource["name"]], "flavors": [{"name": "train", "resources": [resource]}]}]
    return kubernetes("kueue.x-k8s.io/v1beta2:ClusterQueue", "vision", {"resourceGroups": groups, **spec})


TOPOLOGY = kubernetes(
    "kueue.x-k8s.io/v1beta2:Topology", "train", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
)
GPUS = {"name": "nvidia.com/gpu", "nominalQuota": 16}


def test_a_job_without_a_queue_in_a_namespace_with_queues_is_found():
    found = only(violations("kueue-queue-name", local_queue(), job()))
    assert found.problem.fix == f"add the label {QUEUE}: training"


def test_a_job_in_a_queue_of_its_namespace_passes_and_one_in_another_is_found():
    assert violations("kueue-queue-name", local_queue(), job(labels={QUEUE: "training"})) == []
    assert (
        "'trainin'"
        in only(violations("kueue-queue-name", local_queue(), job(labels={QUEUE: "trainin"}))).problem.found
    )


def test_namespaces_without_queues_and_pods_without_gpus_are_left_alone():
    assert violations("kueue-queue-name", local_queue(namespace="search"), job()) == []
    assert violations("kueue-queue-name", local_queue(), deployment(pod_spec(container({"cpu": "1"})))) == []


def test_a_default_queue_takes_jobs_that_name_none_and_no_services():
    assert violations("kueue-queue-name", local_queue("default"), job()) == []
    assert only(violations("kueue-queue-name", local_queue("default"), deployment(pod_spec())))


def test_a_deployment_names_its_queue_on_its_pods():
    queued = deployment(pod_spec())
    queued["inputs"]["spec"]["template"].setdefault("metadata", {})["labels"] = {QUEUE: "training"}
    assert violations("kueue-queue-name", local_queue(), queued) == []


def test_a_queue_that_is_not_known_is_not_checked():
    assert "queue-name" in not_checked("kueue-queue-name", local_queue(), job(labels={QUEUE: UNKNOWN}))


def test_borrowing_without_a_limit_in_a_cohort_that_reclaims_nothing_is_found():
    assert only(violations("kueue-borrow-unbounded", cluster_queue(GPUS, cohortName="all")))
    assert only(violations("kueue-borrow-unbounded", cluster_queue(GPUS, cohort="all")))


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        (GPUS, {}),
        ({**GPUS, "borrowingLimit": 0}, {"cohortName": "all"}),
        (GPUS, {"cohortName": "all", "preemption": {"reclaimWithinCohort": "Any"}}),
        ({"name": "cpu", "nominalQuota": 9}, {"cohortName": "all"}),
    ],
)
def test_borrowing_that_is_bounded_passes(resource: Record, spec: Record):
    assert violations("kueue-borrow-unbounded", cluster_queue(resource, **spec)) == []


def test_a_cohort_that_is_not_known_is_not_checked():
    assert "cohortName" in not_checked("kueue-borrow-unbounded", cluster_queue(GPUS, cohortName=UNKNOWN))


def test_a_gang_in_a_queue_with_a_topology_asks_for_a_place():
    gang = job(labels={QUEUE: "training"}, parallelism=4)
    assert only(violations("kueue-tas-multi-node", TOPOLOGY, gang))
    near = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}
    assert (
        violations("kueue-tas-multi-node", TOPOLOGY, job(labels={QUEUE: "q"}, annotations=near, parallelism=4))
        == []
    )


def test_without_a_topology_or_a_gang_no_place_is_needed():
    gang = job(labels={QUEUE: "training"}, parallelism=4)
    assert violations("kueue-tas-multi-node", gang) == []
    assert violations("kueue-tas-multi-node", TOPOLOGY, job(labels={QUEUE: "training"})) == []
    assert "parallelism" in not_checked(
        "kueue-tas-multi-node", TOPOLOGY, job(labels={QUEUE: "t"}, parallelism=UNKNOWN)
    )


OTHERS = "kueue.x-k8s.io/prebuilt-workload-name"
GROUP = "kueue.x-k8s.io/pod-group-name"


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("key", [OTHERS, GROUP])
def test_joining_the_workload_of_others_is_found(key: str, field: str):
    itself, template = job(), deployment(pod_spec())
    itself["inputs"]["metadata"].setdefault(field, {})[key] = "a"
    template["inputs"]["spec"]["template"].setdefault("metadata", {}).setdefault(field, {})[key] = "a"
    for record, place in ((itself, "metadata"), (template, "spec.template.metadata")):
        found = only(violations("queue-workload", local_queue(), record))
        assert found.problem.path.endswith(f'{place}.{field}["{key}"]'), found.problem.path
        assert found.problem.found == f"{key} in {field}"
        assert found.problem.fix.startswith("remove it, and use a Job")
        assert violations("queue-workload", local_queue(namespace="search"), record) == []


def test_a_pod_of_a_group_is_found_once_and_other_keys_of_kueue_pass():
    pod = kubernetes("core/v1:Pod", "a", pod_spec(), "vision")
    pod["inputs"]["metadata"]["labels"] = {GROUP: "a", QUEUE: "training"}
    assert "pod-group-name" in only(violations("queue-workload", local_queue(), pod)).problem.found
    assert violations("queue-workload", local_queue(), job(labels={QUEUE: "training"})) == []


def test_a_train_job_on_a_workload_of_others_is_found():
    train = kubernetes("trainer.kubeflow.org/v1alpha1:TrainJob", "a", {}, "vision")
    train["inputs"]["metadata"]["annotations"] = {OTHERS: "a"}
    only(violations("queue-workload", local_queue(), train))
    train["inputs"]["metadata"]["annotations"] = UNKNOWN
    assert not_checked("queue-workload", local_queue(), train)

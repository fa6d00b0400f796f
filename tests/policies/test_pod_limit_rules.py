"""Rules about pods' volumes, and about pods that prevent the removal of their node."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import UNKNOWN, Record, kubernetes, not_checked, only, violations

VOLUME = "volume-source"
KEEPING = "node-keeping"
PIN = {"karpenter.sh/do-not-disrupt": "true"}


def pod(**spec: Any) -> Record:
    return kubernetes("core/v1:Pod", "prepare", {"containers": [{"name": "main"}], **spec}, "vision")


def template(annotations: Any = PIN, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main"}], **spec}}


def job(template: Any, namespace: str = "vision", **spec: Any) -> Record:
    return kubernetes("batch/v1:Job", "prepare", {"template": template, **spec}, namespace)


@pytest.mark.parametrize("kind", ["nfs", "iscsi", "gcePersistentDisk", "awsElasticBlockStore"])
def test_a_volume_that_names_a_server_or_a_disk_is_found(kind: str):
    found = only(violations(VOLUME, pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", kind: {}}])))
    assert found.problem.path == f"spec.volumes[1].{kind}"


def test_an_inline_driver_is_found_unless_the_stack_file_names_it():
    wanted = pod(volumes=[{"name": "a", "csi": {"driver": "nfs.csi.k8s.io"}}])
    assert only(violations(VOLUME, wanted)).problem.path == "spec.volumes[0].csi.driver"
    assert violations(VOLUME, wanted, drivers=["nfs.csi.k8s.io"]) == []
    assert violations(VOLUME, pod(volumes=[{"name": "a", "csi": {"driver": "gcsfuse.csi.storage.gke.io"}}])) == []
    assert "driver" in not_checked(VOLUME, pod(volumes=[{"name": "a", "csi": {"driver": UNKNOWN}}]))


def test_pods_that_keep_a_node_have_a_deadline_of_their_own_or_of_their_job():
    assert only(violations(KEEPING, job(template()))).problem.path.startswith("spec.template.metadata.annotations")
    assert violations(KEEPING, job(template(), activeDeadlineSeconds=3600)) == []
    assert violations(KEEPING, job(template(activeDeadlineSeconds=3600))) == []
    assert only(violations(KEEPING, job(template(), activeDeadlineSeconds=2**31 - 1)))
    assert violations(KEEPING, job(template(), "kube-system")) == []


def test_a_job_sets_deadline_is_on_the_job_that_keeps_the_node():
    jobs = [
        {"name": name, "template": {"spec": {"template": template(annotations), **deadline}}}
        for name, annotations, deadline in (("a", {}, {"activeDeadlineSeconds": 60}), ("b", PIN, {}))
    ]
    found = kubernetes("jobset.x-k8s.io/v1alpha2:JobSet", "a", {"replicatedJobs": jobs}, "vision")
    assert "replicatedJobs[1]" in only(violations(KEEPING, found)).problem.path
    jobs[1]["template"]["spec"]["activeDeadlineSeconds"] = 60
    assert violations(KEEPING, found) == []


def test_a_ray_job_ends_its_cluster_after_its_deadline_if_it_shuts_it_down():
    cluster = {"headGroupSpec": {"template": template()}}
    spec = {"rayClusterSpec": cluster, "activeDeadlineSeconds": 3600}
    assert only(violations(KEEPING, kubernetes("ray.io/v1:RayJob", "a", spec, "vision")))
    ends = {**spec, "shutdownAfterJobFinishes": True}
    assert violations(KEEPING, kubernetes("ray.io/v1:RayJob", "a", ends, "vision")) == []


def test_a_ray_job_keeps_its_nodes_until_its_time_to_live_has_passed():
    spec = {
        "rayClusterSpec": {"headGroupSpec": {"template": template()}},
        "activeDeadlineSeconds": 3600,
        "shutdownAfterJobFinishes": True,
    }
    short = {**spec, "ttlSecondsAfterFinished": 600}
    assert violations(KEEPING, kubernetes("ray.io/v1:RayJob", "a", short, "vision")) == []
    long = {**spec, "ttlSecondsAfterFinished": 2_000_000_000}
    assert only(violations(KEEPING, kubernetes("ray.io/v1:RayJob", "a", long, "vision")))
    without_deadline = {**short, "activeDeadlineSeconds": 0}
    assert only(violations(KEEPING, kubernetes("ray.io/v1:RayJob", "a", without_deadline, "vision")))


def test_a_deletion_strategy_that_keeps_the_head_of_a_ray_cluster_is_found():
    spec = {
        "rayClusterSpec": {"headGroupSpec": {"template": template()}},
        "activeDeadlineSeconds": 3600,
        "shutdownAfterJobFinishes": True,
    }
    for policy, kept in (("DeleteWorkers", True), ("DeleteCluster", False)):
        both = {case: {"policy": policy} for case in ("onSuccess", "onFailure")}
        found = violations(
            KEEPING, kubernetes("ray.io/v1:RayJob", "a", {**spec, "deletionStrategy": both}, "vision")
        )
        assert bool(found) == kept


@pytest.mark.parametrize("kind", ["v1:PyTorchJob", "v2beta1:MPIJob"])
@pytest.mark.parametrize(("policy", "kept"), [(None, True), ("None", True), ("Running", False), ("All", False)])
def test_workers_end_with_their_job_only_with_a_clean_pod_policy(kind: str, policy: str | None, kept: bool):
    """The operators' default is None: workers continue to run after the job has finished (kueue#1574)."""
    field = "pytorchReplicaSpecs" if "PyTorch" in kind else "mpiReplicaSpecs"
    run = {"activeDeadlineSeconds": 3600, **({"cleanPodPolicy": policy} if policy else {})}
    spec = {"runPolicy": run, field: {"Worker": {"replicas": 2, "template": template()}}}
    assert bool(violations(KEEPING, kubernetes(f"kubeflow.org/{kind}", "a", spec, "vision"))) == kept


@pytest.mark.parametrize(
    "harmless",
    [{"karpenter.sh/do-not-disrupt": "false"}, {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}],
)
def test_annotations_that_let_a_node_go_pass(harmless: Any):
    assert violations(KEEPING, job(template(harmless))) == []


def test_a_long_grace_period_is_found_and_its_limit_is_a_setting():
    assert only(violations(KEEPING, pod(terminationGracePeriodSeconds=3601))).problem.path == (
        "spec.terminationGracePeriodSeconds"
    )
    assert violations(KEEPING, pod(terminationGracePeriodSeconds=3600)) == []
    assert violations(KEEPING, pod(terminationGracePeriodSeconds=7200), longestGraceSeconds=7200) == []

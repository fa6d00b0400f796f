"""Rules about jobs: shared memory, deadlines, checkpoints, priorities, and budgets that block a drain."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    cluster_policy,
    container,
    deployment,
    device_plugin_config_map,
    eks_node_group,
    gke_node_pool,
    job,
    karpenter_node_pool,
    kubernetes,
    node,
    not_checked,
    only,
    pod_spec,
    shared,
    violations,
)

EIGHT = {"nvidia.com/gpu": "8"}


def priority_class(name: str, value: Any, **fields: Any) -> Record:
    return kubernetes("scheduling.k8s.io/v1:PriorityClass", name, value=value, **fields)


# -- shm-for-training -------------------------------------------------------------------------------------


def training(volume: Any = None, limits: Any = None, mount: str = "/dev/shm") -> Record:
    main = container(limits or EIGHT)
    main["volumeMounts"] = [{"name": "shm", "mountPath": mount}]
    return job(pod_spec(main, volumes=[] if volume is None else [{"name": "shm", **volume}]))


@pytest.mark.parametrize(
    "volume",
    [None, {"emptyDir": {}}, {"emptyDir": {"sizeLimit": "8Gi"}}, {"emptyDir": {"medium": "Memory"}}],
)
def test_training_without_sized_shared_memory_is_found(volume: Any):
    assert only(violations("shm-for-training", training(volume)))


def test_training_with_sized_shared_memory_passes():
    memory = {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    assert violations("shm-for-training", training(memory), training(memory, mount="/dev/shm/")) == []
    assert only(violations("shm-for-training", training(memory, mount="/cache")))


def test_pods_that_claim_their_gpus_need_it_too():
    claims = [{"name": "gpus", "resourceClaimTemplateName": "eight"}]
    assert only(violations("shm-for-training", job(pod_spec(container({}), resourceClaims=claims), parallelism=2)))


def test_one_gpu_of_one_pod_needs_no_shared_memory():
    assert violations("shm-for-training", training(limits={"nvidia.com/gpu": "1"})) == []


def test_only_a_service_on_a_training_pool_needs_shared_memory():
    pods = deployment(pod_spec(container(EIGHT), nodeSelector={"gpu-platform.dev/pool": "train"}))
    assert violations("shm-for-training", node(workload="inference"), pods) == []
    assert only(violations("shm-for-training", node(workload="training"), pods))


@pytest.mark.parametrize(("mode", "found"), [("timeSlicing", 1), ("mps", 0)])
def test_pods_that_share_a_gpu_by_mps_have_the_shared_memory_of_the_daemon(mode: str, found: int):
    one = {"nvidia.com/gpu.shared": "1"}
    pods = job(pod_spec(container(one), nodeSelector={"gpu-platform.dev/pool": "train"}), parallelism=2)
    stack = [node(), cluster_policy(), device_plugin_config_map(train=shared(mode=mode))]
    assert len(violations("shm-for-training", *stack, pods)) == found


@pytest.mark.parametrize(("purpose", "found"), [("training", 1), ("inference", 0)])
def test_a_job_trains_if_it_selects_nodes_for_training_wherever_their_pools_are(purpose: str, found: int):
    pods = pod_spec(container(EIGHT), nodeSelector={"gpu-platform.dev/workload": purpose})
    assert len(violations("shm-for-training", job(pods))) == found


def test_kuberay_gives_ray_workers_shared_memory() -> None:
    pods = pod_spec(container(EIGHT), nodeSelector={"gpu-platform.dev/pool": "train"})
    workers = {"groupName": "w", "replicas": 2, "template": {"spec": pods}}
    spec = {"headGroupSpec": {"template": {"spec": {}}}, "workerGroupSpecs": [workers]}
    cluster = kubernetes("ray.io/v1:RayCluster", "ray", spec)
    assert violations("shm-for-training", node(workload="training"), cluster) == []


# -- active-deadline --------------------------------------------------------------------------------------


def test_a_gpu_job_without_a_deadline_is_found_and_one_of_its_pods_counts():
    assert only(violations("active-deadline", job(activeDeadlineSeconds=None))).problem.path.endswith("Seconds")
    assert (
        violations("active-deadline", job(pod_spec(activeDeadlineSeconds=600), activeDeadlineSeconds=None)) == []
    )


def test_a_job_without_gpus_and_a_deployment_need_no_deadline():
    cpu = job(pod_spec(container({"cpu": "1"})), activeDeadlineSeconds=None)
    assert violations("active-deadline", cpu, deployment(pod_spec())) == []


def test_a_cron_job_has_its_deadline_in_the_template():
    spec = {"jobTemplate": {"spec": {"template": {"spec": pod_spec()}}}}
    assert only(violations("active-deadline", kubernetes("batch/v1:CronJob", "nightly", spec)))
    spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] = 600  # pyrefly: ignore[bad-assignment]
    assert violations("active-deadline", kubernetes("batch/v1:CronJob", "nightly", spec)) == []


def test_a_deadline_that_is_not_known_is_one():
    assert violations("active-deadline", job(activeDeadlineSeconds=UNKNOWN)) == []


# -- spot-for-stateful ------------------------------------------------------------------------------------

CAPACITY_TYPE = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]}
P5 = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}


def stateless(**more: Any) -> Record:
    return job(pod_spec(container(EIGHT), nodeSelector={"gpu-platform.dev/workload": "training"}), **more)


@pytest.mark.parametrize(
    "pool",
    [
        eks_node_group(capacityType="SPOT"),
        gke_node_pool(spot=True),
        gke_node_pool(preemptible=True),
        karpenter_node_pool([P5, CAPACITY_TYPE]),
    ],
)
def test_a_job_without_checkpoints_on_spot_nodes_is_found(pool: Record):
    assert only(violations("spot-for-stateful", pool, stateless()))
    assert violations("spot-for-stateful", pool, job(labels={"nothing": "here"})) == []


def test_on_demand_nodes_and_declared_checkpoints_pass():
    assert violations("spot-for-stateful", eks_node_group(), stateless()) == []
    saved = stateless(annotations={"gpu-platform.dev/checkpoints": "s3://runs/7"})
    assert violations("spot-for-stateful", eks_node_group(capacityType="SPOT"), saved) == []


@pytest.mark.parametrize(
    "requirement",
    [{**CAPACITY_TYPE, "operator": "NotIn"}, {**CAPACITY_TYPE, "key": "example.com/market"}],
)
def test_a_karpenter_pool_is_of_spot_nodes_if_its_capacity_type_may_be_spot(requirement: dict[str, Any]):
    assert violations("spot-for-stateful", karpenter_node_pool([P5, requirement]), stateless()) == []


def test_a_read_only_claim_keeps_no_work():
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}, "readOnly": True}]
    claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}]
    selector = {"gpu-platform.dev/workload": "training"}
    pool = eks_node_group(capacityType="SPOT")
    assert violations("spot-for-stateful", pool, job(pod_spec(volumes=volumes, nodeSelector=selector))) == []
    assert only(violations("spot-for-stateful", pool, job(pod_spec(volumes=claim, nodeSelector=selector))))


# -- priority-preempt-training and priority-globaldefault --------------------------------------------------


def of_class(name: str | None) -> Record:
    spec = pod_spec(container(EIGHT))
    return job({**spec, "priorityClassName": name} if name else spec)


def test_a_job_without_checkpoints_below_a_class_that_preempts_is_found():
    classes = [priority_class("training", 100), priority_class("inference", 1000)]
    assert (
        "inference" in only(violations("priority-preempt-training", *classes, of_class("training"))).problem.found
    )
    assert violations("priority-preempt-training", *classes, of_class("inference")) == []
    assert only(violations("priority-preempt-training", *classes, of_class(None)))


def test_the_place_of_the_violation_is_the_class_of_the_pods():
    classes = [priority_class("training", 100), priority_class("inference", 1000)]
    found = only(violations("priority-preempt-training", *classes, of_class("training")))
    assert found.problem.path == "spec.template.spec.priorityClassName"


def test_a_class_that_never_preempts_ends_no_job():
    classes = [priority_class("training", 100), priority_class("inference", 1000, preemptionPolicy="Never")]
    assert violations("priority-preempt-training", *classes, of_class("training")) == []


def test_a_class_of_another_stack_is_not_checked():
    assert "not in this stack" in not_checked("priority-preempt-training", of_class("training"))


def test_a_high_class_as_the_default_is_found_and_a_low_one_passes():
    found = only(violations("priority-globaldefault", priority_class("high", 100, globalDefault=True)))
    assert found.problem.path.endswith("globalDefault")
    assert violations("priority-globaldefault", priority_class("low", 0, globalDefault=True)) == []
    assert "globalDefault" in not_checked("priority-globaldefault", priority_class("x", 1, globalDefault=UNKNOWN))


def test_a_system_class_is_for_the_systems_namespaces():
    critical = pod_spec(priorityClassName="system-node-critical")
    assert only(violations("priority-globaldefault", deployment(critical)))
    assert violations("priority-globaldefault", deployment(critical, namespace="kube-system")) == []


# -- pdb-blocks-drain -------------------------------------------------------------------------------------


def budget(**spec: Any) -> Record:
    selector = {"matchLabels": {"app": "serve"}}
    return kubernetes("policy/v1:PodDisruptionBudget", "serve", {"selector": selector, **spec})


def served(replicas: int) -> Record:
    found = deployment(pod_spec())
    found["inputs"]["spec"]["replicas"] = replicas
    found["inputs"]["spec"]["template"]["metadata"] = {"labels": {"app": "serve", "tier": "one"}}
    return found


@pytest.mark.parametrize("spec", [{"maxUnavailable": 0}, {"maxUnavailable": "0%"}, {"minAvailable": "100%"}])
def test_a_budget_that_allows_nothing_is_found(spec: Record):
    assert only(violations("pdb-blocks-drain", budget(**spec)))


def test_a_budget_is_compared_with_the_replicas_that_it_guards():
    assert only(violations("pdb-blocks-drain", budget(minAvailable=2), served(2)))
    assert violations("pdb-blocks-drain", budget(minAvailable=1), served(2)) == []
    assert violations("pdb-blocks-drain", budget(minAvailable=2)) == []


def test_a_budget_that_is_not_known_is_not_checked():
    assert "maxUnavailable" in not_checked("pdb-blocks-drain", budget(maxUnavailable=UNKNOWN))

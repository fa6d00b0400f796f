"""The objects of declared workloads, as the API server, the policy pack and the controllers evaluate them."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from policies import evaluate
from tests.planning.conftest import environment, pool, team
from tests.support.definitions import CRDS, unknown_fields
from tests.support.recorded import Recorded, record_platform
from tests.support.restricted import violations

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
IMAGE = "registry.example.com/train@sha256:" + "0" * 64
KEPT = {"directory": "/checkpoints", "storage_class": "shared", "size": "1200Gi"}
RUN: dict[str, Any] = {"pool": "train", "image": IMAGE, "command": ["torchrun", "train.py"], "run_as_user": 1000}
JOB: dict[str, Any] = {
    **RUN,
    "name": "pretrain",
    "gpus": 8,
    "replicas": 2,
    "checkpoints": KEPT,
    "secrets": ["wandb"],
}
SERVICE: dict[str, Any] = {
    "name": "chat",
    "pool": "train",
    "image": IMAGE,
    "gpus": 4,
    "replicas": 2,
    "run_as_user": 1000,
    "autoscaling": {"max_replicas": 3, "query": "sum(waiting)", "threshold": 5.0},
    "route": {"gateway": "edge/public", "hostname": "chat.example.com", "path": "/v1"},
}
LARGE: dict[str, Any] = {
    "name": "large",
    "pool": "train",
    "image": IMAGE,
    "gpus": 8,
    "nodes": 2,
    "run_as_user": 1000,
}
RAY: dict[str, Any] = {
    "name": "ray",
    "image": IMAGE,
    "version": "2.49.0",
    "run_as_user": 1000,
    "head": {},
    "workers": [{"name": "gpu", "pool": "train", "gpus": 2, "replicas": 2}],
}
ADDONS = dict.fromkeys(
    ("jobset", "trainer", "kuberay", "leaderworkerset", "keda", "gateway", "prometheus"), "install"
)
HOME = {**KEPT, "directory": "/home/me"}
APIS = ("job", "jobset", "trainjob")


def recorded(addons: dict[str, str] = ADDONS, **rest: Any) -> Recorded:
    entries: dict[str, Any] = {
        "training_jobs": [{**JOB, "name": f"pretrain-{api}", "api": api} for api in APIS],
        "inference_services": [SERVICE, LARGE],
        "ray_clusters": [RAY],
        "notebooks": [
            {"name": "lab", "pool": "train", "run_as_user": 1000, "home": {**KEPT, "directory": "/home/me"}}
        ],
        "batch_jobs": [{**RUN, "name": "embed", "parts": 9, "schedule": "0 2 * * *"}],
        **rest,
    }
    stack = environment(
        pool(count={"desired": 8}, zones=["us-east-2a"]),
        cluster=EKS,
        addons=addons,
        queueing={},
        storage={"shared": {"type": "lustre", "zone": "us-east-2a"}},
        teams=[
            team(
                quota={"gpus": 64},
                ingress=[{"namespace": "envoy-gateway-system", "ports": [8080]}],
                **entries,
            )
        ],
    )
    return record_platform(stack)


@pytest.fixture(scope="module")
def found() -> Recorded:
    return recorded()


def manifest(found: Recorded, kind: str, name: str) -> dict[str, Any]:
    (one,) = (
        dict(one.inputs)
        for one in found.resources
        if one.inputs.get("kind") == kind and re.fullmatch(f"{name}[0-9a-f]*", one.inputs["metadata"]["name"])
    )
    return one


def templates(node: Any) -> list[dict[str, Any]]:
    """Return all pod specs in an object or a list of objects."""
    if isinstance(node, list):
        return [spec for one in node for spec in templates(one)]
    if not isinstance(node, dict):
        return []
    own = [node] if isinstance(node.get("containers"), list) else []
    return own + [spec for value in node.values() for spec in templates(value)]


KINDS = [
    ("Job", "pretrain-job"),
    ("JobSet", "pretrain-jobset"),
    ("TrainingRuntime", "pretrain-trainjob-"),
    ("Deployment", "chat"),
    ("LeaderWorkerSet", "large"),
    ("RayCluster", "ray"),
    ("CronJob", "lab"),
    ("CronJob", "embed"),
]


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_pods_satisfy_pod_security_restricted_and_are_queued(found: Recorded, kind: str, name: str) -> None:
    one = manifest(found, kind, name)
    specs = templates(one["spec"])
    assert specs
    for spec in specs:
        assert violations(spec) == []
        assert spec["automountServiceAccountToken"] is False
    if kind != "TrainingRuntime":  # the TrainJob that refers to this TrainingRuntime is queued
        assert "kueue.x-k8s.io/queue-name" in yaml.safe_dump(one)


@pytest.mark.parametrize(("kind", "name"), [one for one in KINDS if one[0] not in ("TrainingRuntime", "CronJob")])
def test_what_a_queue_does_not_let_change_replaces_the_object(found: Recorded, kind: str, name: str) -> None:
    (one,) = (each for each in found.resources if re.fullmatch(rf"vision/{kind}/{name}[0-9a-f]*", each.name))
    queue = 'metadata.labels["kueue.x-k8s.io/queue-name"]'
    # Kueue queues the pods of a Deployment, not the Deployment.
    assert (queue in one.replace_on_changes) is (kind != "Deployment")
    counted = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[*].resources.requests"
    assert (counted in one.replace_on_changes) is (kind == "LeaderWorkerSet")


def test_no_object_violates_a_rule_of_the_policy_pack(found: Recorded) -> None:
    hosts = {
        "route-host": {"hosts": ["chat.example.com"]}
    }  # `check` passes the hosts to the rule in the same form
    report = evaluate([one.to_json() for one in found.resources], hosts, datetime.date(2026, 11, 23))
    own = [one for one in report.violations if "vision" in one.resource and "policy" not in one.rule]
    assert [f"{one.rule}: {one}" for one in own] == []


def test_objects_of_the_core_group_have_the_types_of_the_provider(found: Recorded) -> None:
    """Pulumi refuses a CustomResource of `v1`: "apiVersion does not have both a group and a version"."""
    assert [one.type for one in found.resources if one.type.startswith("kubernetes:v1:")] == []


def test_a_job_set_restarts_lost_pods_for_free_and_fails_on_exit_codes_that_stop(found: Recorded) -> None:
    spec = manifest(found, "JobSet", "pretrain-jobset")["spec"]
    rules = {rule["name"]: rule for rule in spec["failurePolicy"]["rules"]}
    group = spec["replicatedJobs"][0]["template"]["spec"]
    assert rules["nodeLost"]["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert rules["noOtherAttempt"]["action"] == "FailJobSet"
    assert group["backoffLimit"] == 0
    lost, interrupted, stop = group["podFailurePolicy"]["rules"]
    assert lost["onPodConditions"] == [{"type": "DisruptionTarget"}, {"type": "TerminatedByKueue"}]
    assert interrupted["onExitCodes"]["values"] == [75]
    assert stop["onExitCodes"]["values"] == [2, 70, 126, 127]
    env = {one["name"]: one.get("value") for one in group["template"]["spec"]["containers"][0]["env"]}
    assert env["PET_RDZV_ENDPOINT"] == "pretrain-jobset-node-0-0.pretrain-jobset:29500"


def test_messages_of_the_job_controller_match_the_rules_of_a_job_set(found: Recorded) -> None:
    """The messages are copied from Kubernetes: pkg/controller/job/pod_failure_policy.go, read 2026-11-23."""
    spec = manifest(found, "JobSet", "pretrain-jobset")["spec"]
    patterns = {
        rule["name"]: rule["onJobFailureMessagePatterns"][0]
        for rule in spec["failurePolicy"]["rules"]
        if "onJobFailureMessagePatterns" in rule
    }
    lost = "Pod vision/pretrain-0-x has condition DisruptionTarget matching FailJob rule at index 0"
    failed = (
        "Container main for pod vision/pretrain-0-x failed with exit code {} matching FailJob rule at index {}"
    )
    ended = lost.replace("DisruptionTarget", "TerminatedByKueue")
    saved, stop = failed.format(75, 1), failed.format(2, 2)
    # The first matching rule applies (JobSet, keps/262-ConfigurableFailurePolicy; read 2026-11-25).
    matching = {
        message: next(name for name, one in patterns.items() if re.search(one, message))
        for message in (lost, ended, saved, stop)
    }
    assert matching == {lost: "nodeLost", ended: "nodeLost", saved: "interrupted", stop: "noOtherAttempt"}


def test_a_job_that_saved_its_work_starts_again_for_nothing(found: Recorded) -> None:
    lost, interrupted, stop = manifest(found, "Job", "pretrain-job")["spec"]["podFailurePolicy"]["rules"]
    assert [one["action"] for one in (lost, interrupted, stop)] == ["Ignore", "Ignore", "FailJob"]
    assert interrupted["onExitCodes"] == {"operator": "In", "values": [75]}


def test_a_changed_pod_of_a_train_job_changes_the_train_job(found: Recorded) -> None:
    other = recorded(
        training_jobs=[{**JOB, "name": "pretrain-trainjob", "api": "trainjob", "image": f"{IMAGE[:-1]}1"}]
    )
    runtimes = [
        one.inputs["metadata"]["name"]
        for each in (found, other)
        for one in each.resources
        if one.inputs.get("kind") == "TrainingRuntime"
    ]
    assert len(set(runtimes)) == 2
    for each, runtime in zip((found, other), runtimes, strict=True):
        assert manifest(each, "TrainJob", "pretrain-trainjob")["spec"]["runtimeRef"]["name"] == runtime


def test_an_autoscaled_services_replicas_are_only_set_at_its_creation(
    found: Recorded,
) -> None:
    chat = found.one("Deployment", "chat")
    assert (chat.inputs["spec"]["replicas"], chat.ignore_changes) == (2, ("spec.replicas",))
    scaled = manifest(found, "ScaledObject", "chat")["spec"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (2, 3)
    assert scaled["triggers"][0]["metadata"]["serverAddress"] == "http://prometheus-operated.monitoring.svc:9090"


def test_a_service_of_several_nodes_leaves_its_replicas_to_the_autoscaler_too() -> None:
    scaling = {"max_replicas": 3, "query": "sum(up)", "threshold": 1}
    wide = recorded(inference_services=[{**SERVICE, "nodes": 2, "replicas": 1, "autoscaling": scaling}])
    found = wide.one("LeaderWorkerSet", "chat")
    assert (found.inputs["spec"]["replicas"], found.ignore_changes) == (1, ("spec.replicas",))


def test_pods_of_a_copy_find_each_other_through_their_own_service() -> None:
    """By default, LeaderWorkerSet uses the workload's Service, which selects only leaders that are ready."""
    wide = recorded(inference_services=[{**SERVICE, "nodes": 2}])
    assert wide.one("LeaderWorkerSet", "chat").inputs["spec"]["networkConfig"] == {
        "subdomainPolicy": "UniquePerReplica"
    }
    assert (
        wide.one("Service", "chat").inputs["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    )


def test_a_service_without_an_autoscaler_has_the_replicas_of_its_file() -> None:
    fixed = recorded(inference_services=[{key: SERVICE[key] for key in SERVICE if key != "autoscaling"}])
    chat = fixed.one("Deployment", "chat")
    assert (chat.inputs["spec"]["replicas"], chat.ignore_changes) == (2, ())


@pytest.mark.parametrize(
    ("addon", "field", "rule"),
    [
        ("install", {}, {"request": "3600s"}),  # Envoy's default timeout is 15 s
        ("present", {}, None),  # GKE's Gateway refuses a route with a timeout
        ("present", {"timeout": "30m"}, {"request": "1800s"}),
        ("install", {"timeout": "90s"}, {"request": "90s"}),
    ],
)
def test_a_gateway_lets_an_answer_stream_as_long_as_its_route_says(
    addon: str, field: dict[str, str], rule: dict[str, str] | None
) -> None:
    route = {**SERVICE["route"], **field}
    found = recorded(addons=ADDONS | {"gateway": addon}, inference_services=[{**SERVICE, "route": route}])
    (one,) = manifest(found, "HTTPRoute", "chat")["spec"]["rules"]
    assert one.get("timeouts") == rule


def test_a_route_with_a_timeout_that_gateway_api_has_no_room_for_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        recorded(inference_services=[{**SERVICE, "route": {**SERVICE["route"], "timeout": "48h"}}])
    (problem,) = refused.value.problems
    assert problem.path == "teams[0].inference_services[0].route.timeout"
    assert (problem.found, problem.allowed, problem.fix) == ("48h", "at most 24h", "write 24h")


@pytest.mark.parametrize(("addon", "strategy"), [("install", {"type": "Recreate"}), ("present", None)])
def test_a_changed_ray_cluster_gets_other_pods_where_its_operator_can(
    addon: str, strategy: dict[str, str] | None
) -> None:
    found = recorded(addons=ADDONS | {"kuberay": addon})
    assert manifest(found, "RayCluster", "ray")["spec"].get("upgradeStrategy") == strategy


def test_a_metric_that_is_missing_keeps_the_replicas_of_an_autoscaled_service(found: Recorded) -> None:
    scaled = manifest(found, "ScaledObject", "chat")["spec"]
    assert scaled["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert scaled["fallback"] == {"failureThreshold": 3, "replicas": 2, "behavior": "currentReplicasIfHigher"}
    behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    # The autoscaler adds at most one pod within the time that the model may take to load.
    assert behavior["scaleUp"]["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 600}]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 300


def test_the_scaled_object_has_its_own_component_and_is_not_replaced(
    found: Recorded,
) -> None:
    (scaler,) = found.of("KedaScaler")
    (scaled,) = (one for one in found.resources if one.inputs.get("kind") == "ScaledObject")
    assert scaled.parent == scaler.urn
    assert scaler.urn.rpartition("::")[2] == "vision/chat"


def test_a_service_cools_down_for_as_long_as_its_entry_says() -> None:
    scaling = {"max_replicas": 3, "query": "sum(up)", "threshold": 1, "cool_down": "20m"}
    scaled = manifest(recorded(inference_services=[{**SERVICE, "autoscaling": scaling}]), "ScaledObject", "chat")
    behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 1200
    with pytest.raises(BadInput, match=r"autoscaling.cool_down: found 61m; allowed: at most 1h"):
        recorded(inference_services=[{**SERVICE, "autoscaling": {**scaling, "cool_down": "61m"}}])


def test_a_service_may_scale_on_kafka_lag_if_an_administrator_allows_it() -> None:
    kafka = {
        "servers": ["a.streams.svc:9092", "b.streams.svc:9092"],
        "topic": "questions",
        "consumer_group": "chat",
    }
    service = {
        **SERVICE,
        "autoscaling": {"max_replicas": 3, "kafka": {**kafka, "lag": 50, "authentication": "login"}},
    }
    with pytest.raises(BadInput, match=r"autoscaling\.kafka: found a Kafka trigger"):
        recorded(inference_services=[service])
    made = recorded(inference_services=[service], scaling={"triggers": ["kafka"]})
    scaled = manifest(made, "ScaledObject", "chat")
    assert scaled["spec"]["triggers"] == [
        {
            "type": "kafka",
            "metadata": {
                "bootstrapServers": "a.streams.svc:9092,b.streams.svc:9092",
                "consumerGroup": "chat",
                "topic": "questions",
                "lagThreshold": "50",
                "allowIdleConsumers": "false",
            },
            "authenticationRef": {"name": "login"},
        }
    ]
    if CRDS:
        assert unknown_fields(scaled, "keda.sh_scaledobjects") == []
    both = {**SERVICE["autoscaling"], "kafka": kafka}
    made = recorded(inference_services=[{**SERVICE, "autoscaling": both}], scaling={"triggers": ["kafka"]})
    kinds = [one["type"] for one in manifest(made, "ScaledObject", "chat")["spec"]["triggers"]]
    assert kinds == ["prometheus", "kafka"]


@pytest.mark.parametrize(
    ("scaling", "wrong"),
    [
        ({"max_replicas": 3}, "query with threshold, or kafka, or both"),
        ({"max_replicas": 3, "query": "up"}, "query and threshold together"),
    ],
)
def test_a_service_without_a_whole_trigger_is_refused(scaling: dict[str, Any], wrong: str) -> None:
    with pytest.raises(BadInput, match=wrong):
        recorded(inference_services=[{**SERVICE, "autoscaling": scaling}])


def test_a_claim_is_kept_when_its_entry_leaves(found: Recorded) -> None:
    claims = [one for one in found.resources if one.inputs.get("kind") == "PersistentVolumeClaim"]
    own = [one for one in claims if "gpu-platform.dev/kept" in one.inputs["metadata"].get("labels", {})]
    assert {one.inputs["metadata"]["name"] for one in own} == {
        *(f"pretrain-{api}-checkpoints" for api in APIS),
        "lab-home",
    }
    assert all(one.retain_on_delete for one in own)


CUSTOM = [
    ("JobSet", "pretrain-jobset", "jobset.x-k8s.io_jobsets"),
    ("TrainJob", "pretrain-trainjob", "trainer.kubeflow.org_trainjobs"),
    ("TrainingRuntime", "", "trainer.kubeflow.org_trainingruntimes"),
    ("RayCluster", "ray", "ray.io_rayclusters"),
    ("ScaledObject", "chat", "keda.sh_scaledobjects"),
]


@pytest.mark.skipif(not CRDS, reason="GPU_PLATFORM_CRDS is not set to a folder with CRDs")
@pytest.mark.parametrize(("kind", "name", "file"), CUSTOM)
def test_custom_objects_have_only_fields_of_their_crds(found: Recorded, kind: str, name: str, file: str) -> None:
    one = next(
        dict(one.inputs)
        for one in found.resources
        if one.inputs.get("kind") == kind and one.inputs["metadata"]["name"].startswith(name)
    )
    assert unknown_fields(one, file) == []

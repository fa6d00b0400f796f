"""On the real control plane with Kueue, members try to run pods that Kueue does not count or cannot stop."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient, Refused
from policies import evaluate
from tests.e2e.impersonation import admitted
from tests.e2e.queues import KUEUE, Team, job
from tests.e2e.test_team_queues import e2e_sandbox, queues, search, vision
from tests.support.eventually import eventually
from tests.support.permissive import permissive
from tests.support.restricted import satisfying

__all__ = ["e2e_sandbox", "queues", "search", "vision"]  # fixtures

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queues")]

Object = dict[str, Any]
GROUP = "kueue.x-k8s.io/pod-group-name"
OF_GROUP = {"kueue.x-k8s.io/pod-group-total-count": "2"}
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
ROLE = "kueue.x-k8s.io/role-hash"
ELASTIC = "kueue.x-k8s.io/elastic-job"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"
LEADER_WORKER_SETS = "leaderworkerset.x-k8s.io/leaderworkerset"
SET_NAME = "leaderworkerset.sigs.k8s.io/name"
JOBS = "/apis/batch/v1/namespaces/vision/jobs"


def a_pod(**metadata: Object) -> Object:
    amount = {"cpu": "900m", "memory": "1Gi", "nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "none", "command": ["sleep", "infinity"]}
    resources = {"requests": amount, "limits": amount}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "attempt", "namespace": "vision", **metadata},
        "spec": satisfying({"restartPolicy": "Never", "containers": [{**container, "resources": resources}]}),
    }


def a_job(**metadata: Any) -> Object:
    found = job("vision", "attempt", 1)
    found["metadata"] |= metadata
    return found


def a_cron_job(**metadata: Any) -> Object:
    """Return a CronJob whose Jobs have the given metadata."""
    found = a_job()
    template = {"metadata": metadata, "spec": found["spec"]}
    found["spec"] = {"schedule": "0 0 * * *", "jobTemplate": template}
    return {**found, "kind": "CronJob", "metadata": {"name": "attempt", "namespace": "vision"}}


def a_service(**metadata: Object) -> Object:
    labels = {"app": "attempt"}
    template = a_pod()
    template["spec"]["restartPolicy"] = "Always"
    of_pods = {**metadata, "labels": {**metadata.get("labels", {}), **labels}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": of_pods, "spec": template["spec"]},
        },
    }


def before_a_deploy(wanted: Object) -> set[str]:
    """Return the rules that an object violates in a namespace with a queue, according to the policy pack."""
    queue = {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": "vision"},
        "spec": {"clusterQueue": "vision"},
    }
    records: list[Object] = []
    for one in (queue, wanted):
        version = one["apiVersion"] if "/" in one["apiVersion"] else f"core/{one['apiVersion']}"
        kind = f"kubernetes:{version}:{one['kind']}"
        records.append({"urn": f"urn:pulumi:a::b::{kind}::a", "type": kind, "name": "a", "inputs": one})
    report = evaluate(records, {"all": "disabled", "queue-workload": "mandatory"}, datetime.date(2026, 11, 25))
    assert not report.not_checked
    return {one.rule for one in report.violations}


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        (a_pod(labels={GROUP: "a"}, annotations={ROLE: "as-small-as-another", **OF_GROUP}), True),
        (a_pod(annotations={GROUP: "a", **OF_GROUP}), True),
        (a_service(labels={GROUP: "a"}, annotations=OF_GROUP), True),
        (a_pod(labels={PREBUILT: "of-others"}), True),
        (a_job(labels={PREBUILT: "of-others"}), True),
        (a_job(annotations={PREBUILT: "of-others"}), True),
        (a_cron_job(labels={PREBUILT: "of-others"}), True),
        (a_cron_job(labels={"kueue.x-k8s.io/queue-name": "default"}), False),
        (a_service(annotations={PREBUILT: "of-others"}), True),
        (a_pod(labels={SET_NAME: "of-nobody"}, annotations={PARENT: LEADER_WORKER_SETS}), True),
        (a_pod(annotations={PARENT: "statefulset"}), True),
        (a_service(annotations={PARENT: LEADER_WORKER_SETS}), True),
        (a_service(labels={SET_NAME: "of-others"}), True),
        (a_job(labels={"kueue.x-k8s.io/queue-name": "default"}), False),
        (a_service(labels={"kueue.x-k8s.io/queue-name": "default"}), False),
    ],
    ids=[
        "group-of-pods",
        "group-by-an-annotation",
        "group-of-a-deployment",
        "pod-on-a-workload",
        "job-on-a-workload",
        "job-on-a-workload-by-an-annotation",
        "job-of-a-cron-job-on-a-workload",
        "job-of-a-cron-job-in-its-queue",
        "deployment-on-a-workload",
        "pod-of-no-leader-worker-set",
        "pod-of-no-stateful-set",
        "deployment-as-a-leader-worker-set",
        "deployment-in-a-leader-worker-set",
        "job-in-its-queue",
        "deployment-in-its-queue",
    ],
)
def test_the_pack_and_admission_refuse_what_joins_the_workload_of_others(
    vision: Team, wanted: Object, refused: bool
) -> None:
    assert before_a_deploy(wanted) == ({"queue-workload"} if refused else set())
    if refused:
        with pytest.raises(Refused, match=r"queue-workload: .* remove"):
            vision.client.create(wanted, dry_run=True)
    else:
        vision.client.create(wanted, dry_run=True)


@pytest.mark.parametrize("make", [a_cron_job, a_service])
@pytest.mark.parametrize(
    ("label", "rule"),
    [("kueue.x-k8s.io/queue-name", "queue-of-team"), ("kueue.x-k8s.io/priority-class", "queue-priority-class")],
)
def test_labels_of_what_controllers_make_are_those_of_the_team(
    vision: Team, make: Any, label: str, rule: str
) -> None:
    with pytest.raises(Refused, match=rule):
        vision.client.create(make(labels={label: "of-others"}), dry_run=True)


def test_a_job_that_exists_joins_no_workload_of_others(vision: Team) -> None:
    vision.job("attempt", gpus=1)
    for field in ("labels", "annotations"):
        with pytest.raises(Refused, match="queue-workload"):
            vision.client.merge(a_change("Job", "attempt", {field: {PREBUILT: "of-others"}}))


def test_a_workload_of_ones_own_is_refused(vision: Team) -> None:
    workload = {"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "mine", "namespace": "vision"}}
    with pytest.raises(Refused, match="cannot create"):
        vision.client.create({**workload, "spec": {"podSets": []}})


def a_change(kind: str, name: str, metadata: Object, **fields: Any) -> Object:
    version = {"Pod": "v1", "StatefulSet": "apps/v1"}.get(kind, "batch/v1")
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "vision", **metadata},
        **fields,
    }


@pytest.fixture
def alone(vision: Team) -> Iterator[str]:
    """The name of a running pod that has no controller. Kueue has started the pod."""
    vision.client.create(a_pod())
    admin = KubernetesClient(vision.kubeconfig)

    def live() -> Object | None:
        return admin.get("v1", "Pod", "attempt", "vision")

    eventually(lambda: (found := live()) is not None and found["status"].get("phase") == "Running")
    yield "attempt"
    if (found := live()) is not None:
        admin.delete(found)
    eventually(lambda: live() is None)


def test_a_pod_stays_among_those_that_kueue_counts_and_stops(vision: Team, alone: str) -> None:
    for metadata in (
        {"labels": {"kueue.x-k8s.io/managed": None}},
        {"labels": {"kueue.x-k8s.io/queue-name": None}},
        {"annotations": {ROLE: "as-small-as-another"}},
        {"annotations": {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}},
    ):
        with pytest.raises(Refused, match=r"queue-pod-labels: .* do not change them"):
            vision.client.merge(a_change("Pod", alone, metadata))
    vision.client.merge(a_change("Pod", alone, {"labels": {"app": "mine"}}))


def test_a_pod_cannot_leave_its_job_and_run_next_to_its_replacement(vision: Team) -> None:
    vision.job("fit", gpus=8)
    eventually(lambda: vision.running("fit") == 1)
    (pod,) = vision.pods("fit")
    name = pod["metadata"]["name"]
    for metadata in (
        {"labels": {"batch.kubernetes.io/controller-uid": None}},
        {"labels": {"batch.kubernetes.io/job-name": "other"}},
        {"ownerReferences": None},
    ):
        with pytest.raises(Refused, match=r"queue-pod-owner: .* do not change its labels"):
            vision.client.merge(a_change("Pod", name, metadata))
    vision.client.merge(a_change("Pod", name, {"labels": {"app": "mine"}}))


def test_what_a_queued_object_owns_cannot_grow(vision: Team) -> None:
    owner = vision.job("owner", gpus=1)
    child = job("vision", "child", 1)
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": owner["metadata"]["uid"]}
    ]
    KubernetesClient(vision.kubeconfig).create(child)
    with pytest.raises(Refused, match=r"queue-owned: .* change the owner"):
        vision.client.merge(a_change("Job", "child", {}, spec={"parallelism": 8}))
    vision.client.merge(a_change("Job", "child", {"labels": {"app": "mine"}}))


def test_pods_of_an_elastic_job_wait_until_they_are_counted(vision: Team, search: Team) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    wanted = a_job(annotations={ELASTIC: "true"})
    live = vision.create(wanted)
    assert {"name": ELASTIC} in live["spec"]["template"]["spec"]["schedulingGates"]
    ungated = {"template": {"spec": {"schedulingGates": None}}}
    with pytest.raises(Refused, match=r"queue-elastic-gate: .* keep the scheduling gate"):
        vision.client.merge(a_change("Job", "attempt", {}, spec=ungated))
    vision.client.merge(a_change("Job", "attempt", {}, spec={"parallelism": 2}))


def test_a_job_that_was_not_elastic_does_not_become_so_without_its_gate(vision: Team) -> None:
    vision.job("attempt", gpus=1)
    with pytest.raises(Refused, match="queue-elastic-gate"):
        vision.client.merge(a_change("Job", "attempt", {"annotations": {ELASTIC: "true"}}))


def test_a_job_is_not_deleted_without_its_pods(vision: Team) -> None:
    vision.job("fit", gpus=8)
    eventually(lambda: vision.running("fit") == 1)

    def delete(**options: str) -> None:
        vision.client._connection.request("DELETE", f"{JOBS}/fit", "deleting", options)

    # A request without a propagation policy also leaves the pods of a Job behind.
    for options in ({"propagationPolicy": "Orphan"}, {"orphanDependents": "true"}, {}):
        with pytest.raises(Refused, match=r"queue-orphans: .* delete it with propagationPolicy"):
            delete(**options)
    assert vision.running("fit") == 1
    for policy in ("Background", "Foreground"):
        delete(propagationPolicy=policy, dryRun="All")


def test_a_job_keeps_no_finalizer_that_leaves_its_pods_behind(vision: Team) -> None:
    with pytest.raises(Refused, match="object-finalizer"):
        vision.client.create(a_job(finalizers=["orphan"]), dry_run=True)


PYTORCH = "kubeflow.org/v1"
RAY = "ray.io/v1"
JOB_SET = "jobset.x-k8s.io/v1alpha2"
LEADER_WORKER_SET = "leaderworkerset.x-k8s.io/v1"


@pytest.fixture
def custom_kinds(vision: Team) -> Iterator[KubernetesClient]:
    """An administrator's client, and CRDs of controllers that the sandbox does not run."""
    client = KubernetesClient(vision.kubeconfig)
    crds = [
        permissive(PYTORCH, "PyTorchJob", "pytorchjobs"),
        permissive(RAY, "RayCluster", "rayclusters"),
        permissive(RAY, "RayJob", "rayjobs"),
        permissive(LEADER_WORKER_SET, "LeaderWorkerSet", "leaderworkersets"),
        permissive(JOB_SET, "JobSet", "jobsets"),
        permissive(RAY, "RayService", "rayservices"),
    ]
    for one in crds:
        client.create(one)
    eventually(lambda: client.find_resource(JOB_SET, "JobSet") is not None)
    yield client
    for one in crds:
        live = client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", one["metadata"]["name"])
        assert live is not None
        client.delete(live)
    kinds = ("JobSet", "PyTorchJob", "RayCluster", "RayService")
    eventually(lambda: all(not of_object(client, kind) for kind in kinds))


def of_object(client: KubernetesClient, kind: str) -> list[Object]:
    """Return the Workloads of all objects of a kind."""
    return [
        one
        for one in client.objects(KUEUE, "Workload", namespace="vision")
        if any(owner["kind"] == kind for owner in one["metadata"].get("ownerReferences", ()))
    ]


def a_template() -> Object:
    pod = a_pod()
    tolerated = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {"metadata": {}, "spec": {**pod["spec"], "tolerations": tolerated}}


def test_a_pytorch_job_is_queued_with_all_of_its_pods(
    vision: Team, search: Team, custom_kinds: KubernetesClient
) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    replicas = {"replicas": 1, "restartPolicy": "Never", "template": a_template()}
    wanted: Object = {
        "apiVersion": PYTORCH,
        "kind": "PyTorchJob",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {
            "pytorchReplicaSpecs": {"Master": replicas, "Worker": replicas},
            "runPolicy": {"cleanPodPolicy": "Running"},
        },
    }
    above = {"runPolicy": {"cleanPodPolicy": "All", "schedulingPolicy": {"priorityClass": "inference"}}}
    with pytest.raises(Refused, match="queue-priority-class"):
        vision.client.create({**wanted, "spec": {**wanted["spec"], **above}}, dry_run=True)
    # Kueue and the quota controller notice a new CRD after some seconds.
    eventually(lambda: admitted(vision.client, wanted).get("spec", {}).get("runPolicy", {}).get("suspend") is True)
    vision.client.create(wanted)
    eventually(lambda: len(of_object(custom_kinds, "PyTorchJob")) == 1)
    [workload] = of_object(custom_kinds, "PyTorchJob")
    assert [one["name"] for one in workload["spec"]["podSets"]] == ["master", "worker"]
    started = {**wanted, "spec": {"runPolicy": {"suspend": False}}}
    with pytest.raises(Refused, match="queue-start"):
        vision.client.merge(started)


def test_pods_that_outlive_a_finished_object_are_refused(vision: Team, custom_kinds: KubernetesClient) -> None:
    """Kueue returns the quota when the object has finished (kubernetes-sigs/kueue#1574, #3994)."""
    replicas = {"replicas": 1, "restartPolicy": "Never", "template": a_template()}
    training: Object = {
        "apiVersion": PYTORCH,
        "kind": "PyTorchJob",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {"pytorchReplicaSpecs": {"Master": replicas, "Worker": replicas}},
    }
    ray_job: Object = {
        "apiVersion": RAY,
        "kind": "RayJob",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {
            "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": a_template()}},
            "shutdownAfterJobFinishes": True,
        },
    }
    head = {case: {"policy": "DeleteWorkers"} for case in ("onSuccess", "onFailure")}
    attempts = [
        (training, {}),
        (training, {"runPolicy": {"cleanPodPolicy": "None"}}),
        (ray_job, {"shutdownAfterJobFinishes": False}),
        (ray_job, {"ttlSecondsAfterFinished": 3601}),
        (ray_job, {"deletionStrategy": head}),
    ]
    for wanted, fields in attempts:
        refused = {**wanted, "spec": {**wanted["spec"], **fields}}
        eventually(lambda one=refused: "queue-end" in refusal(vision.client, one))
    honest = [
        (training, {"runPolicy": {"cleanPodPolicy": "Running"}}),
        (ray_job, {"ttlSecondsAfterFinished": 3600}),
    ]
    for wanted, fields in honest:
        admitted_one = {**wanted, "spec": {**wanted["spec"], **fields}}
        eventually(lambda one=admitted_one: admitted(vision.client, one) != {})


def test_a_job_set_that_restarts_keeps_its_quota_and_can_be_stopped(
    vision: Team, search: Team, custom_kinds: KubernetesClient
) -> None:
    """If quota of a succeeded Job is returned, Kueue cannot take it again, and stops handling the JobSet
    (kubernetes-sigs/kueue#14811).
    """
    jobs = [{"name": name, "replicas": 1, "template": {"spec": {"template": a_template()}}} for name in ("a", "b")]
    wanted: Object = {
        "apiVersion": JOB_SET,
        "kind": "JobSet",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {"replicatedJobs": jobs},
    }
    # Kueue and the quota controller notice a new CRD after some seconds.
    eventually(lambda: admitted(vision.client, wanted).get("spec", {}).get("suspend") is True)
    vision.client.create(wanted)

    def suspended() -> bool:
        live = custom_kinds.get(JOB_SET, "JobSet", "attempt", "vision")
        assert live is not None
        return bool(live["spec"]["suspend"])

    def report(**states: str) -> None:
        """Write the status as the JobSet controller does, which the sandbox does not run."""
        zero = {"ready": 0, "active": 0, "failed": 0, "succeeded": 0, "suspended": 0}
        status = [{"name": name, **zero, **({state: 1} if state else {})} for name, state in states.items()]
        custom_kinds.merge({**wanted, "spec": {}, "status": {"replicatedJobsStatus": status}})

    def is_ready() -> bool:
        [workload] = of_object(custom_kinds, "JobSet")
        conditions = workload["status"].get("conditions", ())
        return any(one["type"] == "PodsReady" and one["status"] == "True" for one in conditions)

    eventually(lambda: not suspended())
    report(a="succeeded", b="ready")
    eventually(is_ready)  # Kueue handles the quota of ended Jobs first
    report(a="", b="")
    search.job("reclaims", gpus=8)
    eventually(suspended)
    eventually(lambda: search.running("reclaims") == 1)


def test_the_group_of_a_queued_leader_worker_set_does_not_grow(
    vision: Team, custom_kinds: KubernetesClient
) -> None:
    """Older releases of Kueue start the added pods without counting them (kubernetes-sigs/kueue#13279)."""
    wanted: Object = {
        "apiVersion": LEADER_WORKER_SET,
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": a_template()}},
    }
    # Kueue and the quota controller notice a new CRD after some seconds.
    eventually(lambda: admitted(vision.client, wanted) != {})
    vision.client.create(wanted)
    with pytest.raises(Refused, match="queue-group-size"):
        vision.client.merge({**wanted, "spec": {"leaderWorkerTemplate": {"size": 3}}})
    vision.client.merge({**wanted, "spec": {"replicas": 2}})


def test_pods_of_a_waiting_leader_worker_set_cannot_leave_it(
    vision: Team, search: Team, custom_kinds: KubernetesClient
) -> None:
    """Kueue starts a pod of a LeaderWorkerSet without quota if it does not find the StatefulSet of the pod."""
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    wanted: Object = {
        "apiVersion": LEADER_WORKER_SET,
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": a_template()}},
    }
    # Kueue and the quota controller notice a new CRD after some seconds.
    eventually(lambda: PARENT in str(admitted(vision.client, wanted)))
    live = vision.client.create(wanted)
    template = live["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    labels = {SET_NAME: "attempt", "app": "attempt"}
    template["metadata"]["labels"] |= labels
    template["spec"]["restartPolicy"] = "Always"
    # The controller of LeaderWorkerSets, which the sandbox does not run, makes the leader's pod the owner. Kueue
    # does not read the owner.
    owner = custom_kinds.get("v1", "ConfigMap", "kube-root-ca.crt", "vision")
    assert owner is not None
    of_pod = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": owner["metadata"]["uid"]}
    custom_kinds.create(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "name": "attempt-0",
                "namespace": "vision",
                "labels": labels,
                "ownerReferences": [of_pod],
            },
            "spec": {
                "selector": {"matchLabels": {"app": "attempt"}},
                "template": template,
                "serviceName": "attempt",
            },
        }
    )

    path = "/apis/apps/v1/namespaces/vision/statefulsets/attempt-0"

    def gates() -> list[Object] | None:
        pod = custom_kinds.get("v1", "Pod", "attempt-0-0", "vision")
        return None if pod is None else pod["spec"].get("schedulingGates", [])

    try:
        eventually(gates)
        for kind, name in (("Pod", "attempt-0-0"), ("StatefulSet", "attempt-0")):
            for metadata in ({"labels": {SET_NAME: "of-nobody"}}, {"ownerReferences": None}):
                with pytest.raises(Refused, match=r"queue-pod-owner: .* do not change its labels"):
                    vision.client.merge(a_change(kind, name, metadata))
            vision.client.merge(a_change(kind, name, {"labels": {"mine": "true"}}))
        larger = a_change(
            "StatefulSet", "attempt-0", {}, spec={"template": {"spec": {"nodeSelector": {"a": "b"}}}}
        )
        with pytest.raises(Refused, match="queue-owned"):
            vision.client.merge(larger)
        with pytest.raises(Refused, match="queue-orphans"):
            vision.client._connection.request("DELETE", path, "deleting", {"propagationPolicy": "Orphan"})
        assert gates()
    finally:
        vision.client._connection.request("DELETE", path, "deleting", {"propagationPolicy": "Background"})
        custom_kinds.delete(live)
        eventually(lambda: gates() is None)


def refusal(client: KubernetesClient, wanted: Object) -> str:
    try:
        client.create(wanted, dry_run=True)
    except Refused as refused:
        return refused.message
    return ""


def test_the_clusters_of_a_ray_service_are_queued_one_by_one(
    vision: Team, search: Team, custom_kinds: KubernetesClient
) -> None:
    # KubeRay passes `suspend` of a RayService on only when it creates a RayCluster (ray-project/kuberay#4841).
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    group = {"replicas": 1, "minReplicas": 1, "maxReplicas": 1, "groupName": "gpu", "rayStartParams": {}}
    config: Object = {
        "headGroupSpec": {"rayStartParams": {}, "template": a_template()},
        "workerGroupSpecs": [{**group, "template": a_template()}],
    }
    wanted: Object = {
        "apiVersion": RAY,
        "kind": "RayService",
        "metadata": {"name": "chat", "namespace": "vision"},
        "spec": {"rayClusterConfig": config},
    }
    # Kueue and the quota controller notice a new CRD after some seconds.
    eventually(lambda: admitted(vision.client, wanted) != {})
    alone = {**wanted, "kind": "RayCluster", "spec": config}
    eventually(lambda: admitted(vision.client, alone).get("spec", {}).get("suspend") is True)
    service = vision.client.create(wanted)
    assert "suspend" not in service["spec"]["rayClusterConfig"]
    owner = {"apiVersion": RAY, "kind": "RayService", "name": "chat", "uid": service["metadata"]["uid"]}
    for name in ("chat-first", "chat-second"):
        cluster: Object = {
            "apiVersion": RAY,
            "kind": "RayCluster",
            "metadata": {
                "name": name,
                "namespace": "vision",
                "labels": service["metadata"]["labels"],
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": config,
        }
        assert custom_kinds.create(cluster)["spec"]["suspend"] is True
    eventually(lambda: len(of_object(custom_kinds, "RayCluster")) == 2)
    assert not of_object(custom_kinds, "RayService")
    started = {**cluster, "metadata": {"name": "chat-first", "namespace": "vision"}, "spec": {"suspend": False}}
    with pytest.raises(Refused, match="queue-start"):
        vision.client.merge(started)

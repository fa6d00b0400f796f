"""Fields of workload objects that affect requests, drains, restarts and placement."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.test_team_workloads import (
    ADDONS,
    EKS,
    IMAGE,
    JOB,
    LARGE,
    RAY,
    RUN,
    SERVICE,
    manifest,
    recorded,
)
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import Recorded, record_platform

NEAR = "kueue.x-k8s.io/podset-preferred-topology"
LEVEL = "topology.k8s.aws/network-node-layer-3"
GROUP = "kueue.x-k8s.io/podset-group-name"


@pytest.fixture(scope="module")
def found() -> Recorded:
    """Record the resources of a workload of each kind, with queues and a topology."""
    return recorded()


@pytest.fixture(scope="module")
def few() -> Recorded:
    """Record the resources of a batch job that runs once, and of four services: one with one replica, one with
    autoscaling, one with a route, and one with two replicas on several nodes each.
    """
    one = {"name": "one", "pool": "train", "image": IMAGE, "gpus": 4, "run_as_user": 1000, "startup": "12s"}
    scaled = {**one, "name": "scaled", "autoscaling": {"max_replicas": 2, "query": "q", "threshold": 1}}
    whole = {**one, "name": "open", "route": {"gateway": "edge/public"}}
    return record_platform(
        environment(
            pool(count={"desired": 10}, zones=["us-east-2a"]),
            cluster=EKS,
            addons=ADDONS,
            teams=[
                team(
                    quota={"gpus": 80},
                    ingress=[{"namespace": "envoy-gateway-system", "ports": [8080]}],
                    inference_services=[one, scaled, whole, {**LARGE, "replicas": 2}],
                    batch_jobs=[{**RUN, "name": "sweep", "replicas": 5, "parts": 3, "retries": 4}],
                )
            ],
        )
    )


def has(program: Recorded, kind: str, name: str) -> bool:
    return any(
        one.inputs.get("kind") == kind and one.inputs["metadata"]["name"] == name for one in program.resources
    )


def selects(selector: dict[str, str], template: dict[str, Any]) -> bool:
    return selector.items() <= template["metadata"]["labels"].items()


# -- requests ---------------------------------------------------------------------------------------------


def test_a_route_leads_from_its_gateway_to_the_port_of_the_service_and_its_pods(found: Recorded) -> None:
    route, service = manifest(found, "HTTPRoute", "chat"), manifest(found, "Service", "chat")
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert route["metadata"]["namespace"] == service["metadata"]["namespace"] == "vision"
    assert route["spec"]["parentRefs"] == [{"name": "public", "namespace": "edge"}]
    assert route["spec"]["hostnames"] == ["chat.example.com"]
    (rule,) = route["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/v1"}}]
    (port,) = service["spec"]["ports"]
    assert rule["backendRefs"] == [{"name": "chat", "port": port["port"]}]
    template = manifest(found, "Deployment", "chat")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert [one["containerPort"] for one in container["ports"]] == [port["port"]]
    assert selects(service["spec"]["selector"], template)


def test_a_route_without_a_host_has_all_hosts_of_its_gateway(few: Recorded) -> None:
    spec = manifest(few, "HTTPRoute", "open")["spec"]
    assert "hostnames" not in spec  # an empty list would also be valid and match all hosts
    assert spec["rules"][0]["matches"][0]["path"]["value"] == "/"


def test_a_service_pod_stops_after_traffic_has_moved_away(found: Recorded, few: Recorded) -> None:
    for program, name in ((found, "chat"), (few, "one")):
        pod = manifest(program, "Deployment", name)["spec"]["template"]["spec"]
        waits = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert 0 < waits <= pod["terminationGracePeriodSeconds"] / 2
    group = manifest(few, "LeaderWorkerSet", "large")["spec"]["leaderWorkerTemplate"]
    assert "lifecycle" in group["leaderTemplate"]["spec"]["containers"][0]
    assert "lifecycle" not in group["workerTemplate"]["spec"]["containers"][0]


def test_a_multi_node_service_selects_only_leaders(few: Recorded) -> None:
    selector = manifest(few, "Service", "large")["spec"]["selector"]
    # LeaderWorkerSet sets this label on its pods. The leader has the value 0.
    assert selector == {"app.kubernetes.io/name": "large", "leaderworkerset.sigs.k8s.io/worker-index": "0"}


def test_a_rollout_fails_only_after_a_node_and_a_model_could_start(found: Recorded, few: Recorded) -> None:
    deadlines = [manifest(few, "Deployment", "one"), manifest(found, "Deployment", "chat")]
    (short, long) = (one["spec"]["progressDeadlineSeconds"] for one in deadlines)
    startup = 600 - 12  # difference between the startup times of the two services, in seconds
    assert short > 600
    assert startup - 5 <= long - short <= startup + 5


def test_probes_allow_slow_starts_and_restart_only_started_copies(
    found: Recorded,
    few: Recorded,
) -> None:
    (container,) = manifest(found, "Deployment", "chat")["spec"]["template"]["spec"]["containers"]
    asked = {"path": "/healthz", "port": 8080}
    startup, readiness, liveness = (container[f"{name}Probe"] for name in ("startup", "readiness", "liveness"))
    assert [one["httpGet"] for one in (startup, readiness, liveness)] == [asked] * 3
    assert startup["failureThreshold"] * startup["periodSeconds"] == 600
    assert liveness["failureThreshold"] * liveness["periodSeconds"] == 300
    assert [one["timeoutSeconds"] for one in (startup, readiness, liveness)] == [5, 5, 30]
    (short,) = manifest(few, "Deployment", "one")["spec"]["template"]["spec"]["containers"]
    assert short["startupProbe"]["failureThreshold"] * short["startupProbe"]["periodSeconds"] >= 12


# -- drains -----------------------------------------------------------------------------------------------


def test_a_drain_takes_one_copy_at_a_time(found: Recorded, few: Recorded) -> None:
    budget = manifest(found, "PodDisruptionBudget", "chat")
    assert budget["apiVersion"] == "policy/v1"
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert selects(
        budget["spec"]["selector"]["matchLabels"], manifest(found, "Deployment", "chat")["spec"]["template"]
    )
    # If a worker is evicted, its whole replica restarts, so the budget also counts workers.
    of_copies = manifest(few, "PodDisruptionBudget", "large")["spec"]["selector"]["matchLabels"]
    copies = manifest(few, "LeaderWorkerSet", "large")["spec"]["leaderWorkerTemplate"]
    assert selects(of_copies, copies["leaderTemplate"])
    assert selects(of_copies, copies["workerTemplate"])


def test_a_single_copy_has_no_disruption_budget(few: Recorded, found: Recorded) -> None:
    assert not has(few, "PodDisruptionBudget", "one")
    assert not has(found, "PodDisruptionBudget", "large")
    assert has(few, "PodDisruptionBudget", "scaled")


@pytest.mark.parametrize("name", ["chat", "scaled"])
def test_copies_are_spread_over_zones_and_nodes_if_possible(
    found: Recorded,
    few: Recorded,
    name: str,
) -> None:
    template = manifest(found if name == "chat" else few, "Deployment", name)["spec"]["template"]
    spread = template["spec"]["topologySpreadConstraints"]
    assert [one["topologyKey"] for one in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    for one in spread:
        assert (one["maxSkew"], one["whenUnsatisfiable"]) == (1, "ScheduleAnyway")
        assert selects(one["labelSelector"]["matchLabels"], template)


def test_a_single_copy_is_spread_over_nothing(few: Recorded) -> None:
    assert "topologySpreadConstraints" not in manifest(few, "Deployment", "one")["spec"]["template"]["spec"]


@pytest.mark.parametrize("kind", ["Deployment", "LeaderWorkerSet"])
def test_an_update_needs_no_gpu_beyond_those_that_the_service_has(few: Recorded, kind: str) -> None:
    spec = manifest(few, kind, "one" if kind == "Deployment" else "large")["spec"]
    strategy = spec["strategy"]["rollingUpdate"] if kind == "Deployment" else None
    assert (strategy or spec["rolloutStrategy"]["rollingUpdateConfiguration"]) == {
        "maxSurge": 0,
        "maxUnavailable": 1,
    }


# -- across nodes -----------------------------------------------------------------------------------------


def test_a_multi_node_copy_restarts_as_a_whole(few: Recorded) -> None:
    one = manifest(few, "LeaderWorkerSet", "large")
    assert one["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
    assert one["spec"]["replicas"] == 2
    group = one["spec"]["leaderWorkerTemplate"]
    assert (group["size"], group["restartPolicy"]) == (2, "RecreateGroupOnPodRestart")
    (leader,), (worker,) = (group[f"{role}Template"]["spec"]["containers"] for role in ("leader", "worker"))
    assert leader["resources"] == worker["resources"]
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert worker["resources"]["limits"]["vpc.amazonaws.com/efa"] == "4"
    assert (leader["image"], leader["env"]) == (worker["image"], worker["env"])
    # If a program gives up while other pods pull their image, these pods must not restart (lws#726).
    after_start = "leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start"
    assert one["metadata"]["annotations"][after_start] == "true"
    # Only the leader answers requests, so only its container has probes.
    assert "readinessProbe" in leader
    assert not {"readinessProbe", "livenessProbe", "startupProbe", "ports"} & set(worker)


# -- where Kueue starts pods --------------------------------------------------------------------------------


def test_pods_that_train_together_are_placed_close_to_each_other(found: Recorded) -> None:
    job = manifest(found, "Job", "pretrain-job")["spec"]["template"]
    (of_set,) = manifest(found, "JobSet", "pretrain-jobset")["spec"]["replicatedJobs"]
    runtime = manifest(found, "TrainingRuntime", "pretrain-trainjob-")["spec"]["template"]["spec"]
    (of_runtime,) = runtime["replicatedJobs"]
    for template in (job, of_set["template"]["spec"]["template"], of_runtime["template"]["spec"]["template"]):
        assert template["metadata"]["annotations"][NEAR] == LEVEL
    (workers,) = manifest(found, "RayCluster", "ray")["spec"]["workerGroupSpecs"]
    assert workers["template"]["metadata"]["annotations"][NEAR] == LEVEL


def test_leader_and_workers_of_a_copy_are_placed_as_one_group(found: Recorded) -> None:
    """Kueue places the pod sets of leaders and workers independently unless both name the same group."""
    group = manifest(found, "LeaderWorkerSet", "large")["spec"]["leaderWorkerTemplate"]
    for role in ("leaderTemplate", "workerTemplate"):
        annotations = group[role]["metadata"]["annotations"]
        assert (annotations[NEAR], annotations[GROUP]) == (LEVEL, "large")


def test_a_job_that_must_not_spread_is_annotated_only_with_queues(few: Recorded) -> None:
    required = record_platform(
        environment(
            pool(count={"desired": 2}, zones=["us-east-2a"]),
            cluster=EKS,
            queueing={"topology": True},
            teams=[
                team(
                    quota={"gpus": 16},
                    training_jobs=[
                        {**RUN, "name": "pretrain", "gpus": 8, "replicas": 2, "topology": "required"},
                        {**RUN, "name": "alone", "gpus": 8},
                    ],
                )
            ],
        )
    )
    annotations = manifest(required, "Job", "pretrain")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/podset-required-topology"] == LEVEL
    assert NEAR not in annotations
    assert "podset-" not in str(manifest(required, "Job", "alone"))
    assert "podset-" not in str([dict(one.inputs) for one in few.resources])


# -- how jobs end and restart ---------------------------------------------------------------------------------


def test_a_notebook_ends_when_nobody_uses_it_and_at_its_deadline(found: Recorded) -> None:
    spec = manifest(found, "CronJob", "lab")["spec"]
    assert spec["suspend"] is True
    job = spec["jobTemplate"]["spec"]
    assert (job["activeDeadlineSeconds"], job["backoffLimit"]) == (12 * 3600, 0)
    pod = job["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    command = pod["containers"][0]["command"]
    assert "--ServerApp.shutdown_no_activity_timeout=3600" in command
    assert "--MappingKernelManager.cull_idle_timeout=3600" in command
    assert "--MappingKernelManager.cull_connected=True" in command
    assert "--TerminalManager.cull_inactive_timeout=3600" in command
    assert "--ip=127.0.0.1" in command


def test_each_part_of_a_batch_job_has_its_own_attempts_and_none_stops_the_others(few: Recorded) -> None:
    spec = manifest(few, "Job", "sweep")["spec"]
    assert spec["completionMode"] == "Indexed"
    assert (spec["completions"], spec["parallelism"]) == (
        3,
        3,
    )  # all parts may run at the same time
    assert spec["backoffLimitPerIndex"] == 4
    assert spec["maxFailedIndexes"] == 3
    assert "backoffLimit" not in spec
    assert spec["activeDeadlineSeconds"] == 24 * 3600
    lost, stop = spec["podFailurePolicy"]["rules"]
    assert lost["action"] == "Ignore"
    assert [one["type"] for one in lost["onPodConditions"]] == ["DisruptionTarget", "TerminatedByKueue"]
    assert (stop["action"], stop["onExitCodes"]["values"]) == ("FailJob", [126, 127])
    # A pod failure policy has no effect on pods that restart in place, and Kubernetes refuses the combination.
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_a_training_job_has_its_attempts_by_each_api(found: Recorded) -> None:
    retries, pods = 3, JOB["replicas"]
    job = manifest(found, "Job", "pretrain-job")["spec"]
    # If one pod fails, all pods fail, so each retry allows as many failures as there are pods.
    assert job["backoffLimit"] == retries * pods
    assert job["podReplacementPolicy"] == "Failed"
    assert job["activeDeadlineSeconds"] == 24 * 3600
    job_set = manifest(found, "JobSet", "pretrain-jobset")["spec"]
    runtime = manifest(found, "TrainingRuntime", "pretrain-trainjob-")["spec"]["template"]["spec"]
    for one in (job_set, runtime):
        assert one["failurePolicy"]["maxRestarts"] == retries
        assert one["failurePolicy"]["restartStrategy"] == "BlockingRecreate"
        (group,) = one["replicatedJobs"]
        spec = group["template"]["spec"]
        assert (spec["backoffLimit"], spec["completions"], spec["parallelism"]) == (0, pods, pods)
        assert spec["activeDeadlineSeconds"] == 24 * 3600
        assert spec["podFailurePolicy"]["rules"][0]["action"] == "FailJob"
    assert runtime["failurePolicy"]["rules"] == job_set["failurePolicy"]["rules"]
    train = manifest(found, "TrainJob", "pretrain-trainjob")["spec"]
    assert train["trainer"] == {"numNodes": pods, "numProcPerNode": JOB["gpus"]}


# -- claims and the network between nodes -----------------------------------------------------------------------


@pytest.mark.parametrize("via", ["device-plugin", "dranet"])
def test_pods_that_claim_all_gpus_of_an_eks_node_have_its_efa_interfaces(via: str) -> None:
    """NCCL would use TCP without the EFA interfaces."""
    program = record_platform(  # a p5.48xlarge has 32 EFA interfaces
        environment(
            pool(
                machine_type="p5.48xlarge",
                count={"desired": 2},
                zones=["us-east-2a"],
                sharing={"mode": "dra"},
                network={"via": via},
            ),
            cluster={**EKS, "kubernetes": "1.36"},
            teams=[
                team(
                    quota={"devices": {"gpu.nvidia.com": 16}},
                    claims=[{"name": "eight", "count": 8}, {"name": "four", "count": 4}],
                    training_jobs=[
                        {**RUN, "name": "pretrain", "claim": "eight", "replicas": 2},
                        {**RUN, "name": "small", "claim": "four"},
                    ],
                )
            ],
        )
    )
    pod = manifest(program, "Job", "pretrain")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "FI_PROVIDER", "value": "efa"} in container["env"]
    claims = [one["resourceClaimTemplateName"] for one in pod["resourceClaims"]]
    if via == "device-plugin":
        assert claims == ["eight"]
        assert container["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"
    else:
        assert claims == ["eight", "train-nics"]
        assert sorted(one["name"] for one in container["resources"]["claims"]) == ["eight", "train-nics"]
        (request,) = manifest(program, "ResourceClaimTemplate", "train-nics")["spec"]["spec"]["devices"][
            "requests"
        ]
        assert request["exactly"]["deviceClassName"] == "efa.networking.k8s.aws"
        assert request["exactly"]["count"] == 32
    small = manifest(program, "Job", "small")["spec"]["template"]["spec"]
    assert "/efa" not in str(small)
    assert "FI_PROVIDER" not in str(small)
    assert [one["resourceClaimTemplateName"] for one in small["resourceClaims"]] == ["four"]


def test_a_ray_cluster_scales_by_nobody_but_the_stack_file(found: Recorded) -> None:
    spec = manifest(found, "RayCluster", "ray")["spec"]
    assert spec["enableInTreeAutoscaling"] is False
    (workers,) = spec["workerGroupSpecs"]
    declared = RAY["workers"][0]["replicas"]
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (declared,) * 3
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    assert SERVICE["replicas"] == manifest(found, "ScaledObject", "chat")["spec"]["minReplicaCount"]


def ray_workers(pool_fields: dict[str, Any], quota: dict[str, int], **fields: Any) -> dict[str, Any]:
    """Return the manifest of the workers of a Ray cluster whose only pool has these fields."""
    workers = {"name": "w", "pool": "train", **fields}
    cluster = {"name": "ray", "image": "registry.example.com/ray:1", "version": "2.49.0", "head": {}}
    own = team(quota=quota, ray_clusters=[{**cluster, "workers": [workers]}])
    stack = environment(
        pool(machine_type="g6.2xlarge", zones=["us-east-2a"], **{"workload": "inference", **pool_fields}),
        cluster={"provider": "eks", "name": "ml", "region": "us-east-2"},
        addons={"kuberay": "install"},
        teams=[own],
    )
    (found,) = record_platform(stack).one("RayCluster", "ray").inputs["spec"]["workerGroupSpecs"]
    return found


def test_the_shared_memory_of_ray_workers_holds_their_object_store() -> None:
    # Ray's object store takes 30 % of the memory, and moves to /tmp if /dev/shm is smaller (kuberay#2640).
    def volumes(**fields: str) -> Any:
        spec = ray_workers({}, {"gpus": 1}, memory="16Gi", **fields)["template"]["spec"]
        return [one["emptyDir"] for one in spec["volumes"]]

    assert volumes() == [{"medium": "Memory", "sizeLimit": "16Gi"}]
    assert volumes(shared_memory="2Gi") == [{"medium": "Memory", "sizeLimit": "2Gi"}]


def test_ray_workers_leave_the_shared_memory_of_the_mps_daemon_in_place() -> None:
    # KubeRay mounts its own /dev/shm unless the object store has another directory.
    found = ray_workers({"sharing": {"mode": "mps", "replicas": 2}}, {"shared": 1})
    assert found["rayStartParams"] == {"num-gpus": "1", "plasma-directory": "/tmp"}
    assert "plasma-directory" not in ray_workers({}, {"gpus": 1})["rayStartParams"]


def test_a_deployment_waits_longer_than_the_default_for_a_new_node() -> None:
    own = team(quota={"gpus": 8}, workloads=[{"name": "web", "pool": "train", "gpus": 1, "replicas": 1}])
    deployment = record_platform(environment(pool(), teams=[own])).one("Deployment", "web")
    assert deployment.inputs["spec"]["progressDeadlineSeconds"] > 600

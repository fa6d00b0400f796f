"""No mandatory rule refuses the objects that the program creates for teams' declared workloads, on any kind of
pool.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.guide.manifests import manifests
from gpu_platform.planning.queues import queue_of
from gpu_platform.stack.loaded import plan_platform
from policies import evaluate
from policies._rule import Level
from tests.components.gke.gke_forms import CLUSTER
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import Recorded, record_platform

TODAY = datetime.date(2026, 11, 28)
EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
ADDONS = ("jobset", "trainer", "kuberay", "leaderworkerset")
KARPENTER = {"karpenter.sh/do-not-disrupt": "true"}
CLUSTER_AUTOSCALER = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
KEEPING = {*KARPENTER, *CLUSTER_AUTOSCALER}
ANYWHERE = "kueue.x-k8s.io/podset-unconstrained-topology"

GKE = {
    **CLUSTER,
    "create": {"system": {"min": 3, "max": 3}},
}  # topologies require a fixed number of system nodes
FIXED, RANGE = {"desired": 8}, {"desired": 0, "max": 8}
POOLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "managed": (EKS, {"count": FIXED, "zones": ["us-east-2a"]}),
    "managed-autoscaled": (EKS, {"count": {"min": 0, **RANGE}, "zones": ["us-east-2a"]}),
    "managed-owners-autoscaler": (
        {**EKS, "parts": {"cluster_autoscaler": "present"}},
        {"count": {"min": 0, **RANGE}, "zones": ["us-east-2a"]},
    ),
    "karpenter": (EKS, {"count": RANGE, "zones": ["us-east-2a"], "provisioner": "karpenter"}),
    "gke": (GKE, {"machine_type": "a2-highgpu-8g", "count": FIXED, "zones": ["us-central1-a"]}),
    "gke-autoscaled": (
        GKE,
        {"machine_type": "a2-highgpu-8g", "count": {"min": 0, **RANGE}, "zones": ["us-central1-a"]},
    ),
    "gke-queued": (
        GKE,
        {
            "machine_type": "a4-highgpu-8g",
            "count": RANGE,
            "zones": ["us-central1-a"],
            "capacity": {"type": "flex-start", "queued": True},
        },
    ),
    "sandbox": ({"provider": "sandbox"}, {"count": FIXED}),
    "sandbox-autoscaled": ({"provider": "sandbox"}, {"count": {"min": 0, **RANGE}}),
}
"""For each kind of pool, a cluster and the fields in which the pool differs from a pool with one p4de.24xlarge
node.
"""
FIXED_POOLS = ("managed", "gke", "sandbox")
QUEUES: dict[str, dict[str, Any]] = {
    "without queues": {},
    "queues": {"queueing": {"topology": False}},
    "queues with topology": {"queueing": {"topology": True}},
}
GPU = "requests.nvidia.com/gpu"
PURPOSES = ("training", "development")
CASES = [
    (kind, queues, purpose)
    for kind, queues, purpose in itertools.product(POOLS, QUEUES, PURPOSES)
    if (kind in FIXED_POOLS or queues != "queues with topology")
    and (kind != "gke-queued" or (queues == "queues" and purpose == "training"))
]


def entries(*, services: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Return declared workloads of every kind, some with one pod and some with several."""
    pods = {"pool": "train", "image": "registry.example.com/a/b:1", "run_as_user": 1000}
    run = {**pods, "command": ["run"], "deadline": "2h"}
    jobs = {
        "training_jobs": [
            {**run, "name": f"{api}-{replicas}", "api": api, "gpus": 8, "replicas": replicas}
            for api in ("job", "jobset", "trainjob")
            for replicas in (1, 2)
        ],
        "batch_jobs": [
            {**run, "name": "one", "gpus": 1, "parts": 4},
            {**run, "name": "parts", "gpus": 4, "parts": 8, "replicas": 2},
            {**run, "name": "nightly", "gpus": 1, "replicas": 2, "schedule": "0 3 * * *"},
        ],
        "notebooks": [{"name": "lab", "pool": "train", "gpus": 1, "run_as_user": 1000}],
    }
    return jobs | (
        {
            "inference_services": [
                {**pods, "name": "chat", "gpus": 2, "replicas": 2},
                {**pods, "name": "large", "gpus": 8, "nodes": 2},
            ],
            "ray_clusters": [
                {
                    "name": "ray",
                    "image": pods["image"],
                    "version": "2.50.0",
                    "run_as_user": 1000,
                    "head": {},
                    "workers": [{"name": "gpu", "pool": "train", "gpus": 4, "replicas": 2}],
                }
            ],
            "workloads": [{"name": "plain", "pool": "train", "gpus": 1, "replicas": 2, "cpu": 2, "memory": "8Gi"}],
        }
        if services
        else {}
    )


def platform(kind: str, queues: str, purpose: str, **declared: Any) -> dict[str, Any]:
    cluster, fields = POOLS[kind]
    return environment(
        pool(**{**fields, "workload": purpose}),
        cluster=cluster,
        addons=dict.fromkeys(ADDONS, "present" if cluster["provider"] == "sandbox" else "install"),
        teams=[team(quota={"gpus": 64}, members=["group:a@example.com"], **declared)],
        **QUEUES[queues],
    )


def declared_on(kind: str, queues: str, purpose: str = "training") -> Recorded:
    return record_platform(platform(kind, queues, purpose, **entries(services=kind != "gke-queued")))


def mandatory(records: list[dict[str, Any]]) -> list[str]:
    report = evaluate(records, {}, TODAY)
    return [f"{one.rule}: {one}" for one in report.violations if one.level is Level.MANDATORY]


@pytest.mark.parametrize(
    ("kind", "queues", "purpose"),
    [
        pytest.param(kind, queues, purpose, marks=() if purpose == "training" else pytest.mark.long)
        for kind, queues, purpose in CASES
    ],
)
def test_no_mandatory_rule_refuses_declared_entries(kind: str, queues: str, purpose: str) -> None:
    assert mandatory([one.to_json() for one in declared_on(kind, queues, purpose).resources]) == []


@pytest.mark.parametrize(
    ("kind", "queues"), [(kind, queues) for kind, queues, purpose in CASES if purpose == "training"]
)
def test_no_mandatory_rule_refuses_examples_of_guides(kind: str, queues: str) -> None:
    plan = plan_platform(platform(kind, queues, "training"), "test")
    assert plan.kind == "environment"
    (guide,), (team,) = plan.guides, plan.teams
    examples = manifests(guide, team, queue_of(team.namespace, plan.queues.teams if plan.queues else ()))
    assert {"training", "batch"} <= examples.keys()
    records: list[dict[str, Any]] = [one.to_json() for one in declared_on(kind, queues).resources]
    for name, objects in examples.items():
        for one in objects:
            version = one["apiVersion"]
            type_ = f"kubernetes:{version if '/' in version else f'core/{version}'}:{one['kind']}"
            urn = f"urn:pulumi:x::ml::{type_}::{name}-{one['kind']}"
            records.append({"urn": urn, "type": type_, "name": name, "inputs": one})
    assert mandatory(records) == []


def pod_annotations(found: Recorded, kind: str, name: str) -> dict[str, str]:
    """Return the annotations of an object's pods. All its pod templates must have equal annotations."""
    inputs = found.one(kind, name).inputs
    each = [one.get("annotations", {}) for one in _pod_metadata(inputs)]
    assert each
    assert all(one == each[0] for one in each)
    return each[0]


def _pod_metadata(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, Mapping):
        if "containers" in node.get("spec", {}):
            yield dict(node["metadata"])
        for value in node.values():
            yield from _pod_metadata(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _pod_metadata(value)


ENDING = [("Job", "job-2"), ("JobSet", "jobset-1"), ("Job", "parts"), ("CronJob", "nightly"), ("CronJob", "lab")]


@pytest.mark.parametrize("purpose", ["training", "development", "inference"])
@pytest.mark.parametrize(
    ("pool_kind", "keep"),
    [
        ("karpenter", KARPENTER),
        ("sandbox-autoscaled", KARPENTER),
        ("gke-autoscaled", CLUSTER_AUTOSCALER),
        ("managed-autoscaled", CLUSTER_AUTOSCALER),
        ("managed-owners-autoscaler", CLUSTER_AUTOSCALER),
    ],
)
def test_work_that_ends_keeps_what_scales_its_pool_from_its_nodes(
    pool_kind: str, keep: dict[str, str], purpose: str
) -> None:
    found = declared_on(pool_kind, "queues", purpose)
    for kind, name in ENDING:
        annotations = pod_annotations(found, kind, name)
        assert {key: value for key, value in annotations.items() if key in KEEPING} == keep
    assert not KEEPING & pod_annotations(found, "Deployment", "chat").keys()


@pytest.mark.parametrize("pool_kind", ["gke-autoscaled", "karpenter"])
def test_examples_of_guides_and_active_checks_keep_their_nodes(pool_kind: str) -> None:
    plan = plan_platform({**platform(pool_kind, "queues", "training"), "validation": {"burn_in": {}}}, "test")
    assert plan.kind == "environment"
    assert plan.burn_in is not None
    keep = plan.pools[0].keeping_annotations
    assert keep
    examples = [one for one in plan.guides[0].examples if one.kind != "inference"]
    checks = [pod for one in plan.burn_in.pools for pod in (one.alone, one.together) if pod is not None]
    assert examples
    assert checks
    for one in (*examples, *checks):
        assert keep.items() <= one.annotations.items()


@pytest.mark.parametrize("pool_kind", FIXED_POOLS)
def test_jobs_on_pools_of_fixed_size_keep_no_nodes(pool_kind: str) -> None:
    found = declared_on(pool_kind, "queues")
    assert [name for kind, name in ENDING if KEEPING & pod_annotations(found, kind, name).keys()] == []


def test_parts_of_a_batch_job_run_on_any_nodes_of_a_topology() -> None:
    found = declared_on("managed", "queues with topology")
    assert pod_annotations(found, "Job", "parts")[ANYWHERE] == "true"
    assert pod_annotations(found, "CronJob", "nightly")[ANYWHERE] == "true"
    assert ANYWHERE not in pod_annotations(found, "Job", "one")
    assert ANYWHERE not in pod_annotations(found, "Job", "job-2")  # the pods of this Job must be close together


def test_parts_of_a_batch_job_without_topology_request_none() -> None:
    assert ANYWHERE not in pod_annotations(declared_on("managed", "queues"), "Job", "parts")


@pytest.mark.parametrize("field", ["training_jobs", "batch_jobs", "notebooks"])
def test_deadlines_end_before_a_pod_may_no_longer_keep_its_node(field: str) -> None:
    def problems(kind: str, deadline: str) -> str:
        declared = {field: [{**entries()[field][0], "deadline": deadline}]}
        try:
            plan_platform(platform(kind, "without queues", "training", **declared), "test")
        except BadInput as refused:
            return str(refused)
        return ""

    assert problems("karpenter", "744h") == problems("managed", "745h") == ""
    found = problems("karpenter", "745h")
    assert problems("gke-autoscaled", "745h")
    assert f"teams[0].{field}[0].deadline: found 745h" in found
    assert "write 744h or less" in found


@pytest.mark.parametrize("cluster", [EKS, GKE], ids=["eks", "gke"])
def test_a_team_of_a_cluster_without_gpus_passes_and_has_none(cluster: dict[str, Any]) -> None:
    machine, zone = ("m7i.2xlarge", "us-east-2a") if cluster is EKS else ("n2-standard-16", "us-central1-a")
    nodes = pool(machine_type=machine, count=FIXED, workload="general", zones=[zone])
    stack = environment(nodes, cluster=cluster, teams=[team(quota={"cpu": 32}, members=["group:a@example.com"])])
    records = [one.to_json() for one in record_platform(stack).resources]
    report = evaluate(records, {}, TODAY)
    assert (report.violations, report.not_checked) == ((), ())
    hard = [one["inputs"]["spec"]["hard"] for one in records if one["type"].endswith(":ResourceQuota")]
    assert [one[GPU] for one in hard if GPU in one] == ["0"]

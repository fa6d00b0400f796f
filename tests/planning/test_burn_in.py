"""The active checks that `validation.burn_in` plans, their pods and limits, and the output of `check`."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.burn_in.jobs import job_of
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.burn_in.section import BurnInPlan, BurnInPoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.stack.field_cases import STACKS


def planned(provider: str, *pools: dict[str, Any], burn_in: Any = None, **more: Any) -> EnvironmentPlan:
    stack = dict(STACKS[provider])
    if pools:
        stack["pools"] = list(pools)
    found = plan_platform({**stack, "validation": {"burn_in": burn_in or {}}, **more}, "test")
    assert isinstance(found, EnvironmentPlan)
    return found


def section(plan: EnvironmentPlan) -> BurnInPlan:
    assert plan.burn_in is not None
    return plan.burn_in


def pool_of(plan: EnvironmentPlan, name: str = "train") -> BurnInPoolPlan:
    return next(one for one in section(plan).pools if one.pool == name)


def pool(name: str, machine_type: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "machine_type": machine_type, "count": {"desired": 2}, "workload": "training", **more}


def test_without_the_field_the_plan_has_no_active_checks() -> None:
    plan = plan_platform(STACKS["sandbox"], "test")
    assert isinstance(plan, EnvironmentPlan)
    assert plan.burn_in is None
    assert not [one for one in plan.decisions if one.what == "burn-in"]


def test_gpus_that_are_shared_or_cut_are_skipped_with_the_reason() -> None:
    plan = planned(
        "sandbox",
        pool("train", "p4de.24xlarge"),
        pool("serve", "g4dn.xlarge", sharing={"mode": "time-slicing", "replicas": 4}),
        pool("lab", "p4de.24xlarge", sharing={"mode": "mig", "layout": {"1g.10gb": 7}}),
    )
    assert "could use a GPU while the checks measure it" in pool_of(plan, "serve").skipped
    assert "no NVLink" in pool_of(plan, "lab").skipped
    assert pool_of(plan, "lab").alone is None
    assert pool_of(plan).skipped == ""
    said = {one.subject: one for one in plan.decisions if one.what == "burn-in"}
    assert said["pool serve"].chosen == "no active checks"
    assert said["pool serve"].why.startswith("with time-slicing")


def test_a_stack_without_a_pool_that_can_be_measured_is_refused() -> None:
    with pytest.raises(BadInput, match=r"found active checks, but they can measure no pool \(serve: with mps"):
        planned("sandbox", pool("serve", "g4dn.xlarge", sharing={"mode": "mps", "replicas": 4}))


def test_a_minimum_bandwidth_is_refused_if_no_pool_is_measured() -> None:
    least = {"least": {"all-reduce-nodes": 400}}
    with pytest.raises(BadInput, match=r"least: found all-reduce-nodes, but it cannot .* \(train: pods have no"):
        planned("sandbox", pool("train", "p5.48xlarge"), burn_in=least)
    assert "all-reduce-nodes" in pool_of(planned("eks", burn_in=least)).least


def test_a_timeout_shorter_than_the_program_is_refused() -> None:
    with pytest.raises(BadInput) as caught:
        planned("sandbox", burn_in={"matrix": "19m", "timeout": "20m"})
    [problem] = caught.value.problems
    assert problem.path == "validation.burn_in.timeout"
    fixed = problem.fix.removeprefix("write timeout: ")
    assert planned("sandbox", burn_in={"matrix": "19m", "timeout": fixed})


def test_a_timeout_that_ends_before_the_products_is_refused() -> None:
    with pytest.raises(BadInput, match="a timeout longer than matrix"):
        planned("sandbox", burn_in={"matrix": "30m", "timeout": "20m"})


def test_check_says_how_long_it_takes_and_what_it_costs() -> None:
    [said] = [one for one in planned("eks").decisions if one.what == "burn-in"]
    assert "about 2 min 32 s on each idle node" in said.chosen
    assert " USD per node" in said.chosen
    assert "at most 20 min" in said.chosen
    assert "then pairs of nodes over vpc.amazonaws.com/efa" in said.chosen
    assert "all-reduce-nodes 389 GB/s" in said.why
    longer = planned("eks", burn_in={"matrix": "10m"})
    [said] = [one for one in longer.decisions if one.what == "burn-in"]
    assert "about 11 min 32 s" in said.chosen


def test_limits_are_those_of_the_machine_type_with_their_source() -> None:
    least = pool_of(planned("eks")).least
    assert {measure: limit.gb_per_second for measure, limit in least.items()} == {
        "host-device": 48,
        "device-device": 335,
        "all-reduce": 460,
        "all-reduce-nodes": 389,
    }
    assert "azurehpc-health-checks" in least["all-reduce"].source
    assert pool_of(planned("sandbox", pool("serve", "g6.4xlarge")), "serve").least == {}, (
        "nobody has published a bandwidth for g6.4xlarge"
    )


def test_every_limit_is_of_a_machine_type_of_the_catalogue() -> None:
    catalog = load_catalog()
    used = {
        limit.name
        for machine in catalog.machine_types.values()
        for measure in ("host-device", "device-device", "all-reduce", "all-reduce-nodes")
        if (limit := catalog.burn_in_limit(machine, measure)) is not None
    }
    assert used == set(catalog.burn_in_limits)


def test_pods_use_all_gpus_and_have_the_lowest_priority() -> None:
    plan = planned("sandbox", pool("train", "p4de.24xlarge", gate_nodes="always"))
    found = pool_of(plan).alone
    assert found is not None
    assert found.workload.requests["nvidia.com/gpu"] == "8"
    assert found.workload.priority_class == section(plan).priority_class
    assert section(plan).priority < -10
    tolerated = {taint.key for taint in found.workload.tolerations}
    assert {"nvidia.com/gpu", "node.kubernetes.io/unschedulable"} <= tolerated
    assert any("gpu-unvalidated" in key for key in tolerated)
    assert any("gpu-failed" in key for key in tolerated)


@pytest.mark.parametrize(("policy", "cpu"), [("restricted", "15999m"), ("none", "16000m")])
def test_pods_have_no_whole_cpus_that_the_kubelet_could_not_align_with_all_gpus(policy: str, cpu: str) -> None:
    train = pool("train", "p4de.24xlarge", topology={"policy": policy})
    alone = pool_of(planned("sandbox", train)).alone
    assert alone is not None
    assert alone.workload.cpu == cpu  # 16 CPUs fit one NUMA node, but the 8 GPUs are on two


def test_on_eks_pods_on_two_nodes_request_efa_as_those_of_training_jobs_do() -> None:
    together = pool_of(planned("eks")).together
    assert together is not None
    assert together.workload.requests["vpc.amazonaws.com/efa"] == "32"
    assert together.fabric is not None
    assert together.fabric.env == {"FI_PROVIDER": "efa"}
    assert section(planned("eks")).pod_security == "restricted"
    alone = pool_of(planned("eks")).alone
    assert alone is not None
    assert "vpc.amazonaws.com/efa" not in alone.workload.requests


def test_on_gke_they_have_the_daemon_of_tcpxo_and_the_namespace_admits_it() -> None:
    plan = planned("gke")
    together = pool_of(plan).together
    assert together is not None
    assert together.fabric is not None
    assert together.fabric.sidecar is not None
    assert section(plan).pod_security == "privileged"
    assert section(planned("eks")).pod_security == "restricted"
    job = job_of(section(plan), together, ["a", "b"], "1")[-1]
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert "networking.gke.io/interfaces" in annotations


def test_with_dra_pods_claim_the_gpus_by_a_template_of_the_namespace() -> None:
    plan = planned("sandbox", pool("train", "p5.48xlarge", sharing={"mode": "dra"}))
    found = pool_of(plan)
    assert [(claim.name, claim.device_class, claim.count) for claim in found.claims] == [
        ("burn-in-gpus-train", "gpu.nvidia.com", 8)
    ]
    assert found.alone is not None
    assert found.alone.workload.claims == ("burn-in-gpus-train",)
    assert "nvidia.com/gpu" not in found.alone.workload.requests


def test_without_a_network_between_nodes_the_reason_is_planned() -> None:
    assert pool_of(planned("sandbox")).not_together == "pods have no GPU NICs for traffic between nodes"
    one = {**STACKS["eks"]["pools"][0], "count": {"desired": 1, "max": 1}}
    assert pool_of(planned("eks", one)).not_together == "the pool has at most one node"


def test_jobs_run_on_the_named_nodes_alone_once_and_end() -> None:
    plan = planned("eks")
    together = pool_of(plan).together
    assert together is not None
    service, job = job_of(section(plan), together, ["ip-10-0-0-1.ec2.internal", "ip-10-0-0-2.ec2.internal"], "7")
    assert service["kind"] == "Service"
    assert service["metadata"]["labels"]["gpu-platform.dev/burn-in"] == "7"
    spec = job["spec"]
    assert (spec["completions"], spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (2, 0, 1200)
    assert spec["ttlSecondsAfterFinished"] == 3600
    pod = spec["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [
        ["ip-10-0-0-1.ec2.internal"],
        ["ip-10-0-0-2.ec2.internal"],
    ]
    assert pod["restartPolicy"] == "Never"
    assert pod["automountServiceAccountToken"] is False
    assert len(job["metadata"]["name"]) < 63


def test_pods_have_the_companys_labels_and_the_declared_image() -> None:
    plan = planned("eks", burn_in={"image": "registry.example.com/torch:2.9"}, objects={"labels": {"cost": "ml"}})
    alone = pool_of(plan).alone
    assert alone is not None
    job = job_of(section(plan), alone, ["a"], "1", plan.objects.labels)[-1]
    template = job["spec"]["template"]
    assert template["metadata"]["labels"]["cost"] == "ml"
    assert template["spec"]["containers"][0]["image"] == "registry.example.com/torch:2.9"


def test_limits_in_the_stack_file_replace_the_catalogues() -> None:
    found = pool_of(planned("sandbox", pool("train", "p5.48xlarge"), burn_in={"least": {"all-reduce": 420}})).least
    assert found["all-reduce"].gb_per_second == 420
    assert found["all-reduce"].source == "stack: validation.burn_in.least.all-reduce"
    assert found["host-device"].source.startswith("machine type p5.48xlarge")


@pytest.mark.parametrize(
    "image", ["registry:5000/torch", "torch:latest", "a/torch:main", "torch@sha256:1", "torch:2 x", ""]
)
def test_an_image_that_can_change_is_refused(image: str) -> None:
    with pytest.raises(BadInput, match=r"burn_in\.image"):
        planned("sandbox", burn_in={"image": image})


@pytest.mark.parametrize(
    "image", ["registry:5000/torch:2.9", f"torch@sha256:{'a' * 64}", f"torch:2.9@sha256:{'a' * 64}"]
)
def test_an_image_with_the_tag_of_a_release_or_a_digest_is_taken(image: str) -> None:
    alone = pool_of(planned("sandbox", burn_in={"image": image})).alone
    assert alone is not None
    assert alone.workload.image == image

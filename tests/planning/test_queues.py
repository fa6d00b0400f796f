from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.queues.queue_admission import queue_policy
from gpu_platform.planning.queues.section import QueuesPlan, TeamQueuePlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import PlanMaker, pool, team
from tests.stack.field_cases import STACKS

CUT = pool("lab", workload="development", sharing={"mode": "mig", "layout": {"1g.10gb": 7}})


@pytest.fixture
def queues(make_plan: PlanMaker) -> Any:
    def plan(*pools: dict[str, Any], **rest: Any) -> QueuesPlan:
        queued = make_plan(*pools, **{"queueing": {}, **rest}).queues
        assert queued is not None
        return queued

    return plan


def limits(queue: TeamQueuePlan, resource: str) -> Mapping[str, tuple[str, str, str]]:
    """Return the nominal quota, borrowing limit and lending limit by pool, without pools where all three are 0."""
    return {
        flavor.flavor.rpartition("-")[0] or flavor.flavor: (limit.nominal, limit.borrow, limit.lend)
        for flavor in queue.flavors
        for limit in flavor.limits
        if limit.resource == resource and (limit.nominal, limit.borrow, limit.lend) != ("0", "0", "0")
    }


def plan_of_cloud(cloud: str, pool: Mapping[str, Any] | None = None) -> EnvironmentPlan:
    """Return the plan of a stack with queues on a cloud. `pool` changes fields of its only pool."""
    stack = STACKS[cloud]
    one, granted = {**stack["pools"][0], **(pool or {})}, {**stack["teams"][0], "quota": {"gpus": 8}}
    plan = plan_platform({**stack, "queueing": {}, "pools": [one], "teams": [granted]}, "test")
    assert plan.kind == "environment"
    return plan


def test_without_queueing_there_are_no_queues_and_quotas_are_as_declared(make_plan: PlanMaker) -> None:
    assert make_plan(pool(), teams=[team()]).queues is None


def test_kueue_starts_each_kind_of_job_of_members_with_all_of_its_pods(queues: Any) -> None:
    plan = queues(pool(), teams=[team()])
    frameworks = plan.kueue.config["integrations"]["frameworks"]
    started = {"batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "ray.io/rayjob"}
    assert {*frameworks} >= {*started, "kubeflow.org/pytorchjob", "kubeflow.org/mpijob", "pod"}


def test_ray_services_are_queued_as_their_clusters(queues: Any) -> None:
    # KubeRay 1.7 passes `suspend` on only to a new cluster, so Kueue could not stop a RayService (kuberay#4841).
    plan = queues(pool(), teams=[team()])
    frameworks = plan.kueue.config["integrations"]["frameworks"]
    assert "ray.io/raycluster" in frameworks
    assert "ray.io/rayservice" not in frameworks


def test_a_team_borrows_what_the_pools_have_beyond_its_quota_and_lends_all_of_it(queues: Any) -> None:
    plan = queues(pool(), teams=[team("a", quota={"gpus": 6}), team("b", quota={"gpus": 2})])
    assert [limits(queue, "nvidia.com/gpu") for queue in plan.teams] == [
        {"train": ("6", "2", "6")},
        {"train": ("2", "6", "2")},
    ]


def test_declared_borrowing_and_lending_limits_of_zero_are_listed(queues: Any) -> None:
    plan = queues(pool(), teams=[team("a", quota={"gpus": 6}, queue={"borrow": {}, "lend": {"gpus": 1}})])
    of_pool = plan.teams[0].flavors[1]
    listed = {limit.resource: (limit.nominal, limit.borrow, limit.lend) for limit in of_pool.limits}
    assert listed["nvidia.com/gpu"] == ("6", "0", "1")
    assert set(listed) == {"cpu", "memory", "nvidia.com/gpu"}


def test_a_resource_outside_the_quota_is_not_borrowed_unless_the_stack_says_so(queues: Any) -> None:
    plan = queues(pool(), CUT, teams=[team("a"), team("b", queue={"borrow": {"mig": {"1g.10gb": 3}}})])
    resource = "nvidia.com/mig-1g.10gb"
    assert [limits(queue, resource) for queue in plan.teams] == [{}, {"lab": ("0", "3", "0")}]


def test_nominal_quotas_of_all_teams_together_fit_each_pool(queues: Any) -> None:
    spot, base = pool("spot", count={"desired": 3}), pool("base", count={"desired": 2})
    plan = queues(
        spot, base, teams=[team(f"t{n}", quota={"gpus": units}) for n, units in enumerate((17, 3, 16, 4))]
    )
    sums = {"spot": 0, "base": 0}
    for queue in plan.teams:
        found = limits(queue, "nvidia.com/gpu")
        for name, (nominal, _, _) in found.items():
            sums[name] += int(nominal)
    assert sums == {"spot": 24, "base": 16}


def test_a_gpu_comes_with_its_part_of_the_cpu_and_memory_of_its_node(queues: Any) -> None:
    one, all_gpus = (
        queues(pool(), teams=[team(quota={"gpus": gpus}, queue={"borrow": {}})]).teams[0].flavors[1].limits
        for gpus in (1, 8)
    )
    assert int(one[0].nominal.removesuffix("m")) == int(all_gpus[0].nominal.removesuffix("m")) // 8
    assert int(one[1].nominal.removesuffix("Mi")) == int(all_gpus[1].nominal.removesuffix("Mi")) // 8


def test_borrowed_and_lent_gpus_come_with_their_cpu_and_memory(queues: Any) -> None:
    given = {"borrow": {"gpus": 2}, "lend": {"gpus": 1}}
    plan = queues(pool(), teams=[team("a", quota={"gpus": 4}, queue=given), team("b", quota={"gpus": 4})])
    cpu, memory = plan.teams[0].flavors[1].limits[:2]
    for limit in (cpu, memory):
        amounts = [int(text.rstrip("mMi")) for text in (limit.nominal, limit.borrow, limit.lend)]
        assert amounts == pytest.approx([amounts[2] * 4, amounts[2] * 2, amounts[2]], abs=4)
        assert amounts[2] > 0


def test_pods_without_gpus_use_no_pool_and_stay_within_the_quota(queues: Any) -> None:
    queue = queues(pool(), teams=[team(quota={"gpus": 1, "cpu": 20, "memory": "64Gi"})]).teams[0]
    first = {limit.resource: limit.nominal for limit in queue.flavors[0].limits}
    assert first == {"cpu": "20", "memory": "64Gi", "nvidia.com/gpu": "0"}
    assert queue.flavors[0].flavor == "nodes-without-gpus.topology.gpu-platform.dev"


def test_a_resource_quota_allows_what_the_queue_starts_on_borrowed_quota(queues: Any) -> None:
    plan = queues(pool(), CUT, teams=[team("a", quota={"gpus": 6, "cpu": 1}, queue={"borrow": {"gpus": 2}})])
    ceiling = plan.teams[0].ceiling
    assert (ceiling["requests.nvidia.com/gpu"], ceiling["requests.nvidia.com/mig-1g.10gb"]) == ("8", "0")
    of_gpus = plan.teams[0].flavors[1].limits[0]
    borrowed = int(of_gpus.nominal.removesuffix("m")) + int(of_gpus.borrow.removesuffix("m"))
    assert ceiling["requests.cpu"] == f"{borrowed + 1000}m"
    assert "requests.memory" not in ceiling


def test_the_declared_quota_of_a_team_stays_the_one_that_stacks_add_up(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(), queueing={}, teams=[team("a", quota={"gpus": 6})])
    assert plan.teams[0].quota["requests.nvidia.com/gpu"] == "6"


def test_a_flavor_selects_its_pool_and_tolerates_its_own_taints(
    queues: Any,
) -> None:
    plan = queues(pool(taints=[{"key": "example.com/a", "value": "b", "effect": "NoExecute"}]), teams=[team()])
    flavor = plan.flavors[1]
    assert (flavor.pool, flavor.node_labels) == ("train", {"gpu-platform.dev/pool": "train"})
    assert [taint.key for taint in flavor.taints] == ["nvidia.com/gpu", "example.com/a"]
    assert [taint.key for taint in flavor.tolerations] == ["example.com/a"]


def test_an_autoscaled_pool_disables_topology_for_all_pools(queues: Any) -> None:
    fixed = queues(pool(), teams=[team()])
    assert [topology.levels for topology in fixed.topologies] == [("kubernetes.io/hostname",)]
    assert {flavor.topology for flavor in fixed.flavors} == {"nodes"}
    growing = queues(pool(), pool("more", count={"desired": 1, "max": 2}), teams=[team()])
    assert growing.topologies == ()
    assert {flavor.topology for flavor in growing.flavors} == {None}


@pytest.mark.parametrize(
    ("cloud", "aware"), [("sandbox", True), ("existing", False), ("eks", False), ("gke", False)]
)
def test_desired_nodes_that_an_autoscaler_may_remove_do_not_count_as_existing(cloud: str, aware: bool) -> None:
    removed = plan_of_cloud(cloud, {"count": {"min": 0, "desired": 2, "max": 2}})
    assert removed.queues is not None
    assert bool(removed.queues.topologies) == aware
    fixed = plan_of_cloud(cloud, {"count": {"desired": 2}})
    assert fixed.queues is not None
    assert fixed.queues.topologies


def test_topology_on_an_autoscaled_pool_is_refused_and_its_fix_works() -> None:
    pool = {**STACKS["gke"]["pools"][0], "count": {"min": 0, "desired": 2, "max": 2}}
    stack = {**STACKS["gke"], "queueing": {"topology": True}, "pools": [pool]}
    with pytest.raises(BadInput, match="pool train is autoscaled") as caught:
        plan_platform(stack, "test")
    (problem,) = caught.value.problems
    assert problem.fix == "remove topology, or write only count: {desired: N} in pools"
    plan_platform({**stack, "pools": [{**pool, "count": {"desired": 2}}]}, "test")


def test_the_fix_for_topology_keeps_nodes_on_demand() -> None:
    queued = {"type": "flex-start", "max_run_duration": "24h"}
    pool = {
        **STACKS["gke"]["pools"][0],
        "count": {"desired": 0, "max": 2},
        "capacity": queued,
        "zones": ["us-central1-a"],
    }
    stack = {**STACKS["gke"], "queueing": {"topology": True}, "pools": [pool]}
    with pytest.raises(BadInput, match="pool train is autoscaled") as caught:
        plan_platform(stack, "test")
    assert [one.fix for one in caught.value.problems] == ["remove topology"]


def test_a_changed_immutable_field_renames_a_topology_flavor(queues: Any) -> None:
    before = queues(pool(), teams=[team()]).flavors[1].name
    same = queues(pool(count={"desired": 2}), teams=[team()]).flavors[1].name
    taint = {"key": "example.com/a", "value": "b", "effect": "NoExecute"}
    after = queues(pool(taints=[taint]), teams=[team()]).flavors[1].name
    assert before == same != after


def test_kueue_manages_the_namespaces_of_teams_alone(queues: Any) -> None:
    config = queues(pool(), teams=[team()]).kueue.config
    selector = {"matchExpressions": [{"key": "gpu-platform.dev/team", "operator": "Exists"}]}
    assert (config["managedJobsNamespaceSelector"], config["manageJobsWithoutQueueName"]) == (selector, True)


def test_fair_sharing_uses_only_the_strategy_that_compares_final_shares(queues: Any) -> None:
    strategies = queues(pool()).kueue.config["fairSharing"]["preemptionStrategies"]
    assert strategies == ["LessThanOrEqualToFinalShare"]


def test_without_fair_sharing_and_with_a_shorter_timeout_kueue_is_configured_so(queues: Any) -> None:
    config = queues(pool(), queueing={"fair_sharing": False, "pods_ready_timeout": "90m"}).kueue.config
    assert "fairSharing" not in config
    assert config["waitForPodsReady"]["timeout"] == "5400s"


def test_every_device_class_is_mapped_to_a_quota_of_its_name(queues: Any) -> None:
    plan = queues(
        pool(sharing={"mode": "dra"}),
        device_classes={"large": {"memory": "40Gi"}},
        teams=[team(quota={"devices": {"large": 3}})],
    )
    mapped = plan.kueue.config["resources"]["deviceClassMappings"]
    assert {"name": "large", "deviceClassNames": ["large"]} in mapped
    assert {one["name"] for one in mapped} == set(plan.teams[0].resources) - {"cpu", "memory"}
    assert limits(plan.teams[0], "large") == {"train": ("3", "5", "3")}
    assert plan.topologies == ()


CLAIMING = {
    "nics of gke": (
        "gke",
        {"machine_type": "a4-highgpu-8g", "count": {"desired": 2}, "capacity": {"type": "spot"}},
        "mrdma.google.com",
        "16",
    ),
    "nics of eks": (
        "eks",
        {"machine_type": "p5.48xlarge", "count": {"desired": 2}, "network": {"via": "dranet"}},
        "efa.networking.k8s.aws",
        "64",
    ),
    "channels": (
        "sandbox",
        {"machine_type": "p6e-gb200.36xlarge", "count": {"desired": 2}},
        "compute-domain-default-channel.nvidia.com",
        "2",
    ),
}


@pytest.mark.parametrize(("cloud", "fields", "name", "most"), CLAIMING.values(), ids=CLAIMING.keys())
def test_claimed_devices_are_mapped_and_never_the_limit(
    cloud: str, fields: dict[str, Any], name: str, most: str
) -> None:
    plan = plan_of_cloud(cloud, fields).queues
    assert plan is not None
    mapped = plan.kueue.config["resources"]["deviceClassMappings"]
    assert {"name": name, "deviceClassNames": [name]} in mapped
    (queue,) = plan.teams
    assert list(limits(queue, name).values()) == [(most, "0", "0")]
    assert {len(flavor.limits) for flavor in queue.flavors} == {len(queue.resources)}
    assert not any(name in key for key in queue.ceiling)


ADDED = {
    "gke": ("networking.gke.io.networks/rdma-0.IP", {"machine_type": "g2-standard-48", "count": {"desired": 2}}),
    "eks": ("vpc.amazonaws.com/pod-eni", {"machine_type": "g6.12xlarge", "count": {"desired": 2}}),
}


@pytest.mark.parametrize(("cloud", "added"), ADDED.items(), ids=ADDED.keys())
def test_resources_that_the_cloud_adds_to_pods_keep_no_pod_in_the_queue(
    cloud: str, added: tuple[str, dict[str, Any]]
) -> None:
    resource, fields = added
    plan = plan_of_cloud(cloud, fields).queues
    assert plan is not None
    excluded = plan.kueue.config["resources"]["excludeResourcePrefixes"]
    assert resource.startswith(tuple(excluded))
    assert not any(counted.startswith(tuple(excluded)) for counted in plan.teams[0].resources)


def test_refusing_workloads_without_a_queue_renames_the_queue(queues: Any) -> None:
    refusing = queues(pool(), queueing={"without_queue": "refuse"}, teams=[team()]).teams[0]
    assert (refusing.local_queue, refusing.required) == ("vision", True)
    defaulting = queues(pool(), teams=[team()]).teams[0]
    assert (defaulting.local_queue, defaulting.required) == ("default", False)


def test_preemption_is_on_unless_the_stack_says_never(queues: Any) -> None:
    queue = queues(pool(), teams=[team()]).teams[0]
    assert (queue.within_queue, queue.reclaim) == ("LowerPriority", "Any")
    never = {"within_team": "never", "reclaim": "lower-priority"}
    queue = queues(pool(), queueing={"preemption": never}, teams=[team()]).teams[0]
    assert (queue.within_queue, queue.reclaim) == ("Never", "LowerPriority")


def test_the_chart_listens_on_a_port_that_gkes_control_plane_reaches() -> None:
    plan = plan_of_cloud("gke")
    assert plan.queues is not None
    kueue = plan.queues.kueue
    assert (kueue.install, kueue.repository) == ("helm", "oci://registry.k8s.io/kueue/charts")
    config = json.loads(kueue.values["managerConfig"]["controllerManagerConfigYaml"])
    assert config == kueue.config
    assert config["webhook"]["port"] == kueue.values["webhookService"]["ports"][0]["targetPort"] == 10250


def test_queued_flex_start_pools_get_their_nodes_by_a_provisioning_request() -> None:
    plan = plan_of_cloud(
        "gke", {"capacity": {"type": "flex-start", "queued": True}, "count": {"desired": 0, "max": 4}}
    )
    assert plan.queues is not None
    (check,) = plan.queues.provisioning
    assert (check.request.provisioning_class, check.managed_resources) == (
        "queued-provisioning.gke.io",
        ("nvidia.com/gpu",),
    )
    assert check.request.node_seconds == 7 * 24 * 3600
    assert [flavor.check for flavor in plan.queues.teams[0].flavors] == [None, check.name]


@pytest.mark.parametrize(
    ("cloud", "pools", "levels"),
    [
        ("eks", {}, tuple(f"topology.k8s.aws/network-node-layer-{n}" for n in (1, 2, 3))),
        ("eks", {"machine_type": "g6.48xlarge"}, ()),
        (
            "gke",
            {"placement": {"type": "compact"}},
            tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock")),
        ),
        ("gke", {"placement": {"type": "none"}}, ()),
    ],
)
def test_training_pools_have_the_levels_of_their_clouds_network(
    cloud: str, pools: dict[str, Any], levels: tuple[str, ...]
) -> None:
    plan = plan_of_cloud(cloud, {"count": {"desired": 2}, **pools})
    assert plan.queues is not None
    topology = {one.name: one.levels for one in plan.queues.topologies}[plan.queues.flavors[1].topology or ""]
    assert topology == (*levels, "kubernetes.io/hostname")


@pytest.mark.parametrize(
    ("declared", "place", "words"),
    [
        ({"queueing": None, "teams": [team(queue={})]}, "teams[0].queue", "queue only with queueing"),
        ({"queueing": {"kueue": "present"}}, "queueing.kueue", "present on a sandbox"),
        ({"overcommit": 2.0}, "overcommit", "2 with queueing"),
        ({"teams": [team(queue={"lend": {"gpus": 2}})]}, "teams[0].queue.lend.gpus", "at most 1"),
        ({"teams": [team(queue={"borrow": {"gpus": 8}})]}, "teams[0].queue.borrow.gpus", "at most 7"),
        ({"teams": [team(queue={"borrow": {"shared": 1}})]}, "teams[0].queue.borrow.shared", "no pool offers it"),
        ({"teams": [team(queue={"lend": {"shared": 1}})]}, "teams[0].queue.lend.shared", "no quota for it"),
        (
            {"teams": [team("a", quota={"gpus": 6}), team("b", quota={"gpus": 4})]},
            "teams[0].quota.gpus",
            "10 nvidia.com/gpu in all quotas (a 6, b 4)",
        ),
        (
            {"teams": [team("a", quota={"gpus": 6}), team("b", quota={"gpus": 4})]},
            "teams[0].quota.gpus",
            "teams borrow unused quota of other teams",
        ),
    ],
)
def test_what_no_queue_can_have_is_refused_at_its_place(
    make_plan: PlanMaker, declared: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(BadInput) as refused:
        make_plan(pool(), **{"queueing": {}, **declared})
    (problem,) = refused.value.problems
    assert problem.path == place
    assert words in str(problem)


@pytest.mark.parametrize("mode", ["time-slicing", "mps"])
def test_a_container_with_several_gpus_must_name_a_pool_with_shares(queues: Any, mode: str) -> None:
    sharing = {"mode": mode, "replicas": 4, "rename": False}
    shared = pool("lab", workload="development", machine_type="g6.12xlarge", sharing=sharing)
    plan = queues(pool(), shared, teams=[team(quota={"gpus": {"train": 6, "lab": 4}})])
    messages = [rule.message for rule in queue_policy(plan.teams[0]).rules if rule.id == "queue-pool"]
    assert [message.partition(":")[0] for message in messages] == [
        "pods with more than 8 nvidia.com/gpu do not fit on any node of train, where the queue may start them",
        "containers with more than 1 nvidia.com/gpu do not fit on any node of lab, where the queue may start them",
    ]
    assert messages[1].endswith("{gpu-platform.dev/pool: train}")


def new_gke(system: Mapping[str, Any], **queueing: Any) -> EnvironmentPlan:
    """Return the plan of a new GKE cluster with queues and the given range of system nodes."""
    stack = STACKS["gke"]
    create = {"api_access": ["198.51.100.0/24"], "system": system}
    pool = {**stack["pools"][0], "count": {"desired": 2}}
    plan = plan_platform(
        {**stack, "cluster": {**stack["cluster"], "create": create}, "queueing": queueing, "pools": [pool]}, "test"
    )
    assert plan.kind == "environment"
    return plan


@pytest.mark.parametrize(
    ("system", "aware"),
    [
        ({}, "yes"),
        ({"max": 6}, "no"),
        ({"min": 4, "max": 4}, "no"),
        ({"min": 3, "max": 3}, "yes"),
        ({"min": 6, "max": 6}, "yes"),
    ],
)
def test_queues_see_no_nodes_while_gke_adds_system_nodes(system: dict[str, int], aware: str) -> None:
    plan = new_gke(system)
    (decision,) = [one for one in plan.decisions if one.what == "topology-aware scheduling"]
    assert (decision.chosen, "GKE adds system nodes" in decision.why) == (aware, aware == "no")
    assert plan.queues is not None
    assert bool(plan.queues.topologies) == (aware == "yes")


def test_topology_on_autoscaled_system_nodes_is_refused_and_its_fix_is_taken() -> None:
    with pytest.raises(BadInput, match=r"GKE adds system nodes \(.*system: \{min: 6, max: 6\}") as caught:
        new_gke({"max": 5}, topology=True)
    (problem,) = caught.value.problems
    assert problem.fix == "remove topology, or write cluster.create.system: {min: 6, max: 6}"
    assert new_gke({"min": 6, "max": 6}, topology=True).queues is not None


def test_fixed_nodes_without_gpus_are_an_assumption_on_an_existing_cluster() -> None:
    (decision,) = [
        one
        for one in plan_of_cloud("eks", {"count": {"desired": 2}}).decisions
        if one.what == "topology-aware scheduling"
    ]
    assert decision.why.endswith("; assumed: no autoscaler adds nodes without GPUs")


def test_topology_that_pools_cannot_have_is_refused_with_their_names(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput, match="more is autoscaled"):
        make_plan(pool(), pool("more", count={"desired": 1, "max": 2}), queueing={"topology": True})


def test_a_team_that_may_borrow_more_than_its_cohort_lends_is_warned(make_plan: PlanMaker) -> None:
    plan = make_plan(
        pool(),
        queueing={},
        teams=[
            team("a", quota={"gpus": 2}, queue={"borrow": {"gpus": 4}}),
            team("b", quota={"gpus": 4}, queue={"lend": {"gpus": 3}}),
            team("c", quota={"gpus": 2}, queue={"cohort": "others"}),
        ],
    )
    (warning,) = [one for one in plan.decisions if one.what == "warning: borrow"]
    assert (warning.subject, warning.chosen) == ("team a", "4 nvidia.com/gpu")
    assert warning.why == "cohort teams lends at most 3"
    assert plan.queues is not None
    assert [cohort.name for cohort in plan.queues.cohorts] == ["others", "teams"]


@pytest.mark.parametrize(("queued", "warned"), [(False, ["at most 2h"]), (True, [])])
def test_flex_start_without_a_queue_warns_that_kueue_ends_waiting_pods(queued: bool, warned: list[str]) -> None:
    flex = {"type": "flex-start", "queued": queued}
    count = {"min": 0, "desired": 0, "max": 4}
    plan = plan_of_cloud("gke", {"machine_type": "a4-highgpu-8g", "count": count, "capacity": flex})
    found = [one for one in plan.decisions if one.what == "warning: waiting for capacity"]
    assert [one.chosen for one in found] == warned

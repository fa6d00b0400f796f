"""Nodes that have not passed validation are tainted from their creation, and no team pod tolerates the taint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.validation.agent_admission import agent_policies
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.planned_rules import rules_of
from tests.support.recorded import Recorded

STARTUP, FAILED = names.STARTUP_TAINT_KEY, names.FAILED_TAINT_KEY
CLUSTERS: dict[str, dict[str, Any]] = {
    "sandbox": {"provider": "sandbox", "name": "local"},
    "existing": {"provider": "existing", "context": "lab"},
    "eks": {"provider": "eks", "name": "ml", "region": "us-east-2"},
    "karpenter": {"provider": "eks", "name": "ml", "region": "us-east-2"},
    "gke": {"provider": "gke", "project": "my-project", "name": "ml", "location": "us-central1"},
}
MEMBERS = dict.fromkeys(CLUSTERS, "group:vision") | {"gke": "group:vision@example.com"}
MACHINES = {"gke": "a2-highgpu-8g", "existing": "p4de.24xlarge", "sandbox": "p4de.24xlarge"}


def stack(cloud: str, gate: str = "startup", count: int = 2, **rest: Any) -> dict[str, Any]:
    pool: dict[str, Any] = {
        "name": "train",
        "machine_type": MACHINES.get(cloud, "p5.48xlarge"),
        "count": {"desired": count} if cloud == "sandbox" else {"desired": count, "max": count},
        "workload": "training",
        **rest,
    }
    if cloud == "existing":
        pool["nodes"] = {"selector": {"gpu": "train"}}
    if cloud == "karpenter":
        pool |= {"provisioner": "karpenter", "zones": ["us-east-2a"], "count": {"desired": 0, "max": count}}
    if cloud == "gke":
        pool["zones"] = ["us-central1-a"]
    if cloud == "eks":
        pool["zones"] = ["us-east-2a"]
    return {
        "kind": "environment",
        "cluster": CLUSTERS[cloud],
        "pools": [pool],
        "teams": [{"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": [MEMBERS[cloud]]}],
        "priorities": {"training": 100},
        "validation": {"gate_nodes": gate},
    }


def test_parts_of_a_pool_share_the_limit_of_the_whole(tmp_path: Path) -> None:
    platform = stack("existing", "always", 4)
    [pool] = platform["pools"]
    pool["nodes"] = {"names": ["a0", "a1", "a2", "a3"]}
    platform["sharing"] = {"halves": {"mode": "time-slicing", "replicas": 2}}
    pool |= {"workload": "inference", "per_node": [{"nodes": ["a1", "a2"], "sharing": "halves"}]}
    platform["validation"]["max_held_percent"] = 50
    validation = planned(platform).validation
    (part,) = validation.held_with
    assert (validation.most_held, validation.held_with) == ({"train": 2, part: 2}, {part: "train"})


@pytest.mark.parametrize("gate", ["never", "startup", "always"])
def test_the_operands_run_on_held_nodes_whatever_the_gate_is_now(gate: str) -> None:
    [pool] = planned(stack("existing", gate)).pools
    assert {STARTUP, FAILED, names.READINESS_TAINT_KEY} <= {taint.key for taint in pool.tolerated_by_daemons}


def planned(platform: dict[str, Any]) -> EnvironmentPlan:
    found = plan_platform(platform, "test")
    assert isinstance(found, EnvironmentPlan)
    return found


def recorded(platform: dict[str, Any], tmp_path: Path) -> Recorded:
    return Recorded(record_stack(LoadedStack("test", tmp_path / "Pulumi.test.yaml", platform, planned(platform))))


def created_with(plan: EnvironmentPlan) -> list[str]:
    """Return the keys of the pool's startup taints. Nodes have these taints when they are created, and pods need
    not tolerate them.
    """
    cloud = plan.pools[0].cloud
    if isinstance(cloud, KarpenterPoolPlan):
        return [one["key"] for one in cloud.node_pool["template"]["spec"].get("startupTaints", ())]
    assert isinstance(cloud, EksPoolPlan | GkePoolPlan)
    return [one.key for one in cloud.taints if one.key == STARTUP]


@pytest.mark.parametrize("cloud", ["eks", "karpenter", "gke"])
@pytest.mark.parametrize(("gate", "keys"), [("never", []), ("startup", [STARTUP]), ("always", [STARTUP])])
def test_the_cloud_creates_nodes_with_the_startup_taint_where_the_stack_asks_for_it(
    cloud: str, gate: str, keys: list[str]
) -> None:
    assert created_with(planned(stack(cloud, gate))) == keys


def test_a_pool_overrides_the_environment() -> None:
    assert created_with(planned(stack("eks", "always", gate_nodes="never"))) == []
    assert created_with(planned(stack("eks", "never", gate_nodes="startup"))) == [STARTUP]


def test_taint_keys_have_autoscaler_prefixes_and_fit_eks() -> None:
    assert STARTUP.startswith("startup-taint.cluster-autoscaler.kubernetes.io/")
    assert FAILED.startswith("status-taint.cluster-autoscaler.kubernetes.io/")
    assert len(STARTUP) <= 63


@pytest.mark.parametrize("cloud", ["sandbox", "existing", "eks", "karpenter", "gke"])
def test_daemons_of_the_platform_tolerate_what_pods_of_teams_do_not(cloud: str) -> None:
    plan = planned(stack(cloud, "always"))
    pool = plan.pools[0]
    assert {STARTUP, FAILED}.isdisjoint(one.key for one in pool.all_taints)
    assert {STARTUP, FAILED}.isdisjoint(one["key"] for one in pool.node_expectation.taints)
    assert plan.operator is not None
    values = str(plan.operator)
    assert STARTUP in values
    assert FAILED in values


def test_admission_refuses_pods_that_tolerate_them_where_a_pool_has_them(tmp_path: Path) -> None:
    def rules(gate: str) -> list[str]:
        policy = (
            recorded(stack("sandbox", gate), tmp_path).one("ValidatingAdmissionPolicy", "pods-of-vision").inputs
        )
        return [one["message"] for one in policy["spec"]["validations"] if "gpu-unproven-node" in one["message"]]

    assert rules("never") == []
    assert STARTUP in rules("startup")[0]
    assert FAILED not in rules("startup")[0]
    assert FAILED in rules("always")[0]


@pytest.mark.parametrize(
    ("gate", "count", "percent", "most"),
    [("never", 8, 25, None), ("startup", 8, 25, "0"), ("always", 8, 25, "2"), ("always", 2, 25, "1")],
)
def test_the_agent_is_told_how_many_failing_nodes_are_held_back_at_a_time(
    tmp_path: Path, gate: str, count: int, percent: int, most: str | None
) -> None:
    platform = stack("sandbox", gate, count)
    if gate == "always":
        platform["validation"]["max_held_percent"] = percent
    found = recorded(platform, tmp_path)
    [container] = found.one("DaemonSet", "validate-train").inputs["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables.get("GPU_PLATFORM_MOST_HELD") == most
    rules = [rule for role in found.of("Role") for rule in role.inputs["rules"] if rule["resources"] == ["leases"]]
    assert [rule["verbs"] for rule in rules] == [["create", "patch", "list", "delete"]], (
        "the agent also deletes Leases that it created earlier"
    )


@pytest.mark.parametrize("gate", ["never", "startup"])
def test_a_share_of_failing_nodes_is_refused_where_no_pool_holds_them_back(gate: str) -> None:
    platform = stack("sandbox", gate)
    platform["validation"]["max_held_percent"] = 50
    with pytest.raises(Exception, match=r"validation.max_held_percent: found 50, but no pool"):
        planned(platform)
    platform["pools"][0]["gate_nodes"] = "always"
    assert planned(platform).validation.most_held != {}


def test_a_cpu_pool_is_refused_a_gate_because_no_agent_runs_there() -> None:
    platform = stack("eks", "startup")
    cpu = {"name": "web", "machine_type": "m7i.4xlarge", "count": {"desired": 1}, "workload": "general"}
    platform["pools"].append({**cpu, "gate_nodes": "startup"})
    with pytest.raises(Exception, match=r"pools\[1\].gate_nodes"):
        planned(platform)
    del platform["pools"][1]["gate_nodes"]
    assert planned(platform).pools[1].startup_taints == ()


def test_an_existing_cluster_is_told_that_its_nodes_must_register_with_the_taint() -> None:
    plan = planned(stack("existing"))
    [why] = [one.why for one in plan.decisions if one.what == "taint of new nodes"]
    assert "register with the taint themselves" in why


def test_template_rules_evaluate_templates_and_not_their_object():
    platform = stack("sandbox", "always")
    platform["teams"] = [{"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["group:v"]}]
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    [team] = plan.teams
    rules = rules_of(team, "templates-of")
    assert "gpu-unproven-node" in {rule.id for rule in rules}
    assert [rule.id for rule in rules if "object.spec" in rule.expression] == []


def variables_of(found: Recorded) -> dict[str, str | None]:
    [container] = found.one("DaemonSet", "validate-train").inputs["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value") for one in container["env"]}


@pytest.mark.parametrize(
    ("cloud", "wanted", "action"),
    [
        ("sandbox", "report", None),
        ("sandbox", "cordon", "cordon"),
        ("eks", "cordon", "cordon"),
        ("karpenter", "cordon", "cordon"),
        ("karpenter", "replace", "replace"),
    ],
)
def test_the_agent_may_cordon_and_replace_exactly_where_the_stack_says_so(
    tmp_path: Path, cloud: str, wanted: str, action: str | None
) -> None:
    platform = stack(cloud, "always")
    platform["validation"] |= {"on_failure": wanted, **({} if action is None else {"failing_for": "10m"})}
    found = recorded(platform, tmp_path)
    assert variables_of(found).get("GPU_PLATFORM_ON_FAILURE") == action
    assert variables_of(found).get("GPU_PLATFORM_FAILING_SECONDS") == (None if action is None else "600")
    rules = found.one("ClusterRole", "gpu-node-validation").inputs["rules"]
    claims = [rule["verbs"] for rule in rules if rule["resources"] == ["nodeclaims"]]
    assert claims == ([["delete"]] if action == "replace" else [])
    policies = {one.name for one in found.of("ValidatingAdmissionPolicy")}
    assert ("gpu-node-agent-node-claims" in policies) is (action == "replace")
    validations = found.one("ValidatingAdmissionPolicy", "gpu-node-agent-nodes").inputs["spec"]["validations"]
    policies = agent_policies(cordons=action is not None, replaces=action == "replace")
    (of_nodes,) = (policy for policy in policies if policy.name == "gpu-node-agent-nodes")
    assert [one["expression"] for one in validations] == [rule.expression for rule in of_nodes.rules]
    said = [one for one in planned(platform).decisions if one.what == "nodes that keep failing"]
    assert [one.chosen for one in said] == ([] if action is None else [f"{action} after 10 min"])


@pytest.mark.parametrize("cloud", ["sandbox", "eks", "gke", "existing"])
def test_replace_is_refused_where_nothing_replaces_a_node_on_request(cloud: str) -> None:
    platform = stack(cloud, "always")
    platform["validation"]["on_failure"] = "replace"
    with pytest.raises(Exception, match=r"validation.on_failure: found replace, but Karpenter manages no pool"):
        planned(platform)


def test_a_cordon_needs_holding_pools_and_a_time_needs_a_cordon() -> None:
    platform = stack("sandbox", "startup")
    platform["validation"] |= {"on_failure": "cordon", "failing_for": "1h"}
    with pytest.raises(
        Exception, match=r"(?s)on_failure: found cordon, but no pool.*failing_for: found 1h, but no"
    ):
        planned(platform)
    platform["validation"] = {"gate_nodes": "always", "failing_for": "1h"}
    with pytest.raises(Exception, match=r"failing_for: found 1h with on_failure: report"):
        planned(platform)


READINESS = "readiness.k8s.io/gpu-platform-validated"


@pytest.mark.parametrize("cloud", ["sandbox", "eks", "karpenter", "gke"])
def test_nodes_start_with_the_readiness_taint_and_a_rule_removes_it(tmp_path: Path, cloud: str) -> None:
    platform = stack(cloud, "always")
    platform["validation"]["node_readiness"] = True
    if cloud == "gke":
        platform["pools"][0]["count"] = {"desired": 2}
    plan, found = planned(platform), recorded(platform, tmp_path)
    [pool] = plan.pools
    assert [one.key for one in pool.startup_taints] == [READINESS]
    assert [one.key for one in pool.failed_taints] == [FAILED], (
        "the agent holds back some of the nodes that fail later"
    )
    if isinstance(pool.cloud, EksPoolPlan | GkePoolPlan):
        assert READINESS in {one.key for one in pool.cloud.taints}
    assert found.one("NodeReadinessRule", "gpu-node-validation-train").replace_on_changes == ("spec",)
    rule = found.one("NodeReadinessRule", "gpu-node-validation-train").inputs
    assert rule["apiVersion"] == "readiness.node.x-k8s.io/v1alpha1"
    assert rule["spec"] == {
        "conditions": [{"type": "GpuPlatformValidated", "requiredStatus": "True"}],
        "enforcementMode": "bootstrap-only",
        "nodeSelector": {"matchLabels": dict(pool.node_selector)},
        "taint": {"key": READINESS, "value": "pending", "effect": "NoSchedule"},
    }
    policy = str(found.one("ValidatingAdmissionPolicy", "pods-of-vision").inputs)
    assert READINESS in policy, "no pod of a team tolerates it"


def test_existing_nodes_that_the_controller_taints_are_stated() -> None:
    """When a rule is created, the controller evaluates all existing nodes (node-readiness-controller#382)."""
    platform = stack("existing", "always")
    platform["validation"]["node_readiness"] = True
    [decision] = [one for one in planned(platform).decisions if one.what == "node readiness"]
    assert "v0.5.0 or newer" in decision.chosen
    assert "taints each existing node that does not pass" in decision.why


def test_without_it_there_is_no_rule_and_without_a_gate_it_is_refused(tmp_path: Path) -> None:
    assert not recorded(stack("eks", "startup"), tmp_path).has("NodeReadinessRule")
    platform = stack("eks", "never")
    platform["validation"]["node_readiness"] = True
    with pytest.raises(Exception, match=r"validation.node_readiness: found true, but no pool"):
        planned(platform)


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ({"gpu": "h100"}, {"gpu": "a100"}, False),
        ({"gpu": "h100", "rack": "a"}, {"gpu": "h100", "rack": "b"}, False),
        ({"gpu": "h100"}, {"rack": "b"}, True),
        ({"gpu": "h100"}, {"gpu": "h100", "rack": "b"}, True),
    ],
)
def test_selectors_whose_rules_the_controller_refuses(
    first: dict[str, str], second: dict[str, str], refused: bool
) -> None:
    """The webhook compares the selectors of all rules (node-readiness-controller, selector_overlap.go)."""
    platform = stack("existing", "startup")
    platform["validation"]["node_readiness"] = True
    [pool] = platform["pools"]
    names = {"train": first, "more": second}
    platform["pools"] = [pool | {"name": name, "nodes": {"selector": one}} for name, one in names.items()]
    if not refused:
        planned(platform)
        return
    with pytest.raises(BadInput) as found:
        planned(platform)
    [problem] = found.value.problems
    assert problem.path == "validation.node_readiness"
    assert "pools train and more" in problem.found
    del platform["validation"]["node_readiness"]
    planned(platform)


def growing(cloud: str, **cluster: Any) -> dict[str, Any]:
    platform = stack(cloud, "startup", workload="development")
    platform["pools"][0]["count"] = {"min": 0, "desired": 0, "max": 2}
    platform["cluster"] = {**platform["cluster"], **cluster}
    return platform | {"validation": {"gate_nodes": "startup", "node_readiness": True}}


def test_the_autoscaler_counts_nodes_that_wait_for_readiness() -> None:
    cloud = planned(growing("eks")).cluster.cloud
    assert isinstance(cloud, EksClusterPlan)
    assert cloud.cluster_autoscaler is not None
    assert cloud.cluster_autoscaler.release.values["extraArgs"]["startup-taint"] == READINESS


@pytest.mark.parametrize(
    ("cloud", "cluster", "named"),
    [
        ("eks", {}, False),
        ("eks", {"parts": {"cluster_autoscaler": "present"}}, True),
        ("existing", {}, True),
        ("karpenter", {}, False),
    ],
)
def test_the_owner_of_an_autoscaler_is_told_the_flag_that_it_needs(
    cloud: str, cluster: dict[str, Any], named: bool
) -> None:
    found = decided(planned(growing(cloud, **cluster)), "warning: autoscaler")
    assert [READINESS in one for one in found] == ([True] if named else [])


def test_node_readiness_is_refused_with_an_autoscaler_without_flags() -> None:
    with pytest.raises(Exception, match=r"validation.node_readiness: found true, but the cloud's autoscaler"):
        planned(growing("gke"))


@pytest.mark.parametrize("capacity", [None, {"type": "flex-start"}, {"type": "flex-start", "queued": True}])
def test_no_fixed_size_is_advised_for_flex_start_pools(capacity: dict[str, Any] | None) -> None:
    platform = growing("gke")
    if capacity is not None:
        platform["pools"][0]["capacity"] = capacity
        platform["queueing"] = {}
    with pytest.raises(BadInput) as refused:
        planned(platform)
    (problem,) = refused.value.problems
    assert problem.path == "validation.node_readiness"
    assert ("fixed size" in problem.fix) == (capacity is None)


def test_a_new_cluster_is_told_that_it_lacks_the_readiness_controller() -> None:
    new = {"create": {"admins": ["arn:aws:iam::123456789012:role/admin"]}}
    assert decided(planned(growing("eks", **new)), "warning: node readiness")
    assert not decided(planned(growing("eks")), "warning: node readiness")


# -- pools whose GPUs the MIG manager partitions after nodes have joined

MIG = {"mode": "mig", "layout": {"1g.10gb": 7}}


def partitioned(cloud: str, gate: str | None = None, **pool: Any) -> EnvironmentPlan:
    """Plan an autoscaled MIG pool, with the given `gate_nodes` setting or without one."""
    platform = stack(cloud, sharing=MIG, **pool)
    platform["teams"][0]["quota"] = {"mig": {"1g.10gb": 7}}
    platform["pools"][0]["workload"] = "development"
    if cloud in {"eks", "existing"}:
        platform["pools"][0]["count"] = {"min": 0, "desired": 0, "max": 2}
    del platform["validation"]
    return planned(platform if gate is None else {**platform, "validation": {"gate_nodes": gate}})


def decided(plan: EnvironmentPlan, what: str) -> list[str]:
    return [f"{one.chosen}: {one.why}" for one in plan.decisions if one.what == what]


@pytest.mark.parametrize("cloud", ["eks", "existing", "sandbox"])
def test_a_pool_that_is_partitioned_holds_new_nodes_back_by_default(cloud: str) -> None:
    plan = partitioned(cloud)
    assert [one.key for one in plan.pools[0].startup_taints] == [STARTUP]
    assert plan.pools[0].failed_taints == ()
    assert not any(pool.startup_taints for pool in planned({**stack(cloud), "validation": {}}).pools)


@pytest.mark.parametrize(("rest", "keys"), [({}, [STARTUP]), ({"device_plugin": "provider"}, [])])
def test_nodes_that_gke_partitions_itself_need_no_gate(rest: dict[str, Any], keys: list[str]) -> None:
    platform = stack("gke", sharing={"mode": "mig", "layout": "all-1g.5gb", "strategy": "single"}, **rest)
    platform["validation"] = {}
    platform["pools"][0]["workload"] = "development"
    assert [one.key for one in planned(platform).pools[0].startup_taints] == keys


@pytest.mark.parametrize(("gate", "of_pool"), [("never", None), ("startup", "never")])
def test_a_stack_that_chooses_no_gate_is_warned_of_whole_gpus(gate: str, of_pool: str | None) -> None:
    plan = partitioned("eks", gate, **({} if of_pool is None else {"gate_nodes": of_pool}))
    assert plan.pools[0].startup_taints == ()
    assert decided(plan, "warning: whole GPUs on new nodes")
    assert not decided(partitioned("eks"), "warning: whole GPUs on new nodes")


def test_what_a_partition_does_to_a_new_node_is_a_decision() -> None:
    [of_image] = decided(partitioned("eks"), "partitioning of new nodes")
    assert "the kubelet" in of_image
    assert "reboots the node" in of_image
    [of_operator] = decided(partitioned("existing"), "partitioning of new nodes")
    assert "kubelet" not in of_operator
    assert "reboots" not in of_operator


# -- processes of the host


@pytest.mark.parametrize("allowed", [False, True])
def test_agents_see_processes_of_the_host_only_where_the_stack_allows_it(allowed: bool, tmp_path: Path) -> None:
    platform = stack("existing")
    inference = {"name": "serve", "machine_type": "g6.12xlarge", "workload": "inference"}
    platform["pools"].append({**inference, "count": {"desired": 1}, "nodes": {"names": ["serve-0"]}})
    platform["validation"] = {"host_processes": allowed}
    found = recorded(platform, tmp_path)
    train, serve = (
        found.one("DaemonSet", f"validate-{name}").inputs["spec"]["template"]["spec"]
        for name in ("train", "serve")
    )
    assert (train.get("hostPID"), serve.get("hostPID")) == (True if allowed else None, None)


def test_processes_that_no_machine_has_are_refused() -> None:
    platform = stack("eks", machine_type="g6.12xlarge")
    platform["validation"] = {"host_processes": True}
    platform["pools"][0]["workload"] = "inference"
    with pytest.raises(Exception, match=r"validation.host_processes: found true, but no pool has machines"):
        planned(platform)

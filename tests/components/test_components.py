"""The resources that components register for the shipped stacks, and for programs that use one component."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base import names
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.deploy.recorded.record import ProgramError, ResourceRecord
from gpu_platform.planning.changes import protected
from gpu_platform.program import record_stack
from gpu_platform.stack import CONFIG_KEY
from gpu_platform.stack.loaded import LoadedStack, load_stack, plan_platform
from tests.support.recorded import Recorded
from tests.support.restricted import violations

Stack = Callable[[str], Recorded]
STACKS = [
    "local",
    "dev",
    "speech",
    "eks-training",
    "gke-training",
    "aks-training",
    "eks-monitoring",
    "gke-monitoring",
]


def kubernetes_resources(recorded: Recorded) -> list[ResourceRecord]:
    """Return the Kubernetes objects that a program creates. Fails if the program creates none."""
    found = [one for one in recorded.resources if one.type.startswith("kubernetes:") and not one.external]
    assert found
    return found


@pytest.mark.parametrize("name", STACKS)
def test_every_kubernetes_object_is_named_explicitly(stack: Stack, name: str) -> None:
    objects = [record for record in kubernetes_resources(stack(name)) if not record.type.endswith(":Release")]
    assert objects
    for record in objects:
        assert record.inputs["metadata"]["name"], record.urn


@pytest.mark.parametrize("name", STACKS)
def test_every_component_registers_its_outputs(stack: Stack, name: str) -> None:
    components = [r for r in stack(name).resources if r.type.startswith("gpu-platform:index:")]
    assert components
    for component in components:
        assert component.outputs, component.urn


@pytest.mark.parametrize("name", STACKS)
def test_a_destroy_deletes_nothing_before_the_guard_of_the_stack(stack: Stack, name: str) -> None:
    resources = stack(name).resources
    needed = {
        urn
        for record in resources
        for urn in (record.parent, record.provider.rpartition("::")[0], *record.dependencies)
    }
    first = [record for record in resources if record.custom and not record.external and record.urn not in needed]
    assert [(record.type, record.protect) for record in first] == [
        ("pulumi:index:Stash", bool(protected(load_stack(name).plan)))
    ]


@pytest.mark.parametrize("name", STACKS)
def test_every_resource_has_a_component_as_parent_and_the_clusters_provider(stack: Stack, name: str) -> None:
    cluster = load_stack(name).plan.cluster.name
    for record in kubernetes_resources(stack(name)):
        assert "gpu-platform:index:" in record.parent, record.urn
        assert f"::{cluster}::" in record.provider, record.urn


# For stacks on clouds, other tests compare previews with deployments in which every output is known.
@pytest.mark.parametrize("name", [name for name in STACKS if not name.startswith(("eks-", "gke-", "aks-"))])
def test_a_preview_with_every_output_unknown_registers_the_same_resources(stack: Stack, name: str) -> None:
    known = record_stack(
        load_stack(name),
        preview=False,
        resolve_stack=lambda _: {"kubeconfig": "/some/kubeconfig", "operator": "v26.7.0"},
    )
    assert {r.urn for r in known.resources} == {r.urn for r in stack(name).resources}
    assert len(known.resources) == len(stack(name).resources)


def test_the_sandbox_gets_a_cluster_policy_and_a_real_cluster_a_helm_release(stack: Stack) -> None:
    assert [r.type for r in stack("local").of("ClusterPolicy")] == ["kubernetes:nvidia.com/v1:ClusterPolicy"]
    assert not stack("local").has("Release")
    release = stack("dev").one("Release", "gpu-operator")
    assert release.inputs["version"] == "v26.7.0"
    driver = release.inputs["values"]["driver"]
    assert (driver["enabled"], driver["version"]) == (True, "580.173.02")
    assert driver["upgradePolicy"]["autoUpgrade"] is True
    assert not stack("dev").has("ClusterPolicy")


def test_the_operator_waits_for_the_config_maps_that_it_names(stack: Stack) -> None:
    local = stack("local")
    policy = local.of("ClusterPolicy")[0]
    named = policy.inputs["spec"]["devicePlugin"]["config"]["name"]
    assert local.one("ConfigMap", named).urn in policy.dependencies
    metrics = policy.inputs["spec"]["dcgmExporter"]["config"]["name"]
    assert local.one("ConfigMap", metrics).urn in policy.dependencies


def test_nodes_of_a_sandbox_pool_carry_its_labels_taint_and_machine_type(stack: Stack) -> None:
    node, served = (stack("local").one("Node", name).inputs for name in ("notebooks-0", "serve-0"))
    assert served["metadata"]["labels"]["nvidia.com/device-plugin.config"] == "serve"
    layout = node["metadata"]["labels"]["nvidia.com/mig.config"]
    assert layout.startswith("notebooks-")
    assert node["metadata"]["labels"]["nvidia.com/device-plugin.config"] == layout
    assert node["metadata"]["annotations"]["sandbox.gpu-platform.dev/machine-type"] == "p4de.24xlarge"
    gpu = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    unproven = {"key": names.STARTUP_TAINT_KEY, "value": "true", "effect": "NoSchedule"}
    assert served["spec"]["taints"] == [gpu]
    assert node["spec"]["taints"] == [gpu, unproven], "the node offers whole GPUs until its GPUs are partitioned"


def test_named_nodes_of_an_existing_cluster_are_patched_and_selected_nodes_are_not(stack: Stack) -> None:
    patched = [r.inputs["metadata"]["name"] for r in stack("dev").of("NodePatch")]
    assert patched == ["dgx-01", "dgx-02"]
    assert not stack("dev").has("Node")
    assert all("spec" not in r.inputs for r in stack("dev").of("NodePatch")), "taints may belong to other owners"


def test_validation_pods_see_all_gpus_without_requesting_any(stack: Stack) -> None:
    pod = stack("local").one("DaemonSet", "validate-train").inputs["spec"]["template"]["spec"]
    container = pod["containers"][0]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert pod["runtimeClassName"] == "nvidia"
    assert not any("nvidia.com" in name for name in container["resources"]["limits"])
    # Container runtimes ignore NVIDIA_VISIBLE_DEVICES unless the container is privileged.
    assert container["securityContext"] == {
        "privileged": True,
        "readOnlyRootFilesystem": True,
        "runAsGroup": 65534,
        "runAsNonRoot": True,
        "runAsUser": 65534,
    }
    assert not [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert "@sha256:" in container["image"]


def test_the_validation_account_may_write_only_reports_marks_and_events(stack: Stack) -> None:
    rules = {
        (one.type.rpartition(":")[2], one.inputs["metadata"].get("namespace")): one.inputs["rules"]
        for kind in ("Role", "ClusterRole")
        for one in stack("local").of(kind)
        if one.inputs["metadata"]["name"] == "gpu-node-validation"
    }
    assert rules == {
        ("Role", "gpu-platform-validation"): [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["create", "patch", "list", "delete"],
            },
        ],
        ("Role", "default"): [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}],
        ("ClusterRole", None): [{"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["patch"]}],
    }


def test_no_pod_may_connect_to_the_agents(stack: Stack) -> None:
    policy = stack("local").one("NetworkPolicy", "gpu-node-validation").inputs
    assert policy["metadata"]["namespace"] == "gpu-platform-validation"
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert "ingress" not in policy["spec"]
    agent = stack("local").one("DaemonSet", "validate-train").inputs["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= agent.items()


def test_agents_start_after_the_policy_that_keeps_them_to_their_own_node(stack: Stack) -> None:
    agents = stack("local").one("DaemonSet", "validate-train")
    for policy in ("gpu-node-agent-reports", "gpu-node-agent-nodes"):
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
            assert stack("local").one(kind, policy).urn in agents.dependencies


def test_the_gates_timeout_is_the_stacks(stack: Stack) -> None:
    for daemon_set in stack("local").of("DaemonSet"):
        assert daemon_set.timeouts == {"create": "300s", "update": "300s"}


def mounted(recorded: Recorded, pool: str, volume: str) -> dict:
    """Return the ConfigMap that the validation pods of a pool mount as this volume."""
    pod = recorded.one("DaemonSet", f"validate-{pool}").inputs["spec"]["template"]["spec"]
    names = {entry["name"]: entry["configMap"]["name"] for entry in pod["volumes"]}
    return dict(recorded.one("ConfigMap", names[volume]).inputs)


@pytest.mark.parametrize("volume", ["agent", "expectations"])
def test_what_the_nodes_run_cannot_be_changed_by_one_of_them(stack: Stack, volume: str) -> None:
    config = mounted(stack("local"), "train", volume)
    assert config["immutable"] is True


def test_the_agent_in_the_config_map_is_a_zipapp_with_nvml_bindings(stack: Stack) -> None:
    data = mounted(stack("local"), "train", "agent")["binaryData"]["agent.pyz"]
    content = base64.b64decode(data)
    assert len(data) < 1024 * 1024, "a ConfigMap holds at most 1 MiB"
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "__main__.py" in names
    assert "pynvml.py" in names


def test_the_expectations_of_a_pool_are_the_plans(stack: Stack) -> None:
    data = mounted(stack("local"), "notebooks", "expectations")["data"]
    plan = load_stack("local").plan
    assert plan.kind == "environment"
    assert json.loads(data["expectations.json"]) == plan.pools[2].expectations.to_json()


def test_teams_start_only_on_nodes_that_are_proven(stack: Stack) -> None:
    local = stack("local")
    proofs = {r.urn for r in local.of("DaemonSet")}
    for kind in ("Namespace", "Deployment", "RoleBinding"):
        of_teams = [record for record in local.of(kind) if "gpu-platform:index:TeamNamespace" in record.parent]
        assert of_teams
        for record in of_teams:
            assert proofs <= local.before(record), record.urn


def test_nodes_are_proven_only_after_the_operator_is_there(stack: Stack) -> None:
    local = stack("local")
    namespace = local.one("Namespace", "gpu-platform-validation")
    assert local.of("ClusterPolicy")[0].urn in namespace.dependencies


def test_each_gate_waits_only_for_its_own_pool(stack: Stack) -> None:
    local = stack("local")
    pools = {node.inputs["metadata"]["labels"]["gpu-platform.dev/pool"] for node in local.of("Node")}
    assert len(pools) > 1
    for pool in pools:
        needed = {urn.rsplit("::", 1)[-1] for urn in local.one("DaemonSet", f"validate-{pool}").dependencies}
        nodes = {node.name for node in local.of("Node")}
        assert needed & nodes == {name for name in nodes if name.rpartition("-")[0] == pool}


def test_dependencies_grow_linearly_with_pools_and_teams(tmp_path: Path) -> None:
    def dependencies(size: int) -> int:
        platform = yaml.safe_load((STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8"))["config"][CONFIG_KEY]
        pools = [{**p, "name": f"{p['name']}-{i}"} for i in range(size) for p in platform["pools"]]
        teams = [
            {**t, "name": f"{t['name']}-{i}", "workloads": []} for i in range(size) for t in platform["teams"]
        ]
        platform |= {"pools": pools, "teams": teams}
        loaded = LoadedStack("big", tmp_path / "Pulumi.big.yaml", platform, plan_platform(platform, "big"))
        return sum(len(record.dependencies) for record in record_stack(loaded).resources)

    assert dependencies(8) < 2.2 * dependencies(4)


def test_a_teams_pods_are_denied_all_traffic_but_dns_and_their_own_namespace(stack: Stack) -> None:
    policies = [
        r.inputs for r in stack("local").of("NetworkPolicy") if r.inputs["metadata"]["namespace"] == "vision"
    ]
    by_name = {policy["metadata"]["name"]: policy["spec"] for policy in policies}
    assert by_name["default-deny"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in by_name["default-deny"]
    assert "egress" not in by_name["default-deny"]
    assert {port["port"] for port in by_name["allow-dns"]["egress"][0]["ports"]} == {53}
    assert set(by_name) == {"default-deny", "allow-dns", "allow-own-namespace", "allow-declared"}


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("local", set()),
        ("aks-training", set()),
        ("eks-training", {("169.254.170.23/32", 80, "TCP")}),
        (
            "gke-training",
            {
                ("169.254.169.254/32", 80, "TCP"),
                ("169.254.169.254/32", 53, "UDP"),
                ("169.254.169.254/32", 53, "TCP"),
            },
        ),
    ],
)
def test_team_pods_reach_only_the_clouds_identity_and_dns_addresses(
    stack: Stack, name: str, reached: set[tuple[str, int, str]]
) -> None:
    found = {
        (peer["ipBlock"]["cidr"], port["port"], port["protocol"])
        for record in stack(name).of("NetworkPolicy")
        for rule in record.inputs["spec"].get("egress", ())
        for peer in rule["to"]
        if "ipBlock" in peer
        for port in rule["ports"]
    }
    node_local = ("169.254.20.10/32", "169.254.25.10/32")
    assert found == reached | {(cidr, 53, protocol) for cidr in node_local for protocol in ("UDP", "TCP")}


def test_pulumi_retains_only_a_teams_namespace_policies_and_limits(stack: Stack) -> None:
    of_team = [
        record
        for record in stack("local").resources
        if record.type.startswith("kubernetes:")
        and "index:TeamNamespace" in record.parent
        and "vision" in record.name
    ]
    kept = {record.type.rsplit(":", 1)[-1] for record in of_team if record.retain_on_delete}
    deleted = {record.type.rsplit(":", 1)[-1] for record in of_team if not record.retain_on_delete}
    assert kept == {
        "Namespace",
        "NetworkPolicy",
        "ResourceQuota",
        "LimitRange",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    assert deleted == {
        "ConfigMap",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }


@pytest.mark.parametrize("name", ["local", "dev", "speech", "eks-training", "gke-training", "aks-training"])
@pytest.mark.parametrize("setting", ["upsertExistingObjects", "enablePatchForce"])
def test_the_pulumi_provider_adopts_objects_left_by_earlier_runs(stack: Stack, name: str, setting: str) -> None:
    providers = [r for r in stack(name).resources if r.type == "pulumi:providers:kubernetes"]
    assert providers
    assert [str(provider.inputs.get(setting)).lower() for provider in providers] == ["true"] * len(providers)


def test_the_outputs_name_quota_and_members_of_each_team(stack: Stack) -> None:
    teams = stack("speech").program.outputs["teams"]
    assert teams["speech"]["members"] == ["Group speech"]
    assert teams["speech"]["quota"]["requests.nvidia.com/mig-1g.10gb"] == "14"
    assert stack("speech").program.outputs["environment"] == "local"


def test_a_teams_members_cannot_change_their_own_quota_or_rights(stack: Stack) -> None:
    rules = stack("local").one("Role", "vision/member").inputs["rules"]
    writable = {r for rule in rules if "create" in rule["verbs"] for r in rule["resources"]}
    assert not writable & {"resourcequotas", "limitranges", "roles", "rolebindings", "networkpolicies"}
    assert not any("*" in value for rule in rules for value in (*rule["verbs"], *rule["resources"]))


def test_a_teams_quota_also_counts_classes_above_its_own_as_zero_pods(stack: Stack) -> None:
    quota = stack("local").one("ResourceQuota", "vision/priority").inputs["spec"]
    assert quota["hard"] == {"pods": "0"}
    assert quota["scopeSelector"]["matchExpressions"] == [
        {"scopeName": "PriorityClass", "operator": "Exists"},
        {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["training"]},
    ]


def test_a_workload_requests_what_it_is_limited_to(stack: Stack) -> None:
    for deployment in stack("local").of("Deployment"):
        containers = deployment.inputs["spec"]["template"]["spec"]["containers"]
        assert containers
        for container in containers:
            assert container["resources"]["requests"] == container["resources"]["limits"]


def test_no_priority_class_is_the_global_default(stack: Stack) -> None:
    classes = stack("local").of("PriorityClass")
    assert {c.inputs["metadata"]["name"]: c.inputs["value"] for c in classes} == {
        "training": 100,
        "inference": 1000,
    }
    assert all(c.inputs["globalDefault"] is False for c in classes)


def test_the_alerts_are_written_as_a_prometheus_rule_with_the_labels_of_the_stack(stack: Stack) -> None:
    rule = stack("dev").of("PrometheusRule")[0].inputs
    assert rule["metadata"]["labels"] == {"release": "prometheus"}
    recorded, alerts = (group["rules"] for group in rule["spec"]["groups"])
    assert "gpu:active:ratio" in [each["record"] for each in recorded]
    assert "GpuXidReset" in [each["alert"] for each in alerts]
    assert all(each["annotations"]["runbook_url"].endswith(f"#{each['alert'].lower()}") for each in alerts)


def test_the_service_monitor_gives_every_series_the_pool_of_its_node(stack: Stack) -> None:
    spec = stack("dev").of("ServiceMonitor")[0].inputs["spec"]
    assert spec["attachMetadata"] == {"node": True}
    assert spec["endpoints"][0]["relabelings"][0] == {
        "sourceLabels": ["__meta_kubernetes_node_label_gpu_platform_dev_pool"],
        "targetLabel": "pool",
    }


def test_the_scrape_labels_of_the_exporter_pod_are_dropped(stack: Stack) -> None:
    spec = stack("dev").of("ServiceMonitor")[0].inputs["spec"]
    assert {"action": "labeldrop", "regex": "namespace|pod|container"} in spec["endpoints"][0]["relabelings"]


def test_only_a_kueue_that_the_program_installs_is_scraped(
    stack: Stack,
) -> None:
    def monitors(name: str) -> list[Any]:
        return [found.inputs for found in stack(name).of("ServiceMonitor") if found.name == "kueue-metrics"]

    [monitor] = monitors("eks-training")
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["kueue-system"]}
    [endpoint] = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("https", "https")
    assert monitors("local") == []


def test_a_team_stack_is_its_team_on_the_environments_cluster(stack: Stack) -> None:
    speech = stack("speech")
    assert [r.name for r in speech.resources if r.type == "pulumi:pulumi:StackReference"] == ["local"]
    assert {r.type for r in speech.resources if r.type.startswith("gpu-platform:")} == {
        "gpu-platform:index:Team",
        "gpu-platform:index:Cluster",
        "gpu-platform:index:TeamNamespace",
        "gpu-platform:index:TeamAdmission",
        "gpu-platform:index:TeamPodDefaults",
    }


def test_a_team_with_the_default_kubeconfig_needs_no_environment_output() -> None:
    team = load_stack("dev")
    platform = {
        "kind": "team",
        "environment": {"stack": "dev"},
        "team": {"name": "speech", "quota": {"gpus": 0}, "priority": "training", "members": ["group:a"]},
    }
    plan = plan_platform(platform, "speech")
    loaded = LoadedStack("speech", team.path, platform, plan)
    recorded = record_stack(loaded, preview=False, resolve_stack=lambda _: {"operator": "v26.7.0"})
    assert any(r.type == "kubernetes:core/v1:Namespace" for r in recorded.resources)


@pytest.mark.parametrize("preview", [True, False])
def test_a_team_on_a_destroyed_environment_is_refused_before_it_reaches_a_cluster(preview: bool) -> None:
    with pytest.raises(ProgramError, match="stack 'local', the environment of this team, is not deployed"):
        record_stack(load_stack("speech"), preview=preview, resolve_stack=lambda _: {})


def test_no_credential_of_the_kubeconfig_is_among_the_inputs(stack: Stack) -> None:
    provider = next(r for r in stack("local").resources if r.type == "pulumi:providers:kubernetes")
    assert provider.inputs["kubeconfig"].endswith("/kubeconfig")


def test_a_declared_workload_is_restricted_and_runs_as_the_declared_user(
    program: Callable[[str], Recorded],
) -> None:
    workloads = {
        record.urn.rpartition("::")[2]: record.inputs["spec"]["template"]["spec"]
        for record in program("teams_with_workloads").of("Deployment")
    }
    strict, own_user = workloads["vision/pause"], workloads["vision/own-user"]
    assert strict["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert own_user["securityContext"] == {**strict["securityContext"], "runAsUser": 1000}
    for pod in (strict, own_user):
        assert violations(pod) == []


def test_a_declared_workload_of_a_baseline_team_may_run_as_root_without_capabilities(
    program: Callable[[str], Recorded],
) -> None:
    workloads = {
        record.urn.rpartition("::")[2]: record.inputs["spec"]["template"]["spec"]
        for record in program("teams_with_workloads").of("Deployment")
    }
    assert "securityContext" not in workloads["legacy/pause"]
    assert workloads["legacy/own-user"]["securityContext"] == {"runAsUser": 1000}
    for name in ("legacy/pause", "legacy/own-user"):
        [container] = workloads[name]["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_team_can_be_used_alone(program: Callable[[str], Recorded]) -> None:
    alone = program("one_team")
    assert alone.program.outputs == {"namespace": "vision"}
    assert alone.one("ResourceQuota", "vision/quota").inputs["spec"]["hard"]["requests.nvidia.com/gpu"] == "8"


def test_sharing_and_priorities_can_be_used_alone(program: Callable[[str], Recorded]) -> None:
    alone = program("priorities_and_sharing")
    config = alone.of("ConfigMap")[0].inputs
    assert config["metadata"]["name"].startswith("device-plugin-")
    assert yaml.safe_load(config["data"]["serve"]) == {"version": "v1"}


def test_resources_that_moved_into_a_component_are_not_replaced(stack: Stack) -> None:
    environment = next(r for r in stack("local").resources if r.type == "gpu-platform:index:Environment")
    children = [r for r in stack("local").resources if r.parent == environment.urn]
    assert {"gpu-platform:index:NodePool", "gpu-platform:index:TeamNamespace"} <= {r.type for r in children}
    for child in children:
        assert f"urn:pulumi:local::gpu-platform::{child.type}::{child.name}" in child.aliases, child.urn


def test_components_of_teams_are_found_by_their_types_of_before(stack: Stack) -> None:
    former = {
        "TeamNamespace": "Tenant",
        "TeamAdmission": "TenantAdmission",
        "TeamPodDefaults": "TenantPodDefaults",
    }
    found = {
        (record.type.removeprefix("gpu-platform:index:"), alias.split("$")[-1])
        for record in stack("local").resources
        for alias in record.aliases
        if record.type.startswith("gpu-platform:index:Team") and "$" in alias
    }
    names = {(new, alias.partition("::")[0].removeprefix("gpu-platform:index:")) for new, alias in found}
    assert names == set(former.items())

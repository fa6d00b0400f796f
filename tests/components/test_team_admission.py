"""The admission policies that make the API server refuse objects in a team's namespace."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.catalog.admission_rules import literal
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.stack.field_cases import STACKS
from tests.support.fabric_pods import platform_of
from tests.support.recorded import Recorded
from tests.support.team_policies import PREFIXES


def recorded(cloud: str, tmp_path: Path) -> Recorded:
    return load(STACKS[cloud], tmp_path)


def load(platform: Mapping[str, Any], tmp_path: Path) -> Recorded:
    loaded = LoadedStack("test", tmp_path / "Pulumi.test.yaml", platform, plan_platform(platform, "test"))
    return Recorded(record_stack(loaded))


@pytest.mark.parametrize("cloud", ["sandbox", "existing", "eks", "gke"])
def test_every_teams_policies_fail_closed_and_apply_only_to_its_namespace(cloud: str, tmp_path: Path):
    found = recorded(cloud, tmp_path)
    teams = [one.inputs["metadata"]["name"] for one in found.of("Namespace") if _is_team(one.inputs)]
    assert teams
    for team in teams:
        for prefix in PREFIXES:
            name = f"{prefix}-{team}"
            policy = found.one("ValidatingAdmissionPolicy", name).inputs["spec"]
            binding = found.one("ValidatingAdmissionPolicyBinding", name).inputs["spec"]
            assert policy["failurePolicy"] == "Fail"
            selector = policy["matchConstraints"]["namespaceSelector"]["matchLabels"]
            assert selector == {"kubernetes.io/metadata.name": team}
            assert (binding["policyName"], binding["validationActions"]) == (name, ["Deny"])


def _is_team(inputs: Mapping[str, Any]) -> bool:
    return "gpu-platform.dev/team" in inputs["metadata"].get("labels", {})


def test_pod_policies_cover_ephemeral_containers_and_name_their_rules(tmp_path: Path):
    policy = recorded("sandbox", tmp_path)
    spec = next(one for one in policy.of("ValidatingAdmissionPolicy") if one.name.startswith("pods-of-")).inputs[
        "spec"
    ]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["pods", "pods/ephemeralcontainers"]
    assert rule["operations"] == ["CREATE", "UPDATE"]
    ids = [one["message"].partition(":")[0] for one in spec["validations"]]
    assert ids == [
        "gpu-visible-devices-bypass",
        "gpu-device-annotation",
        "pod-network-annotation",
        "gpu-runtime-class",
        "gpu-wildcard-toleration",
        "gpu-wildcard-toleration",
        "gpu-node-name",
        "node-outside-pools",
        "gpu-shared-request-one",
        "gpu-max-per-container",
        "gpu-numa-alignment",
        "volume-source",
        "node-keeping",
        "node-keeping",
    ]


def test_the_claim_policy_matches_api_versions_with_the_same_fields(tmp_path: Path):
    (spec, *_) = [
        one.inputs["spec"]
        for one in recorded("sandbox", tmp_path).of("ValidatingAdmissionPolicy")
        if one.name.startswith("claims-of-")
    ]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["apiVersions"]) == (["resource.k8s.io"], ["v1", "v1beta2"])
    assert rule["resources"] == ["resourceclaims", "resourceclaimtemplates"]
    # Other API versions of these objects have different fields.
    # The API server must therefore convert objects before the policy checks them.
    assert spec["matchConstraints"].get("matchPolicy", "Equivalent") == "Equivalent"
    assert [one["message"].partition(":")[0] for one in spec["validations"]] == ["gpu-claim-requests"] * 4


def test_policies_for_all_resources_have_the_scope_namespaced(
    tmp_path: Path,
):
    rules = [
        rule
        for one in recorded("sandbox", tmp_path).of("ValidatingAdmissionPolicy")
        for rule in one.inputs["spec"]["matchConstraints"]["resourceRules"]
        if "*" in rule["resources"]
    ]
    assert rules
    assert {rule["scope"] for rule in rules} == {"Namespaced"}


def test_a_toleration_is_compared_with_the_taints_of_its_effect(tmp_path: Path):
    platform = copy.deepcopy(dict(STACKS["sandbox"]))
    platform["pools"][0]["taints"] = [
        {"key": "example.com/drained", "effect": "NoExecute"},
        {"key": "example.com/busy", "effect": "PreferNoSchedule"},
    ]
    loaded = load(platform, tmp_path)
    spec = next(one for one in loaded.of("ValidatingAdmissionPolicy") if one.name.startswith("pods-of-")).inputs[
        "spec"
    ]
    rule, _ = [one["expression"] for one in spec["validations"] if "gpu-wildcard-toleration" in one["message"]]
    assert "in ['', taint.effect]) || !(toleration.?key.orValue('') in ['', taint.key])" in rule
    (taints,) = (one["expression"] for one in spec["variables"] if one["name"] == "gpu_taints")
    drained, gpus = (("example.com/drained", "NoExecute"), ("nvidia.com/gpu", "NoSchedule"))
    assert taints == literal([{"key": key, "effect": effect} for key, effect in (drained, gpus)])


def test_pod_security_policies_exist_before_and_stay_with_the_namespace(tmp_path: Path):
    found = load(platform_of("gke", "a3-megagpu-8g"), tmp_path)
    namespace = found.one("Namespace", "vision")
    for prefix, resources in (
        ("pod-security-of", ["pods", "pods/ephemeralcontainers"]),
        ("exec-of", ["pods/exec", "pods/attach"]),
    ):
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
            record = found.one(kind, f"{prefix}-vision")
            assert record.urn in namespace.dependencies
            assert record.retain_on_delete
        policy = found.one("ValidatingAdmissionPolicy", f"{prefix}-vision").inputs["spec"]
        assert policy["failurePolicy"] == "Fail"
        assert policy["matchConstraints"]["resourceRules"][0]["resources"] == resources
        assert policy["matchConstraints"]["namespaceSelector"]["matchLabels"] == {
            "kubernetes.io/metadata.name": "vision"
        }


def test_a_team_without_a_fabric_has_no_pod_security_policies(tmp_path: Path):
    names = {one.name for one in recorded("eks", tmp_path).of("ValidatingAdmissionPolicy")}
    assert not [name for name in names if name.startswith(("pod-security-of", "exec-of"))]

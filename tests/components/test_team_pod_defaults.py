"""The admission policies that make the API server add defaults to pods in a team's namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.stack.field_cases import STACKS
from tests.support.recorded import Recorded


def recorded(tmp_path: Path, kubernetes: str) -> Recorded:
    stack = STACKS["sandbox"]
    platform: dict[str, Any] = {**stack, "cluster": {**stack["cluster"], "kubernetes": kubernetes}}
    loaded = LoadedStack("test", tmp_path / "Pulumi.test.yaml", platform, plan_platform(platform, "test"))
    return Recorded(record_stack(loaded))


def test_every_team_has_a_defaults_policy_for_new_pods_with_gpus(tmp_path: Path):
    found = recorded(tmp_path, "1.36")
    policies = found.of("MutatingAdmissionPolicy")
    assert [one.name for one in policies] == [f"defaults-of-{team['name']}" for team in STACKS["sandbox"]["teams"]]
    for policy in policies:
        spec = policy.inputs["spec"]
        team = policy.name.removeprefix("defaults-of-")
        (rule,) = spec["matchConstraints"]["resourceRules"]
        assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])
        assert spec["matchConstraints"]["namespaceSelector"]["matchLabels"] == {
            "kubernetes.io/metadata.name": team
        }
        # The cost of the expressions grows with the square of the number of containers.
        # The condition `has-few-containers` limits the number of containers.
        assert [one["name"] for one in spec["matchConditions"]] == ["has-few-containers", "requests-gpus"]
        binding = found.one("MutatingAdmissionPolicyBinding", policy.name).inputs["spec"]
        assert binding == {"policyName": policy.name}


def test_failing_defaults_stop_no_pod_and_keep_webhook_values(tmp_path: Path):
    for policy in recorded(tmp_path, "1.36").of("MutatingAdmissionPolicy"):
        spec = policy.inputs["spec"]
        assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Ignore", "Never")


def test_a_cluster_without_the_api_gets_no_such_policy(tmp_path: Path):
    found = recorded(tmp_path, "1.35")
    assert found.has("ValidatingAdmissionPolicy")
    assert not found.has("MutatingAdmissionPolicy")
    assert not found.has("MutatingAdmissionPolicyBinding")

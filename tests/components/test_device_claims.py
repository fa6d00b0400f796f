"""The resources that the program registers for DRA, recorded from the program of a complete stack."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from tests.support.recorded import Recorded

PLATFORM: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "sandbox"},
    "device_classes": {"large-gpu": {"memory": "100Gi"}},
    "pools": [
        {
            "name": "big",
            "machine_type": "p5en.48xlarge",
            "count": {"desired": 1},
            "workload": "inference",
            "sharing": {"mode": "dra", "partitions": True},
        }
    ],
    "teams": [
        {
            "name": "vision",
            "quota": {"devices": {"gpu.nvidia.com": 4}},
            "priority": "training",
            "members": ["group:vision"],
            "claims": [{"name": "pair", "count": 2, "memory": "40Gi"}],
            "workloads": [{"name": "work", "pool": "big", "claim": "pair"}],
        }
    ],
}


@cache
def _recorded(folder: Path) -> Recorded:
    file = folder / "Pulumi.claims.yaml"
    file.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": PLATFORM}}), "utf-8")
    return Recorded(record_stack(load_stack(str(file))))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return _recorded(tmp_path_factory.mktemp("stack"))


def test_the_sandbox_has_the_same_driver_and_upgrade_policy_as_the_chart(
    recorded: Recorded,
) -> None:
    spec = recorded.one("NVIDIADriver", "default").inputs["spec"]
    assert (spec["default"], spec["driverType"], spec["version"]) == (True, "gpu", "595.91.07")
    policy = spec["upgradePolicy"]
    assert (policy["autoUpgrade"], policy["podDeletion"]["timeoutSeconds"]) == (True, 900)


def test_dra_registers_no_cluster_policy_and_no_device_plugin_config(recorded: Recorded) -> None:
    assert recorded.one("GPUCluster", "gpu-cluster").inputs["apiVersion"] == "nvidia.com/v1alpha1"
    assert not recorded.has("ClusterPolicy")
    assert not recorded.has("GpuSharing")
    assert not recorded.has("MigLayout")


def test_the_drivers_own_device_classes_are_left_to_it(recorded: Recorded) -> None:
    [made] = recorded.of("DeviceClass")
    assert made.inputs["metadata"]["name"] == "large-gpu"
    assert "100Gi" in made.inputs["spec"]["selectors"][1]["cel"]["expression"]


def test_a_claim_is_a_template_that_is_replaced_when_it_changes(recorded: Recorded) -> None:
    template = recorded.one("ResourceClaimTemplate", "pair")
    assert template.inputs["metadata"]["namespace"] == "vision"
    [request] = template.inputs["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu.nvidia.com"
    assert request["exactly"]["count"] == 2
    assert template.replace_on_changes == ("spec",)
    assert template.delete_before_replace


def test_a_workloads_pod_and_container_have_the_claim_and_no_extended_resource(recorded: Recorded) -> None:
    workload = recorded.one("Deployment", "work")
    pod = workload.inputs["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "pair", "resourceClaimTemplateName": "pair"}]
    [container] = pod["containers"]
    assert container["resources"]["claims"] == [{"name": "pair"}]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    template = recorded.one("ResourceClaimTemplate", "pair")
    assert template.urn in workload.dependencies


def test_the_validation_pods_claim_every_gpu_and_take_none(recorded: Recorded) -> None:
    template = recorded.one("ResourceClaimTemplate", "every-gpu")
    [request] = template.inputs["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "adminAccess": True,
        "allocationMode": "All",
        "deviceClassName": "gpu.nvidia.com",
    }
    namespace = recorded.one("Namespace", "gpu-platform-validation")
    assert namespace.inputs["metadata"]["labels"]["resource.kubernetes.io/admin-access"] == "true"
    pod = recorded.one("DaemonSet", "validate-big").inputs["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "every-gpu", "resourceClaimTemplateName": "every-gpu"}]
    assert "runtimeClassName" not in pod
    assert template.urn in recorded.one("DaemonSet", "validate-big").dependencies


def test_only_the_validators_namespace_has_admin_access(recorded: Recorded) -> None:
    label = "resource.kubernetes.io/admin-access"
    marked = [one.name for one in recorded.of("Namespace") if label in one.inputs["metadata"].get("labels", {})]
    assert marked == ["gpu-platform-validation"]


def test_team_members_may_create_claims_within_the_quota(recorded: Recorded) -> None:
    role = recorded.one("Role", "team-member")
    rule = next(one for one in role.inputs["rules"] if one["apiGroups"] == ["resource.k8s.io"])
    assert set(rule["resources"]) == {"resourceclaims", "resourceclaimtemplates"}
    quota = recorded.one("ResourceQuota", "gpu-quota")
    assert quota.inputs["spec"]["hard"]["gpu.nvidia.com.deviceclass.resource.k8s.io/devices"] == "4"
    assert quota.inputs["spec"]["hard"]["large-gpu.deviceclass.resource.k8s.io/devices"] == "0"

"""Teams have a quota for every GPU resource that the pools offer."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    cluster_policy,
    device_plugin_config_map,
    helm_release,
    layout,
    mig_node,
    mig_parted_config_map,
    namespace,
    node,
    not_checked,
    only,
    quota,
    record,
    report_of,
    shared,
    violations,
    with_strategy,
)

RULE = "gpu-namespace-quota"
PLATFORM = [
    node("train-0"),
    node("serve-0", workload="inference", machine_type="g5.12xlarge"),
    mig_node(),
    cluster_policy(),
    device_plugin_config_map(
        train="version: v1\nflags: {migStrategy: none}", serve=shared(), notebooks=with_strategy("mixed")
    ),
    mig_parted_config_map(layout("notebooks", g1_10gb=7)),
]
EVERY = {
    "requests.nvidia.com/gpu": "8",
    "requests.nvidia.com/gpu.shared": "4",
    "requests.nvidia.com/mig-1g.10gb": "0",
}


def test_a_quota_for_every_gpu_resource_of_the_pools_passes():
    assert violations(RULE, *PLATFORM, namespace(), quota(EVERY)) == []


def test_two_quotas_may_share_the_work():
    halves = (
        quota({"requests.nvidia.com/gpu": "8"}),
        quota({key: value for key, value in EVERY.items() if key != "requests.nvidia.com/gpu"}),
    )
    assert violations(RULE, *PLATFORM, namespace(), *halves) == []


def test_a_mig_resource_that_no_quota_names_is_found():
    partial = quota({"requests.nvidia.com/gpu": "8", "requests.nvidia.com/gpu.shared": "4"})
    found = only(violations(RULE, *PLATFORM, namespace(), partial))
    assert found.problem.path == 'metadata.labels["gpu-platform.dev/team"]'
    assert found.problem.found == "no ResourceQuota for nvidia.com/mig-1g.10gb in namespace 'vision'"
    assert '"requests.nvidia.com/mig-1g.10gb": "0"' in found.problem.fix


def test_a_quota_of_another_namespace_does_not_count():
    found = only(violations(RULE, *PLATFORM, namespace(), quota(EVERY, namespace="audio")))
    assert "nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb" in found.problem.found


@pytest.mark.parametrize(
    "scope",
    [
        {"scopes": ["NotTerminating"]},
        {
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["training"]}]
            }
        },
    ],
)
def test_a_quota_with_scopes_covers_only_some_pods_and_does_not_count(scope: dict[str, Any]):
    found = only(violations(RULE, *PLATFORM, namespace(), quota(EVERY, **scope)))
    assert "only within a quota's scopes" in found.problem.found


def test_a_namespace_that_belongs_to_no_team_needs_no_quota():
    assert violations(RULE, *PLATFORM, namespace("monitoring", team=None)) == []


def test_gpus_that_stay_whole_beside_mig_are_offered_too():
    half = """\
        notebooks:
          - {devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 7}}
          - {devices: [2, 3, 4, 5, 6, 7], mig-enabled: false}
        """
    platform = [
        mig_node(),
        cluster_policy(),
        device_plugin_config_map(notebooks=with_strategy("mixed")),
        mig_parted_config_map(half),
    ]
    found = only(violations(RULE, *platform, namespace(), quota({"requests.nvidia.com/mig-1g.10gb": "7"})))
    assert "no ResourceQuota for nvidia.com/gpu in" in found.problem.found


def test_a_namespace_that_pulumi_names_is_known_by_its_resource_name():
    unnamed = namespace()
    del unnamed["inputs"]["metadata"]["name"]
    assert violations(RULE, *PLATFORM, unnamed, quota(EVERY)) == []


def test_a_namespace_whose_name_is_not_known_yet_is_not_checked():
    unnamed = namespace()
    unnamed["inputs"]["metadata"]["name"] = UNKNOWN
    assert "metadata.name" in not_checked(RULE, *PLATFORM, unnamed, quota(EVERY))


def test_single_strategy_offers_mig_instances_under_a_whole_gpus_name():
    platform = [
        mig_node(),
        cluster_policy(),
        device_plugin_config_map(notebooks=with_strategy("single")),
        mig_parted_config_map(layout("notebooks", g1_10gb=7)),
    ]
    assert violations(RULE, *platform, namespace(), quota({"requests.nvidia.com/gpu": "7"})) == []


def test_a_team_stack_names_the_resources_in_the_configuration():
    stack = [namespace(), quota({"requests.nvidia.com/gpu": "8"})]
    assert violations(RULE, *stack, resources=["nvidia.com/gpu"]) == []
    found = violations(RULE, *stack, resources=["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
    assert "nvidia.com/mig-1g.10gb" in only(found).problem.found


def test_a_team_stack_without_pools_only_needs_some_gpu_quota():
    assert "list their resources" in not_checked(RULE, namespace(), quota({"requests.nvidia.com/gpu": "8"}))
    found = report_of(RULE, namespace(), quota({"cpu": "8"}))
    assert "no ResourceQuota for nvidia.com/gpu" in only(list(found.violations)).problem.found


def test_a_quota_that_is_not_known_yet_is_not_checked():
    assert "spec.hard" in not_checked(RULE, *PLATFORM, namespace(), quota(UNKNOWN))


def test_a_missing_quota_stands_though_another_pool_cannot_be_seen():
    hidden = node("other-0", labels={"nvidia.com/mig.config": UNKNOWN})
    found = report_of(RULE, *PLATFORM, hidden, namespace(), quota({"requests.nvidia.com/gpu": "8"}))
    assert "nvidia.com/gpu.shared" in only(list(found.violations)).problem.found
    assert len(found.not_checked) == 1


GPU_CLUSTER = record("kubernetes:nvidia.com/v1alpha1:GPUCluster", "gpu-cluster", {"spec": {}})
DEVICE_CLASS = record(
    "kubernetes:resource.k8s.io/v1:DeviceClass", "large-gpu", {"metadata": {"name": "large-gpu"}, "spec": {}}
)
OF_CLASSES = {
    f"{name}.deviceclass.resource.k8s.io/devices": "0"
    for name in ("gpu.nvidia.com", "mig.nvidia.com", "large-gpu")
}


@pytest.mark.parametrize("allocator", [GPU_CLUSTER, helm_release({"gpuCluster": {"deployCR": True}})])
def test_with_dra_a_quota_names_every_device_class_that_claims_can_name(allocator: Record):
    stack = [node("big-0"), allocator, DEVICE_CLASS, namespace()]
    assert violations(RULE, *stack, quota(OF_CLASSES)) == []
    of_driver = {key: value for key, value in OF_CLASSES.items() if not key.startswith("large")}
    found = only(violations(RULE, *stack, quota(of_driver))).problem
    assert found.found == "no ResourceQuota for large-gpu in namespace 'vision'"
    assert '"large-gpu.deviceclass.resource.k8s.io/devices": "0"' in found.fix
    extended = only(violations(RULE, *stack, quota({"requests.nvidia.com/gpu": "8"}))).problem
    assert all(name in extended.found for name in ("gpu.nvidia.com", "mig.nvidia.com", "large-gpu"))


def test_a_teams_stack_is_compared_with_the_device_classes_that_its_settings_name():
    alone = [namespace(), quota(OF_CLASSES)]
    assert violations(RULE, *alone, resources=["gpu.nvidia.com", "large-gpu"]) == []
    assert only(violations(RULE, namespace(), quota({"pods": "1"}), resources=["gpu.nvidia.com"]))

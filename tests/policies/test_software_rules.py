"""Rules about incompatible software versions, and about autoscaling on metrics that do not exist."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    cluster_policy,
    gke_node_pool,
    helm_release,
    kubernetes,
    node,
    not_checked,
    only,
    record,
    violations,
)

COMPATIBLE = "driver-compatible"


def eks_cluster(version: Any) -> Record:
    return record("aws:eks/cluster:Cluster", "ml-prod", {"version": version})


def test_the_default_driver_on_a_supported_cluster_passes():
    assert violations(COMPATIBLE, cluster_policy(), eks_cluster("1.35"), node()) == []
    assert violations(COMPATIBLE, helm_release({}), eks_cluster("1.35"), node()) == []


@pytest.mark.parametrize("version", ["1.33", "1.36"])
def test_the_first_and_the_last_version_of_the_operators_range_pass(version: str):
    assert violations(COMPATIBLE, cluster_policy(), eks_cluster(version)) == []


@pytest.mark.parametrize("version", ["1.20", "1.50"])
def test_a_cluster_outside_the_operators_range_is_found(version: str):
    found = only(violations(COMPATIBLE, cluster_policy(), eks_cluster(version)))
    assert found.problem.path == "version"
    assert found.resource.endswith("ml-prod")


def test_a_version_with_a_build_is_read_by_its_minor():
    cluster = record("gcp:container/cluster:Cluster", "ml", {"minMasterVersion": "1.20.4-gke.100"})
    assert only(violations(COMPATIBLE, cluster_policy(), cluster))


def test_a_driver_that_the_release_does_not_list_is_found():
    found = only(violations(COMPATIBLE, cluster_policy(driver={"enabled": True, "version": "580.1.1"})))
    assert found.problem.path == "spec.driver.version"


def test_a_driver_older_than_the_gpu_is_found():
    old = cluster_policy(driver={"enabled": True, "version": "470.57.02"})
    found = violations(COMPATIBLE, old, node(machine_type="p6-b200.48xlarge"))
    assert any("driver branch 470 for NVIDIA B200" in one.problem.found for one in found)


def test_the_driver_of_the_node_image_is_not_the_operators_matter():
    off = cluster_policy(driver={"enabled": False, "version": "470.57.02"})
    assert violations(COMPATIBLE, off, node(machine_type="p6-b200.48xlarge"), gke_node_pool()) == []


def test_a_release_that_is_not_known_is_not_checked():
    policy = cluster_policy()
    policy["inputs"]["metadata"]["labels"]["app.kubernetes.io/version"] = "v99.1.0"
    assert "not in the catalogue" in not_checked(COMPATIBLE, policy)
    del policy["inputs"]["metadata"]["labels"]
    assert "not visible" in not_checked(COMPATIBLE, policy)
    assert "version" in not_checked(COMPATIBLE, cluster_policy(), eks_cluster(UNKNOWN))


# -- keda-null-scaledown ----------------------------------------------------------------------------------


def scaled(query: str = "avg(DCGM_FI_DEV_GPU_UTIL)", type_: str = "prometheus", **metadata: Any) -> Record:
    trigger = {"type": type_, "metadata": {"query": query, **metadata}}
    return kubernetes("keda.sh/v1alpha1:ScaledObject", "ranker", {"triggers": [trigger]})


@pytest.mark.parametrize("metadata", [{}, {"ignoreNullValues": "true"}, {"ignoreNullValues": True}])
def test_a_gpu_metric_whose_absence_counts_as_zero_is_found(metadata: dict[str, Any]):
    assert only(violations("keda-null-scaledown", scaled(**metadata)))


def test_a_gpu_metric_whose_absence_is_an_error_passes():
    assert (
        violations("keda-null-scaledown", scaled(ignoreNullValues="false"), scaled(ignoreNullValues=False)) == []
    )


def test_other_metrics_and_scalers_are_left_alone():
    assert (
        violations("keda-null-scaledown", scaled(query="rate(http_requests_total[1m])"), scaled(type_="cpu")) == []
    )
    assert "ignoreNullValues" in not_checked("keda-null-scaledown", scaled(ignoreNullValues=UNKNOWN))

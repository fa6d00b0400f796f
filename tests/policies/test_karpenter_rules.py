"""Rules about Karpenter: limits, disruption of training nodes, and device claims."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    deployment,
    eks_node_group,
    helm_release,
    job,
    karpenter_node_pool,
    not_checked,
    only,
    pod_spec,
    violations,
)


def pool(limits: Any = None, disruption: Any = None, workload: str = "training") -> Record:
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}]
    found = karpenter_node_pool(requirements)
    spec = found["inputs"]["spec"]
    spec["limits"], spec["disruption"] = limits, disruption
    spec["template"]["metadata"]["labels"] = {
        "gpu-platform.dev/pool": "train",
        "gpu-platform.dev/workload": workload,
    }
    return found


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "8"}, {"nodes": "2"}, {"cpu": "1000"}])
def test_any_limit_bounds_a_gpu_pool(limits: Record):
    assert violations("karpenter-gpu-limits", pool(limits)) == []


@pytest.mark.parametrize("limits", [None, {}, {"ephemeral-storage": "1Ti"}])
def test_a_gpu_pool_without_limits_is_found(limits: Any):
    assert only(violations("karpenter-gpu-limits", pool(limits))).severity == "critical"


def test_limits_that_are_not_known_are_not_checked_and_cpu_pools_need_none():
    assert "limits" in not_checked("karpenter-gpu-limits", pool(UNKNOWN))
    cpu = karpenter_node_pool(
        [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7i.large"]}]
    )
    del cpu["inputs"]["spec"]["limits"]
    assert violations("karpenter-gpu-limits", cpu) == []


def test_a_training_pool_that_is_consolidated_while_used_is_found():
    rule = "karpenter-consolidation"
    assert only(violations(rule, pool(disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"})))
    assert "(default)" in only(violations(rule, pool())).problem.found
    assert (
        violations(rule, pool(disruption={"consolidationPolicy": "WhenEmpty"}), pool(workload="inference")) == []
    )
    assert "consolidationPolicy" in not_checked(rule, pool(disruption={"consolidationPolicy": UNKNOWN}))


def test_a_training_job_on_karpenters_nodes_that_may_be_evicted_is_found():
    rule, keep = "karpenter-do-not-disrupt", "karpenter.sh/do-not-disrupt"
    assert only(violations(rule, pool(), job()))
    assert only(violations(rule, pool(), job(annotations={keep: "false"})))
    assert violations(rule, pool(), job(annotations={keep: "true"})) == []
    assert "do-not-disrupt" in not_checked(rule, pool(), job(annotations={keep: UNKNOWN}))


def test_services_and_jobs_on_other_nodes_may_be_disrupted():
    assert violations("karpenter-do-not-disrupt", pool(workload="inference"), deployment(pod_spec())) == []
    assert violations("karpenter-do-not-disrupt", eks_node_group(), job()) == []


CLAIM = deployment(pod_spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]))


def karpenter(**settings: Any) -> Record:
    return helm_release({"settings": settings}, chart="oci://public.ecr.aws/karpenter/karpenter")


def test_claims_on_karpenters_nodes_need_its_setting():
    rule = "dra-with-karpenter"
    assert only(violations(rule, pool(), CLAIM))
    assert only(violations(rule, pool(), karpenter(), CLAIM))
    assert violations(rule, pool(), karpenter(enableDRA=True), CLAIM) == []
    assert "enableDRA" in not_checked(rule, pool(), karpenter(enableDRA=UNKNOWN), CLAIM)


def test_claims_that_other_nodes_can_serve_pass():
    assert violations("dra-with-karpenter", pool(), eks_node_group(), CLAIM) == []
    assert violations("dra-with-karpenter", pool(), job()) == []

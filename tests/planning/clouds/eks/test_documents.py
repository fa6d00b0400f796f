"""IAM policies, user data, tags and objects are compared with their size limits before a deployment."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components._kubernetes_object import KubernetesObject
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.documents import Document, check_documents, policy_size
from gpu_platform.planning.clouds.eks.karpenter_controller import controller_policy
from gpu_platform.planning.problems import Problems
from tests.planning.clouds.eks.test_cluster import KARPENTER, SERVE, cloud, created, plan

KEYS = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f"


def karpenter_pools(count: int) -> list[dict[str, Any]]:
    return [
        {**KARPENTER, "name": f"pool{index}", "disk": {"kms_key": f"{KEYS}{index % 10}{index // 10}"}}
        for index in range(count)
    ]


def test_many_disk_keys_fit_the_policy_of_karpenter() -> None:
    made = cloud(created(), *karpenter_pools(20)).karpenter
    assert made is not None
    role, queue = "arn:aws:iam::123456789012:role/n", "arn:aws:sqs:us-east-2:123456789012:q"
    policy = controller_policy("us-east-2", "c" * 63, role, queue, made.disk_keys)
    assert len(made.disk_keys) == 20
    assert policy_size(*policy["Statement"]) <= 10_240


def test_a_policy_of_karpenter_above_the_limit_is_refused() -> None:
    with pytest.raises(Exception, match=r"pools: found 80 disk keys make a policy of Karpenter of .* characters"):
        plan(created(), *karpenter_pools(80))


def test_every_document_of_a_plan_is_measured_against_a_limit_of_the_catalogue() -> None:
    catalog, problems = load_catalog(), Problems()
    for limit in catalog.limits.values():
        over = Document(limit=limit.name, place="pools", what="it", size=limit.most + 1, fix="write less")
        check_documents([over], catalog, problems)
    assert [problem.path for problem in problems.found] == ["pools"] * len(catalog.limits)
    assert plan(created(), SERVE).cluster.cloud is not None


@pytest.mark.parametrize("pool", [SERVE, KARPENTER], ids=["managed", "karpenter"])
def test_more_tags_than_an_instance_takes_are_refused(pool: dict[str, Any]) -> None:
    tags = {f"company-{number}": "value" for number in range(34)}
    with pytest.raises(BadInput, match=r"pools\[0\]\.tags: found instances with tags .* of 5\d tags"):
        plan(created(tags=tags), {**pool, "tags": {f"pool-{number}": "value" for number in range(9)}})


def test_a_tag_of_pool_and_cluster_counts_once() -> None:
    tags = {f"company-{number}": "value" for number in range(38)}
    assert plan(created(tags=tags), {**SERVE, "tags": {f"company-{number}": "other" for number in range(9)}})


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"name": "big"}, "data": {"text": "x" * 1_048_576}},
        {"metadata": {"name": "big", "annotations": {"text": "x" * 262_144}}},
    ],
    ids=["data", "annotations"],
)
def test_an_object_that_kubernetes_does_not_store_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(pulumi.RunError, match="at most"):
        KubernetesObject("big", "v1/ConfigMap", **fields)


@pytest.mark.parametrize("pool", [SERVE, KARPENTER], ids=["managed", "karpenter"])
def test_user_data_leaves_room_for_what_eks_or_karpenter_adds(pool: dict[str, Any]) -> None:
    def with_sysctls(number: int) -> dict[str, Any]:
        sysctls = {f"net.ipv4.conf.eth{index}.parameter": "1 " * 40 for index in range(number)}
        return {**pool, "bootstrap": {"commands": ["x" * 3_300] * 3}, "tuning": {"sysctls": sysctls}}

    plan(created(), with_sysctls(10))
    with pytest.raises(BadInput, match=r"pools\[0\]\.bootstrap: found user data of 1[67],\d{3} bytes"):
        plan(created(), with_sysctls(30))

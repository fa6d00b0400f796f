"""Facts about an existing EKS cluster, compared with the requirements of the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.existing_cluster import (
    ExistingEksFacts,
    check_looked_up,
    network_policy_warning,
)
from tests.planning.clouds.eks.test_cluster import KARPENTER, SERVE, TRAIN, cloud, eks

ZONE = "us-east-2a"
GOOD = ExistingEksFacts(
    kubernetes="1.34",
    authentication_mode="API",
    vpc_cni="v1.20.4-eksbuild.2",
    subnets={ZONE: ("subnet-0a1b2c3d",)},
    all_subnets=("subnet-0a1b2c3d",),
)
EFA = {**TRAIN, "zones": [ZONE]}


def needed(*pools: dict[str, Any], **rest: Any) -> EksClusterPlan:
    return cloud(eks(**rest), *(pools or (EFA,)))


def found_problems(found: ExistingEksFacts, plan: EksClusterPlan) -> dict[str, str]:
    return {one.path: str(one) for one in check_looked_up(found, plan)}


def test_a_cluster_as_the_pools_need_it_has_no_problems() -> None:
    assert check_looked_up(GOOD, needed(kubernetes="1.34")) == []


def test_auto_mode_and_ipv6_are_problems() -> None:
    assert "EKS Auto Mode" in found_problems(replace(GOOD, auto_mode=True), needed())["cluster.name"]
    assert "ipFamily ipv4" in found_problems(replace(GOOD, ip_family="ipv6"), needed())["cluster.name"]


def test_a_version_other_than_the_stack_says_is_a_problem() -> None:
    found = found_problems(replace(GOOD, kubernetes="1.35"), needed(kubernetes="1.34"))
    assert list(found) == ["cluster.kubernetes"]
    assert "'1.35', the version of cluster ml" in found["cluster.kubernetes"]


@pytest.mark.parametrize("version", ["1.32", "1.37"])
def test_a_version_outside_the_operators_matrix_is_a_problem(version: str) -> None:
    found = found_problems(replace(GOOD, kubernetes=version), needed())
    assert "1.33 to 1.36: the versions that GPU Operator v26.7.0 supports" in found["cluster.kubernetes"]


@pytest.mark.parametrize("version", ["v1.18.4-eksbuild.9", "v1.9.10-eksbuild.1", "1.18.3"])
def test_eks_9_a_vpc_cni_before_1_18_5_is_a_problem_for_efa_only(version: str) -> None:
    found = found_problems(replace(GOOD, vpc_cni=version), needed())
    assert list(found) == ["cluster.name"]
    assert "VPC CNI 1.18.5 or newer" in found["cluster.name"]


@pytest.mark.parametrize("version", ["v1.18.5-eksbuild.1", "v1.20.0-eksbuild.1", None])
def test_eks_9_a_newer_vpc_cni_and_one_that_nobody_can_say_are_none(version: str | None) -> None:
    assert found_problems(replace(GOOD, vpc_cni=version), needed()) == {}


def test_an_old_vpc_cni_is_no_problem_where_no_pool_has_efa() -> None:
    assert found_problems(replace(GOOD, vpc_cni="v1.12.0-eksbuild.1"), needed({**SERVE, "zones": [ZONE]})) == {}


@pytest.mark.parametrize(
    ("configuration", "warned"),
    [
        ("", True),
        ('{"env": {"WARM_PREFIX_TARGET": "1"}}', True),
        ('{"enableNetworkPolicy": "false"}', True),
        ('{"enableNetworkPolicy": "true"}', False),
        ("enableNetworkPolicy: true\n", False),
        ("- not a mapping", True),
    ],
)
def test_a_vpc_cni_without_network_policies_is_a_warning(configuration: str, warned: bool) -> None:
    found = network_policy_warning(replace(GOOD, vpc_cni_configuration=configuration), needed())
    assert (found is not None) == warned
    assert network_policy_warning(replace(GOOD, vpc_cni=None, vpc_cni_configuration=""), needed()) is None


def test_the_fix_keeps_the_add_ons_existing_configuration() -> None:
    own = '{"env": {"ENABLE_PREFIX_DELEGATION": "true"}}'
    found = network_policy_warning(replace(GOOD, vpc_cni_configuration=own), needed())
    assert found is not None
    assert (
        '--configuration-values \'{"env": {"ENABLE_PREFIX_DELEGATION": "true"}, "enableNetworkPolicy": "true"}\''
        in found.fix
    )


def test_karpenter_needs_access_entries_and_managed_node_groups_do_not() -> None:
    config_map = replace(GOOD, authentication_mode="CONFIG_MAP")
    assert "CONFIG_MAP" in found_problems(config_map, needed(KARPENTER))["cluster.name"]
    assert found_problems(config_map, needed(EFA)) == {}
    assert found_problems(replace(GOOD, authentication_mode="API_AND_CONFIG_MAP"), needed(KARPENTER)) == {}


def test_a_zone_without_a_private_subnet_is_a_problem() -> None:
    found = found_problems(replace(GOOD, subnets={ZONE: ()}), needed())
    assert "no subnet in us-east-2a" in found["cluster.subnets"]


def test_a_zone_with_several_private_subnets_is_a_problem_that_names_them() -> None:
    found = found_problems(replace(GOOD, subnets={ZONE: ("subnet-2", "subnet-1")}), needed())
    assert "2 subnets in us-east-2a: subnet-1, subnet-2" in found["cluster.subnets"]
    assert "subnets: {us-east-2a: subnet-...}" in found["cluster.subnets"]


def test_pools_that_name_no_zone_need_a_private_subnet_somewhere() -> None:
    nowhere = replace(GOOD, subnets={}, all_subnets=())
    assert "pools that name no zones" in found_problems(nowhere, needed(SERVE))["cluster.subnets"]
    assert found_problems(replace(nowhere, subnets=GOOD.subnets), needed(EFA)) == {}


def test_all_problems_come_together() -> None:
    bad = ExistingEksFacts(
        kubernetes="1.30",
        authentication_mode="CONFIG_MAP",
        vpc_cni="v1.12.0-eksbuild.1",
        subnets={ZONE: ()},
        all_subnets=(),
    )
    assert len(check_looked_up(bad, needed(EFA, KARPENTER, kubernetes="1.34"))) == 6


def test_logins_without_access_entries_are_a_message_to_the_owner() -> None:
    logins = [{"principal": "arn:aws:iam::123456789012:role/vision", "groups": ["vision"]}]
    plan = needed(logins=logins)
    found = found_problems(replace(GOOD, authentication_mode="CONFIG_MAP"), plan)
    assert list(found) == ["cluster.logins"]
    assert "authenticationMode=API_AND_CONFIG_MAP" in found["cluster.logins"]
    assert "aws-auth" in found["cluster.logins"]
    for mode in ("API", "API_AND_CONFIG_MAP"):
        assert found_problems(replace(GOOD, authentication_mode=mode), plan) == {}

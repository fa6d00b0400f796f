"""An existing cluster is looked up and checked before it is passed to its pools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from components.eks.cluster import EksCluster
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from tests.components.eks.known_aws import Answer, KnownAws, deploy
from tests.support.eks_stacks import EXISTING, plan_eks

ZONE = "us-east-2b"
TRAIN = {"zones": [ZONE]}
LOOKED_UP = {key: value for key, value in EXISTING.items() if key != "subnets"}
CLUSTER: Mapping[str, Any] = {
    "name": "ml",
    "version": "1.34",
    "endpoint": "https://ABC.gr7.us-east-2.eks.amazonaws.com",
    "certificateAuthorities": [{"data": "Q0E="}],
    "accessConfigs": [{"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}],
    "kubernetesNetworkConfigs": [{"serviceIpv4Cidr": "10.100.0.0/16"}],
    "vpcConfig": {"vpcId": "vpc-1", "clusterSecurityGroupId": "sg-c1u5te2"},
}
SUBNETS = {"us-east-2a": ["subnet-a"], ZONE: ["subnet-b"]}


def answers(
    cluster: Mapping[str, Any] = CLUSTER,
    subnets: Mapping[str, list[str]] = SUBNETS,
    vpc_cni: str | None = "v1.20.4-eksbuild.2",
) -> dict[str, Answer]:
    def find_subnets(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        filters = {one["name"]: one["values"] for one in arguments["filters"]}
        assert filters["vpc-id"] == ["vpc-1"]
        assert arguments["tags"] == {"kubernetes.io/role/internal-elb": "1"}
        (pattern,) = filters["availability-zone"]  # `?` has the same meaning in EC2 and in fnmatch
        return {"ids": [one for zone, ids in subnets.items() if fnmatch(zone, pattern) for one in ids]}

    return {
        "getCluster": lambda _: cluster,
        "getSubnets": find_subnets,
        "getAddon": lambda _: None if vpc_cni is None else {"addonVersion": vpc_cni},
    }


def plan(*pools: dict[str, Any], **cluster: Any) -> EksClusterPlan:
    found = plan_eks(*(pools or (TRAIN,)), cluster={**LOOKED_UP, **cluster}).cluster.cloud
    assert isinstance(found, EksClusterPlan)
    return found


def look_up(needed: EksClusterPlan, known: Mapping[str, Answer]) -> tuple[KnownAws, dict[str, Any]]:
    def program() -> pulumi.Output[Any]:
        found = EksCluster(
            "ml", needed, pulumi.ResourceOptions(providers=[aws.Provider("ml", region="us-east-2")])
        )
        return pulumi.Output.all(
            name=found.outputs.name,
            subnets=found.outputs.subnet_ids,
            every=found.outputs.all_subnet_ids,
            group=found.outputs.cluster_security_group_id,
            services=found.outputs.service_cidr,
            kubeconfig=found.kubeconfig,
        )

    return deploy(program, known)


def test_pools_get_the_subnet_of_their_zone_and_the_groups_of_the_cluster() -> None:
    made, found = look_up(plan(), answers())
    assert found["name"] == "ml"
    assert found["subnets"] == {ZONE: "subnet-b"}
    assert found["every"] == []
    assert found["group"] == "sg-c1u5te2"
    assert found["services"] == "10.100.0.0/16"
    assert [group["vpcId"] for group in made.of("SecurityGroup")] == ["vpc-1"]


def test_pools_that_name_no_zone_get_the_private_subnets_of_all() -> None:
    _, found = look_up(plan({"machine_type": "g6e.12xlarge", "workload": "inference"}), answers())
    assert found["every"] == ["subnet-a", "subnet-b"]
    with pytest.raises(pulumi.RunError, match="at least one private subnet"):
        look_up(plan({"machine_type": "g6e.12xlarge", "workload": "inference"}), answers(subnets={}))


def test_pools_that_name_no_zone_get_no_subnet_of_a_local_zone() -> None:
    anywhere = {"machine_type": "g6e.12xlarge", "workload": "inference"}
    local = {"us-east-2-dfw-2a": ["subnet-l"]}
    _, found = look_up(plan(anywhere), answers(subnets={**SUBNETS, **local}))
    assert found["every"] == ["subnet-a", "subnet-b"]
    declared = {ZONE: "subnet-0a1b2c3d", "us-east-2-dfw-2a": "subnet-1a1b2c3d"}
    _, found = look_up(plan(anywhere, subnets=declared), answers())
    assert found["every"] == ["subnet-0a1b2c3d"]


def test_subnets_that_the_stack_names_are_not_looked_up() -> None:
    def refuse(_: Mapping[str, Any]) -> Mapping[str, Any]:
        raise AssertionError("looked up")

    _, found = look_up(plan(subnets={ZONE: "subnet-0a1b2c3d"}), {**answers(), "getSubnets": refuse})
    assert found["subnets"] == {ZONE: "subnet-0a1b2c3d"}
    assert found["every"] == ["subnet-0a1b2c3d"]


def test_the_kubeconfig_runs_aws_eks_get_token_and_holds_no_token() -> None:
    _, found = look_up(plan(), answers())
    config = json.loads(found["kubeconfig"])
    assert config["clusters"][0]["cluster"]["server"] == CLUSTER["endpoint"]
    user = config["users"][0]["user"]
    assert list(user) == ["exec"]
    assert user["exec"]["command"] == "aws"
    assert user["exec"]["args"][:6] == ["--region", "us-east-2", "eks", "get-token", "--cluster-name", "ml"]


@pytest.mark.parametrize(
    ("known", "what"),
    [
        (answers(cluster={**CLUSTER, "version": "1.30"}), "'1.30' on ml"),
        (answers(subnets={"us-east-2a": ["subnet-a"]}), "no subnet in us-east-2b"),
        (answers(subnets={ZONE: ["subnet-b", "subnet-c"]}), "2 subnets in us-east-2b"),
        (answers(vpc_cni="v1.18.4-eksbuild.1"), "VPC CNI v1.18.4-eksbuild.1"),
    ],
)
def test_a_cluster_that_does_not_support_the_pools_is_refused(known: Mapping[str, Answer], what: str) -> None:
    with pytest.raises(pulumi.RunError) as error:
        look_up(plan(), known)
    assert "EKS cluster ml: 1 problem" in str(error.value)
    assert what in str(error.value)


def test_nothing_gets_the_clusters_name_before_the_check_has_passed() -> None:
    passed: list[str] = []
    needed = plan()

    def program() -> pulumi.Output[str]:
        found = EksCluster(
            "ml", needed, pulumi.ResourceOptions(providers=[aws.Provider("ml", region="us-east-2")])
        )
        found.outputs.name.apply(passed.append)
        found.outputs.subnet_ids[ZONE].apply(passed.append)
        found.outputs.vpc_id.apply(passed.append)
        return found.outputs.name

    with pytest.raises(pulumi.RunError):
        deploy(program, answers(cluster={**CLUSTER, "version": "1.30"}))
    assert passed == []


def test_a_vpc_cni_that_is_no_add_on_is_a_warning_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    _, found = look_up(plan(), answers(vpc_cni=None))
    assert found["name"] == "ml"
    assert "EFA-only interfaces need 1.18.5 or newer" in caplog.text


@pytest.mark.parametrize("enforced", [True, False])
def test_a_vpc_cni_without_network_policies_is_warned_about_with_a_fix(
    enforced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    addon = {
        "addonVersion": "v1.20.4-eksbuild.2",
        "configurationValues": f'{{"enableNetworkPolicy": "{enforced}"}}',
    }
    _, found = look_up(plan(), {**answers(), "getAddon": lambda _: addon})
    assert found["name"] == "ml"
    assert ("aws eks update-addon --cluster-name ml --addon-name vpc-cni" in caplog.text) == (not enforced)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_cluster_without_the_agent_that_gives_karpenter_credentials_is_warned_of(
    is_there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def find_addon(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if arguments["addonName"] == "vpc-cni":
            return {"addonVersion": "v1.20.4-eksbuild.2"}
        assert arguments["addonName"] == "eks-pod-identity-agent"
        return {"addonVersion": "v1.3.10-eksbuild.3"} if is_there else None

    develop = {
        "name": "develop",
        "machine_type": "g6.4xlarge",
        "workload": "development",
        "provisioner": "karpenter",
        "count": {"desired": 0, "max": 4},
    }
    _, found = look_up(plan(develop), {**answers(), "getAddon": find_addon})
    assert found["name"] == "ml"
    assert ("eks-pod-identity-agent of ml could not be looked up" in caplog.text) == (not is_there)

"""The settings of a stack's EKS cluster that are refused, and the settings that the program chooses."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import botocore.session
import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.eks.arns import partition_of
from gpu_platform.planning.clouds.eks.cluster import check_eks_cluster
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan, VpcPlan
from gpu_platform.planning.clouds.eks.kubernetes import addon_kubernetes
from gpu_platform.planning.clouds.eks.prerequisites import eks_prerequisites
from gpu_platform.planning.clouds.eks.vpc import PREFIXES, ZONE_LETTERS, zone_subnets
from gpu_platform.planning.clouds.leftovers import LEFTOVERS
from gpu_platform.planning.clouds.vendors import address_pods
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster, Operator
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment

ADMIN = "arn:aws:iam::123456789012:role/platform-admin"
SERVE = {"name": "serve", "machine_type": "g6e.12xlarge", "count": {"desired": 2}, "workload": "inference"}
TRAIN = {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": 2}, "workload": "training"}

KARPENTER = {**SERVE, "name": "develop", "provisioner": "karpenter", "count": {"desired": 0, "max": 2}}


def eks(**rest: Any) -> dict[str, Any]:
    return {"provider": "eks", "name": "ml", "region": "us-east-2", **rest}


def created(create: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    return eks(create={"admins": [ADMIN], **(create or {})}, **rest)


def plan(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    made = plan_platform(environment(*(pools or (SERVE,)), cluster=cluster, **rest), "test")
    assert made.kind == "environment"
    return made


def cloud(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> EksClusterPlan:
    found = plan(cluster, *pools, **rest).cluster.cloud
    assert isinstance(found, EksClusterPlan)
    return found


def create_plan(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> CreateEksPlan:
    found = cloud(cluster, *pools, **rest).create
    assert found is not None
    return found


def vpc_plan(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> VpcPlan:
    found = create_plan(cluster, *pools, **rest).vpc
    assert isinstance(found, VpcPlan)
    return found


def decisions(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> dict[str, tuple[str, str]]:
    found = plan(cluster, *pools, **rest).decisions
    return {one.what: (one.chosen, one.why) for one in found if one.subject == "cluster ml"}


def problems(cluster: dict[str, Any], *pools: dict[str, Any], every: bool = False, **rest: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as error:
        plan(cluster, *pools, **rest)
    places = ("",) if every else ("cluster", "pools")
    return {one.path: str(one) for one in error.value.problems if one.path.startswith(places)}


# -- refused settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["us-west-2a", "us-east-2z"])
def test_a_pool_in_a_zone_that_the_region_has_not_is_refused_once(zone: str) -> None:
    found = problems(created(), {**SERVE, "zones": [zone]})
    assert list(found) == ["pools[0].zones[0]"]
    assert "allowed: a zone of us-east-2" in found["pools[0].zones[0]"]


def test_reserved_capacity_in_a_zone_of_another_region_is_refused() -> None:
    block = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-west-2a"}
    assert list(problems(created(), {**TRAIN, "capacity": block})) == ["pools[0].capacity.zone"]


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "10.0.0.0/15", "10.0.0.0/19", "10.0.0.0/24"])
def test_a_vpc_is_at_most_a_16_and_at_least_an_18(cidr: str) -> None:
    assert cidr in problems(created({"cidr": cidr}))["cluster.create.cidr"]


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.0.0.0/17", "10.0.0.0/18"])
def test_prefixes_between_16_and_18_are_fine(cidr: str) -> None:
    assert vpc_plan(created({"cidr": cidr})).cidr == cidr


def test_each_admin_of_another_account_is_refused() -> None:
    other = "arn:aws:iam::999999999999:role/somebody"
    found = problems(created({"admins": [ADMIN, other]}, account="123456789012"))
    assert list(found) == ["cluster.create.admins[1]"]
    assert "123456789012" in found["cluster.create.admins[1]"]


def test_subnets_are_declared_only_for_an_existing_cluster() -> None:
    found = problems(created(subnets={"us-east-2a": "subnet-0a1b2c3d"}))
    assert "subnets together with create" in found["cluster.subnets"]


def test_further_security_groups_are_declared_only_for_an_existing_cluster() -> None:
    found = problems(created(security_groups=["sg-0a1b2c3d4e5f60718"]))
    assert "only for an existing cluster" in found["cluster.security_groups"]
    assert cloud(eks(security_groups=["sg-0a1b2c3d4e5f60718"])).security_groups == ("sg-0a1b2c3d4e5f60718",)


def test_subnets_that_are_given_name_every_zone_that_pools_name() -> None:
    found = problems(eks(subnets={"us-east-2a": "subnet-0a1b2c3d"}), {**SERVE, "zones": ["us-east-2b"]})
    assert "no subnet in us-east-2b, where pool serve is" in found["cluster.subnets"]
    assert cloud(eks(subnets={"us-east-2b": "subnet-0a1b2c3d"}), {**SERVE, "zones": ["us-east-2b"]}).subnets


def test_subnets_and_further_zones_lie_in_the_region() -> None:
    assert "eu-west-1a" in problems(eks(subnets={"eu-west-1a": "subnet-0a1b2c3d"}))["cluster.subnets"]
    assert "eu-west-1a" in problems(created({"zones": ["eu-west-1a"]}))["cluster.create.zones"]


def test_a_new_cluster_has_a_version_for_which_add_ons_are_pinned() -> None:
    found = problems(created(kubernetes="1.33"), operator={"release": "v26.3.3"})
    assert ", ".join(addon_kubernetes(load_catalog())) in found["cluster.kubernetes"]


def test_an_existing_clusters_version_ignores_the_pinned_add_ons() -> None:
    assert cloud(eks(kubernetes="1.33")).kubernetes == "1.33"


def test_a_new_cluster_without_a_version_needs_one_that_the_operator_and_eks_share() -> None:
    catalog = load_catalog()
    later = {
        name: addon.model_copy(update={"versions": {"1.40": "v1.40.0-eksbuild.1"}})
        for name, addon in catalog.eks_addons.items()
    }
    found = Problems("cluster")
    cluster = EksCluster.model_validate(created(), strict=False)
    check_eks_cluster(cluster, [], Operator(), replace(catalog, eks_addons=later), found)
    (problem,) = found.found
    assert problem.path == "cluster.kubernetes"
    assert "(1.33 to 1.36)" in problem.allowed
    assert "(1.40)" in problem.allowed


def test_a_region_of_another_partition_is_refused() -> None:
    assert "aws-cn" in problems(eks(region="cn-north-1"))["cluster.region"]


def test_a_right_arn_of_an_unsupported_partition_gets_no_wrong_fix() -> None:
    admin = "arn:aws-eusc:iam::123456789012:role/platform-admin"
    found = problems(created({"admins": [admin]}, region="eusc-de-east-1"))
    assert list(found) == ["cluster.region"]
    assert "aws-eusc" in found["cluster.region"]


def test_all_problems_of_a_cluster_come_in_one_run() -> None:
    cluster = created({"cidr": "10.0.0.0/8", "zones": ["eu-west-1a"]}, kubernetes="1.20", account="999999999999")
    assert {
        "cluster.create.cidr",
        "cluster.create.zones",
        "cluster.kubernetes",
        "cluster.create.admins[0]",
    } <= set(problems(cluster, {**SERVE, "zones": ["us-west-2a"]}))


# -- chosen settings ------------------------------------------------------------------------------------------


def test_the_newest_version_that_eks_and_the_operator_share_is_chosen() -> None:
    catalog = load_catalog()
    highest = catalog.operator_releases["v26.3.1"].kubernetes[1]
    assert highest in addon_kubernetes(catalog)
    assert highest != addon_kubernetes(catalog)[-1]
    chosen, why = decisions(created(), operator={"release": "v26.3.1"})["Kubernetes"]
    assert chosen == highest
    assert "v26.3.1" in why
    assert plan(created(), operator={"release": "v26.3.1"}).cluster.kubernetes == highest


def test_a_version_that_is_written_is_kept_and_is_no_decision() -> None:
    assert cloud(created(kubernetes="1.34")).kubernetes == "1.34"
    assert "Kubernetes" not in decisions(created(kubernetes="1.34"))


def test_the_vpc_has_the_zones_of_the_pools_and_those_that_the_stack_adds() -> None:
    vpc = vpc_plan(created({"zones": ["us-east-2c"]}), {**SERVE, "zones": ["us-east-2b"]})
    assert [zone.zone for zone in vpc.zones] == ["us-east-2b", "us-east-2c"]


def test_missing_zones_are_derived_by_letter_up_to_the_required_two() -> None:
    one_zone = {**SERVE, "zones": ["us-east-2b"]}
    vpc = vpc_plan(created(), one_zone)
    assert [zone.zone for zone in vpc.zones] == ["us-east-2a", "us-east-2b"]
    chosen, why = decisions(created(), one_zone)["zones"]
    assert chosen == "us-east-2a, us-east-2b"
    assert "us-east-2a added in alphabetical order" in why
    assert "create.zones" in why


def test_zones_that_follow_from_pools_are_said_to_be_worth_writing_down() -> None:
    said = "declare all zones in create.zones"
    assert said in decisions(created(), {**SERVE, "zones": ["us-east-2b"]})["zones"][1]
    written = created({"zones": ["us-east-2a", "us-east-2b"]})
    assert said not in decisions(written, {**SERVE, "zones": ["us-east-2b"]})["zones"][1]


def test_pools_that_name_no_zone_get_a_vpc_over_two() -> None:
    assert [zone.zone for zone in vpc_plan(created()).zones] == ["us-east-2a", "us-east-2b"]


@pytest.mark.parametrize("prefix", range(PREFIXES[0], PREFIXES[1] + 1))
def test_subnets_never_overlap_and_private_ones_fit_thousands_of_pods(prefix: int) -> None:
    cidr = f"10.0.0.0/{prefix}"
    zones = [zone_subnets(cidr, f"us-east-1{letter}") for letter in ZONE_LETTERS]
    networks = [IPv4Network(text) for zone in zones for text in (zone.private_cidr, zone.public_cidr)]
    assert all(network.subnet_of(IPv4Network(cidr)) for network in networks)
    assert not any(one.overlaps(other) for i, one in enumerate(networks) for other in networks[i + 1 :])
    assert all(IPv4Network(zone.private_cidr).num_addresses >= 2048 for zone in zones)


def test_a_further_zone_moves_no_other_zones_addresses() -> None:
    late = {**SERVE, "zones": ["us-east-2b", "us-east-2c"]}
    before = {zone.zone: zone for zone in vpc_plan(created(), late).zones}
    after = {zone.zone: zone for zone in vpc_plan(created({"zones": ["us-east-2a"]}), late).zones}
    assert before.items() < after.items()


@pytest.mark.parametrize(
    ("cluster", "nat"),
    [
        (created(), "per-zone"),
        (created(production=False), "one"),
        (created({"nat": "one"}), "one"),
        (created({"nat": "per-zone"}, production=False), "per-zone"),
    ],
)
def test_nat_is_per_zone_in_production_unless_the_stack_says_otherwise(cluster: dict[str, Any], nat: str) -> None:
    assert vpc_plan(cluster).nat == nat
    assert decisions(cluster)["NAT gateways"][0] == nat


def test_an_api_server_that_nobody_outside_may_reach_is_a_decision() -> None:
    chosen, why = decisions(created())["warning: API server"]
    assert chosen == "private for its nodes and pods; public for no network"
    assert "the first `up`" in why
    problem = cloud(created()).first_up_problem
    assert problem is not None
    assert problem.path == "cluster.create.api_access"
    assert cloud(created({"api_access": ["203.0.113.0/24"]})).first_up_problem is None
    assert cloud(eks()).first_up_problem is None
    assert decisions(created({"api_access": ["203.0.113.0/24"]}))["API server"][0].endswith("203.0.113.0/24")


def test_production_is_protected_and_names_what_destroy_leaves_behind() -> None:
    production = cloud(created())
    assert production.protect
    assert any("/aws/eks/ml/cluster" in text for text in production.retained)
    assert any("KMS key" in text for text in production.retained)
    unprotected = cloud(created(protect=False))
    assert not unprotected.protect
    assert unprotected.retained == production.retained
    trial = cloud(created(production=False))
    assert not trial.protect
    assert not any("KMS" in text or "log group" in text for text in trial.retained)
    assert production.retained[-1] == trial.retained[-1] == LEFTOVERS
    assert cloud(eks()).retained == ()


def test_node_role_assigns_pod_addresses_only_if_the_cni_may_lack_a_role() -> None:
    names = [policy.rpartition("/")[2] for policy in cloud(created()).node_policies]
    assert names == ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]
    assert cloud(eks()).node_policies[2:] == ("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",)


def test_partitions_of_regions_agree_with_botocore() -> None:
    session = botocore.session.get_session()
    known = {
        region: partition
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("eks", partition)
    }
    assert len(set(known.values())) > 4
    assert {region: partition_of(region) for region in known} == known


def test_arns_have_the_partition_of_the_region() -> None:
    policies = cloud(eks(region="us-gov-west-1")).node_policies
    assert all(policy.startswith("arn:aws-us-gov:") for policy in policies)


def test_efa_and_karpenter_are_planned_only_if_a_pool_uses_them() -> None:
    neither = cloud(created(), SERVE)
    assert (neither.efa, neither.efa_plugin, neither.karpenter) == (False, None, None)
    both = cloud(created(), {**TRAIN, "zones": ["us-east-2a"]}, KARPENTER)
    assert both.efa
    assert both.efa_plugin is not None
    assert both.karpenter is not None


def test_only_node_disks_accept_the_alias_of_a_key() -> None:
    alias = "arn:aws:kms:us-east-2:123456789012:alias/disks"
    system = create_plan(
        created({"system": {"kms_key": alias}}), {**SERVE, "disk": {"kms_key": alias}}
    ).system_pool
    assert system.disk.kms_key == alias
    bucket = {"type": "bucket", "bucket": "acme", "purpose": "checkpoints", "kms_key": alias}
    storage = {"lustre": {"type": "lustre", "kms_key": alias}, "disk": {"type": "disk", "kms_key": alias}}
    fields = problems(created({"kms_key": alias}), storage={**storage, "bucket": bucket}, every=True)
    assert fields.keys() >= {"cluster.create.kms_key", *(f"storage.{one}.kms_key" for one in (*storage, "bucket"))}
    for path, text in fields.items():
        if path.endswith("kms_key"):
            assert f"aws kms describe-key --region us-east-2 --key-id {alias}" in text


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("us-east-2", "602401143452.dkr.ecr.us-east-2.amazonaws.com"),
        ("ap-south-2", "900889452093.dkr.ecr.ap-south-2.amazonaws.com"),
        ("us-gov-west-1", "013241004608.dkr.ecr.us-gov-west-1.amazonaws.com"),
    ],
)
def test_images_of_eks_come_from_the_registry_of_the_cluster_s_region(region: str, registry: str) -> None:
    train = {**TRAIN, "zones": [f"{region}a"]}
    admin = f"arn:{partition_of(region)}:iam::123456789012:role/admin"
    plan = cloud(
        created({"admins": [admin]}, region=region), train, {**train, "name": "dra", "network": {"via": "dranet"}}
    )
    charts = (plan.efa_plugin, plan.dranet)
    images = [chart.values["image"]["repository"] for chart in charts if chart is not None]
    assert images == [f"{registry}/eks/aws-efa-k8s-device-plugin", f"{registry}/eks/dranet"]


# -- add-ons --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kubernetes", addon_kubernetes(load_catalog()))
def test_every_add_on_is_pinned_to_a_build_for_the_version(kubernetes: str) -> None:
    addons = {addon.name: addon for addon in create_plan(created(kubernetes=kubernetes)).addons}
    of_storage = {"aws-efs-csi-driver", "aws-fsx-csi-driver", "aws-mountpoint-s3-csi-driver"}
    assert set(addons) == set(load_catalog().eks_addons) - of_storage
    assert all("-eksbuild." in addon.version for addon in addons.values())
    assert addons["kube-proxy"].version.startswith(f"v{kubernetes}.")


def test_addons_that_nodes_need_come_before_nodes_identity_agent_first() -> None:
    early = [addon.name for addon in create_plan(created()).addons if addon.before_nodes]
    assert early == ["eks-pod-identity-agent", "vpc-cni", "kube-proxy"]


def test_add_ons_that_call_aws_have_a_role_for_their_service_account() -> None:
    roles = {
        addon.name: (addon.service_account, [policy.rpartition("/")[2] for policy in addon.managed_policies])
        for addon in create_plan(created()).addons
        if addon.service_account is not None
    }
    assert roles == {
        "vpc-cni": ("aws-node", ["AmazonEKS_CNI_Policy"]),
        "aws-ebs-csi-driver": ("ebs-csi-controller-sa", ["AmazonEBSCSIDriverPolicyV2"]),
    }


def test_pods_have_addresses_from_prefixes() -> None:
    (vpc_cni,) = [addon for addon in create_plan(created()).addons if addon.name == "vpc-cni"]
    assert vpc_cni.configuration["env"]["ENABLE_PREFIX_DELEGATION"] == "true"
    p5 = load_catalog().machine_types["p5.48xlarge"]
    assert p5.default_enis is not None
    assert p5.ips_per_eni is not None
    # The EFA-only interface on card 0 has no addresses.
    # The other interfaces have too few addresses for all pods, but enough prefixes.
    slots = (p5.default_enis - 1) * (p5.ips_per_eni - 1)
    assert slots == 49
    assert slots < address_pods(p5) - 2 == 98
    assert slots * 16 > 250


@pytest.mark.parametrize("kubernetes", addon_kubernetes(load_catalog()))
def test_eks_9_vpc_cni_1_18_5_or_newer_for_efa_only_is_pinned_on_a_new_cluster(kubernetes: str) -> None:
    pinned = load_catalog().eks_addons["vpc-cni"].versions[kubernetes]
    numbers = tuple(int(part) for part in pinned.removeprefix("v").partition("-")[0].split("."))
    assert numbers >= (1, 18, 5)


def test_eks_9_efa_only_requires_vpc_cni_1_18_5_on_an_existing_cluster() -> None:
    efa = {**TRAIN, "zones": ["us-east-2a"]}
    assert cloud(eks(), efa).minimum_vpc_cni == "1.18.5"
    assert cloud(eks(), SERVE).minimum_vpc_cni is None
    assert cloud(created(), efa).minimum_vpc_cni is None


def test_network_policies_are_enforced_on_a_new_cluster() -> None:
    """The VPC CNI ignores NetworkPolicies unless they are enabled, and teams would then not be isolated."""
    (vpc_cni,) = [addon for addon in create_plan(created()).addons if addon.name == "vpc-cni"]
    assert vpc_cni.configuration["enableNetworkPolicy"] == "true"


def test_too_many_node_groups_or_nodes_are_a_warning_and_a_prerequisite() -> None:
    groups = [{**SERVE, "name": f"serve{index}", "count": {"desired": 0, "max": 1}} for index in range(30)]
    large = {**SERVE, "count": {"desired": 0, "max": 451}}
    for pools, quota, amount in (
        (groups, "Managed node groups per cluster (eks)", 31),
        ([large], "Nodes per managed node group (eks)", 451),
    ):
        chosen, why = decisions(created({"pods_cidr": "100.64.0.0/16"}), *pools)["warning: quota"]
        assert chosen == f"{quota}: {amount}"
        assert "request a higher quota" in why
        needed = eks_prerequisites(cloud(created({"pods_cidr": "100.64.0.0/16"}), *pools), ())
        assert (quota, amount) in {(one.name, one.amount) for one in needed.quotas}
    assert "warning: quota" not in decisions(created())


@pytest.mark.parametrize("age", ["0s", "0h0m", "00m"])
def test_an_age_at_which_nodes_of_karpenter_are_replaced_is_above_zero(age: str) -> None:
    with pytest.raises(BadInput, match=r"pools\[0\]\.karpenter\.expire_after"):
        plan(created(), {**KARPENTER, "karpenter": {"expire_after": age}})
    assert plan(created(), {**KARPENTER, "karpenter": {"expire_after": "0h90m"}})


@pytest.mark.parametrize("pool", [SERVE, KARPENTER], ids=["managed", "karpenter"])
def test_local_zone_nodes_are_priced_with_their_region(pool: dict[str, Any]) -> None:
    def warned(**fields: Any) -> list[str]:
        stack = eks(
            region="us-west-2", subnets={"us-west-2-lax-1a": "subnet-0a1b2c3d", "us-west-2a": "subnet-1a1b2c3d"}
        )
        found = plan(stack, {**pool, **fields}).decisions
        return [one.chosen for one in found if one.what == "warning: price"]

    assert warned(zones=["us-west-2-lax-1a"]) == ["the price of us-west-2 for nodes in us-west-2-lax-1a"]
    assert warned(zones=["us-west-2-lax-1a"], usd_per_hour=5.0) == warned(zones=["us-west-2a"]) == []

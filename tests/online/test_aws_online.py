"""All requests to AWS for one stack, sent to a simulated account in this process."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.online import OnlineFinding
from gpu_platform.online.aws.api import AwsApi, iam_action
from gpu_platform.online.aws.client import CALLS, AwsClient
from gpu_platform.online.aws.lookups import AwsCloud
from gpu_platform.online.finding import NotLookedAt
from gpu_platform.planning.plan import EnvironmentPlan
from tests.support.aws_account import AwsAccount
from tests.support.eks_stacks import CREATED, plan_eks

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
BLOCK = "cr-0f0e0d0c0b0a09080"
P, G = "L-417A185B", "L-DB2E81BA"
REGION = "us-east-2"
OTHER_ACCOUNT = "210987654321"
ROLE = f"arn:aws:iam::{OTHER_ACCOUNT}:role/deployer"
OTHER_CREATE = {"admins": [ROLE]}


@pytest.fixture
def account() -> AwsAccount:
    account = AwsAccount(REGION)
    account.reservations.append(
        {
            "CapacityReservationId": BLOCK,
            "InstanceType": "p5.48xlarge",
            "AvailabilityZone": "us-east-2a",
            "State": "active",
            "ReservationType": "capacity-block",
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 2,
            "EndDate": NOW + timedelta(days=7),
        }
    )
    return account


def ask(account: AwsAccount, plan: EnvironmentPlan) -> list[OnlineFinding]:
    client = AwsClient(REGION, AwsApi(REGION, account.session()))
    cloud = AwsCloud(plan, load_catalog(), NOW, client)
    return [finding for lookup in cloud.lookups() for finding in lookup.findings()]


def by_title(findings: list[OnlineFinding], part: str) -> OnlineFinding:
    (found,) = [finding for finding in findings if part in finding.looked_at]
    return found


def new_cluster(account: AwsAccount, number: str = "123456789012") -> EnvironmentPlan:
    key = account.client("kms").create_key()["KeyMetadata"]["Arn"]
    train = {"type": "capacity-block", "reservation": BLOCK, "zone": "us-east-2a"}
    return plan_eks(
        {"count": {"desired": 2}, "capacity": train, "disk": {"kms_key": key}},
        {
            "name": "serve",
            "machine_type": "g6e.12xlarge",
            "count": {"desired": 1, "max": 4},
            "workload": "inference",
        },
        {"name": "burst", "machine_type": "g6.4xlarge", "capacity": {"type": "spot"}, "workload": "inference"},
        cluster={
            **CREATED,
            "account": number,
            "create": {"admins": [f"arn:aws:iam::{number}:role/platform-admin"]},
        },
    )


def existing_cluster(
    account: AwsAccount, *, public: bool = True, family: str = "ipv4", **rest: Any
) -> EnvironmentPlan:
    """Create a cluster of version 1.34 with a tagged subnet in each of two zones."""
    ec2, eks = account.client("ec2"), account.client("eks")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = []
    for index, zone in enumerate(("us-east-2a", "us-east-2b")):
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=zone)["Subnet"]
        ec2.create_tags(
            Resources=[made["SubnetId"]], Tags=[{"Key": "kubernetes.io/role/internal-elb", "Value": "1"}]
        )
        subnets.append(made["SubnetId"])
    eks.create_cluster(
        name="ml",
        version="1.34",
        roleArn="arn:aws:iam::123456789012:role/eks",
        resourcesVpcConfig={
            "subnetIds": subnets,
            "endpointPublicAccess": public,
            "publicAccessCidrs": ["0.0.0.0/0"],
        },
        accessConfig={"authenticationMode": "API"},
        kubernetesNetworkConfig={"ipFamily": family},
    )
    existing = {"provider": "eks", "name": "ml", "region": REGION, **rest}
    pool = {"machine_type": "g6e.12xlarge", "count": {"desired": 2}, "workload": "inference"}
    return plan_eks(pool, cluster=existing)


def test_nothing_is_found_in_an_account_that_is_ready(account: AwsAccount) -> None:
    account.client("iam").create_role(RoleName="AWSServiceRoleForEC2Spot", AssumeRolePolicyDocument="{}")

    findings = ask(account, new_cluster(account))

    assert {finding.severity for finding in findings} == {"fine"}, findings
    assert len(findings) == 14


def test_every_call_is_in_the_declared_list_and_every_declared_call_is_made(account: AwsAccount) -> None:
    ask(account, new_cluster(account))
    account.quotas[G] = 768.0
    existing = existing_cluster(account)
    karpenter = plan_eks(
        {"machine_type": "g6.4xlarge", "provisioner": "karpenter", "count": {"desired": 0, "max": 1}},
        cluster={"provider": "eks", "name": "ml", "region": REGION, "account": "123456789012"},
    )
    ask(account, existing)
    ask(account, karpenter)
    ask(account, with_storage(account))

    assert account.asked == {iam_action(*call) for call in CALLS}


def with_storage(account: AwsAccount) -> EnvironmentPlan:
    """Return a plan with volumes for the account's buckets and file systems, and for some that do not exist."""
    subnet = account.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    location: Any = {"LocationConstraint": REGION}
    buckets = account.client("s3")
    with suppress(buckets.exceptions.BucketAlreadyOwnedByYou):  # bucket names are global and outlive a test
        buckets.create_bucket(Bucket="acme-here", CreateBucketConfiguration=location)
    account.client("s3", "us-east-1").create_bucket(Bucket="acme-far")
    efs = account.client("efs").create_file_system(CreationToken="a")["FileSystemId"]
    fsx = account.client("fsx").create_file_system(
        FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[subnet], LustreConfiguration={}
    )["FileSystem"]["FileSystemId"]
    team: dict[str, Any] = {
        "name": "vision",
        "quota": {"gpus": 1},
        "priority": "training",
        "members": ["group:vision"],
    }
    team["identity"] = {"buckets": [{"name": "acme-here"}, {"name": "acme-other"}]}
    storage = {
        **{name: {"type": "bucket", "bucket": f"acme-{name}"} for name in ("here", "far", "gone")},
        "home": {"type": "existing", "system": "efs", "file_system": efs},
        "scratch": {"type": "existing", "system": "fsx-lustre", "file_system": fsx, "mount_name": "wrong"},
        "other": {"type": "existing", "system": "efs", "file_system": "fs-00000000"},
    }
    return plan_eks({"zones": ["us-east-2a"]}, storage=storage, teams=[team])


def test_missing_remote_and_misnamed_storage_is_warned_about(
    account: AwsAccount,
) -> None:
    findings = ask(account, with_storage(account))

    names = ("here", "far", "gone", "other")
    severities = {name: by_title(findings, f"bucket acme-{name}").severity for name in names}
    assert severities == {"here": "fine", "far": "warns", "gone": "warns", "other": "warns"}
    far = by_title(findings, "bucket acme-far")
    assert far.found == "in us-east-1"
    assert "pods that mount it wait in ContainerCreating" in far.why
    file_systems = {one.looked_at: one for one in findings if one.looked_at.startswith("file system")}
    assert sorted(one.severity for one in file_systems.values()) == ["fine", "warns", "warns"]
    assert file_systems["file system fs-00000000"].found.startswith("no such file system")
    assert any("mount_name is wrong" in one.why for one in file_systems.values())


def test_credentials_of_another_account_stop_up(account: AwsAccount) -> None:
    finding = by_title(ask(account, new_cluster(account, number="210987654321")), "AWS account")

    assert finding.severity == "stops"
    assert "account 210987654321" in finding.why


def test_a_quota_below_the_desired_nodes_stops_up(account: AwsAccount) -> None:
    account.quotas[G] = 16.0

    finding = by_title(ask(account, new_cluster(account)), "On-Demand G and VT")

    assert (finding.severity, finding.why) == ("stops", "32 vCPU are missing for the desired nodes")


def test_instances_of_others_reduce_a_quota(account: AwsAccount) -> None:
    account.quotas[G] = 192.0
    ec2 = account.client("ec2")
    image = ec2.describe_images()["Images"][0]["ImageId"]
    ec2.run_instances(ImageId=image, InstanceType="g5.12xlarge", MinCount=1, MaxCount=1)

    finding = by_title(ask(account, new_cluster(account)), "On-Demand G and VT")

    assert finding.severity == "warns"
    assert "used by others" in finding.found


def test_a_missing_permission_is_named_and_the_rest_is_looked_at(account: AwsAccount) -> None:
    account.denied = {"ec2:DescribeInstanceTypeOfferings", "kms:DescribeKey", "servicequotas:GetServiceQuota"}

    findings = ask(account, new_cluster(account))
    unknown = [finding for finding in findings if finding.severity == "unknown"]

    assert {finding.why for finding in unknown} == {f"the credentials lack {action}" for action in account.denied}
    assert len(findings) == 14


def test_a_quota_is_compared_although_its_use_may_not_be_read(account: AwsAccount) -> None:
    account.denied = {"ec2:DescribeInstances"}

    finding = by_title(ask(account, new_cluster(account)), "On-Demand G and VT")

    assert finding.severity == "warns"
    assert "usage unknown (the credentials lack ec2:DescribeInstances)" in finding.found


def test_a_cluster_of_the_same_name_stops_the_creation(account: AwsAccount) -> None:
    existing_cluster(account)

    finding = by_title(ask(account, new_cluster(account)), "name of the new cluster")

    assert finding.severity == "stops"


def test_a_cluster_that_the_stack_has_created_is_fine_and_needs_no_further_quota(account: AwsAccount) -> None:
    plan = new_cluster(account)
    existing_cluster(account)
    arn = account.client("eks").describe_cluster(name="ml")["cluster"]["arn"]
    account.client("eks").tag_resource(resourceArn=arn, tags={"gpu-platform.dev/stack": "test"})
    account.quotas["L-0263D0A3"] = 0.0

    findings = ask(account, plan)

    assert by_title(findings, "name of the new cluster").severity == "fine"
    assert by_title(findings, "Elastic IPs").severity == "fine"


def test_a_node_group_beyond_the_quota_of_one_group_stops_up(account: AwsAccount) -> None:
    account.quotas["L-BD136A63"] = 500.0
    plan = new_cluster(account)
    large = replace(plan.pools[0], nodes=replace(plan.pools[0].nodes, desired=600, max=600))
    finding = by_title(ask(account, replace(plan, pools=(large,))), "Nodes per managed node group")
    assert finding.severity == "stops"
    assert "request at least 600 node" in finding.fix


def test_the_log_group_of_a_deleted_cluster_stops_the_creation(account: AwsAccount) -> None:
    account.client("logs").create_log_group(logGroupName="/aws/eks/ml/cluster")

    assert by_title(ask(account, new_cluster(account)), "log group").severity == "stops"


def test_a_key_that_is_disabled_or_missing_stops_up(account: AwsAccount) -> None:
    plan = new_cluster(account)
    kms = account.client("kms")
    kms.disable_key(KeyId=kms.list_keys()["Keys"][0]["KeyId"])

    finding = by_title(ask(account, plan), "KMS key")

    assert (finding.severity, finding.found) == ("stops", "Disabled")


def test_spot_pools_of_eks_are_warned_about_the_missing_service_linked_role(account: AwsAccount) -> None:
    finding = by_title(ask(account, new_cluster(account)), "AWSServiceRoleForEC2Spot")

    assert finding.severity == "warns"
    assert "iam:CreateServiceLinkedRole" in finding.why


def test_an_existing_cluster_that_fits_is_fine(account: AwsAccount) -> None:
    findings = ask(account, existing_cluster(account))

    assert {finding.severity for finding in findings} == {"fine"}, findings
    assert "EKS 1.34" in by_title(findings, "existing cluster ml").found


def test_networks_that_reach_a_private_api_server_are_named(account: AwsAccount) -> None:
    plan = existing_cluster(account, public=False)
    [group] = account.client("ec2").describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["default"]}]
    )["SecurityGroups"][-1:]
    account.client("ec2").authorize_security_group_ingress(
        GroupId=group["GroupId"], IpProtocol="tcp", FromPort=443, ToPort=443, CidrIp="10.9.0.0/16"
    )
    finding = by_title(ask(account, plan), "networks that reach the API server")
    assert (finding.severity, finding.found) == ("warns", "at its private address 10.9.0.0/16")
    assert "no public address" in finding.why
    assert f"--group-id {group['GroupId']} --protocol tcp --port 443" in finding.fix


def test_an_existing_ipv6_cluster_is_refused(account: AwsAccount) -> None:
    findings = ask(account, existing_cluster(account, family="ipv6"))
    assert "with IPv6 addresses for pods" in by_title(findings, "existing cluster ml").found


def test_a_vpc_cni_without_network_policies_is_reported(account: AwsAccount) -> None:
    account.addons["vpc-cni"] = {"configurationValues": '{"env": {"WARM_PREFIX_TARGET": "1"}}'}
    finding = by_title(ask(account, existing_cluster(account)), "NetworkPolicies on ml")
    assert finding.severity == "warns"
    assert '{"env": {"WARM_PREFIX_TARGET": "1"}, "enableNetworkPolicy": "true"}' in finding.fix


def test_a_self_managed_vpc_cni_is_warned_about_network_policies(
    account: AwsAccount,
) -> None:
    del account.addons["vpc-cni"]
    finding = by_title(ask(account, existing_cluster(account)), "add-on vpc-cni of ml")
    assert (finding.severity, finding.found) == ("warns", "not installed as an EKS add-on")
    assert "NetworkPolicies of teams" in finding.why


AGENT = "eks-node-monitoring-agent"


def test_an_existing_cluster_without_the_monitoring_agent_gets_its_command(account: AwsAccount) -> None:
    del account.addons[AGENT]
    plan = existing_cluster(account)
    finding = by_title(ask(account, plan), f"add-on {AGENT} of ml")
    assert finding.severity == "warns"
    assert "detects no broken GPUs" in finding.why
    options = json.loads(finding.fix.partition("--configuration-values ")[2].strip("'"))
    account.addons[AGENT] = {"configurationValues": json.dumps(options)}
    findings = ask(account, plan)
    assert by_title(findings, f"add-on {AGENT} of ml").severity == "fine"
    assert "GPU monitoring on ml" not in [one.looked_at for one in findings]


def test_a_monitoring_agent_that_gpu_nodes_repel_is_reported(account: AwsAccount) -> None:
    account.addons[AGENT] = {"configurationValues": '{"nodeAgent": {"monitors": {}}}'}
    finding = by_title(ask(account, existing_cluster(account)), "GPU monitoring on ml")
    assert finding.severity == "warns"
    assert '"nodeAgent": {"monitors": {}}, "dcgmAgent": {"tolerations": [{"operator": "Exists"}]' in finding.fix


def own_network(account: AwsAccount, *zones: str) -> dict[str, Any]:
    """Create a VPC with two small subnets in different zones. Return a network that lists the subnets under
    `zones`.
    """
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/28", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for index, zone in enumerate(("us-east-2a", "us-east-2b"))
    ]
    return {"vpc": vpc, "subnets": dict(zip(zones, made, strict=True))}


def in_own_network(network: dict[str, Any]) -> EnvironmentPlan:
    create = {**CREATED["create"], "network": network}
    pool = {"machine_type": "g6e.12xlarge", "count": {"desired": 2, "max": 40}, "workload": "inference"}
    return plan_eks(pool, cluster={**CREATED, "create": create})


def test_existing_subnets_of_a_new_cluster_are_checked_for_free_addresses(
    account: AwsAccount,
) -> None:
    findings = ask(account, in_own_network(own_network(account, "us-east-2a", "us-east-2b")))
    assert by_title(findings, "subnets of vpc-").severity == "fine"
    addresses = by_title(findings, "free addresses for pool train")
    assert (addresses.severity, addresses.why) == ("stops", "2 nodes need at least 66 addresses")


def test_a_subnet_of_another_zone_or_vpc_stops_a_new_cluster_in_an_existing_vpc(account: AwsAccount) -> None:
    wrong = own_network(account, "us-east-2a", "us-east-2c")
    wrong["control_plane_subnets"] = [wrong["subnets"]["us-east-2a"], "subnet-0a1b2c3d4e5f60718"]
    found = [one for one in ask(account, in_own_network(wrong)) if one.looked_at.startswith("subnets of vpc-")]
    assert {one.severity for one in found} == {"stops"}
    texts = " ".join(one.found for one in found)
    assert "is in us-east-2b" in texts
    assert "no subnet-0a1b2c3d4e5f60718" in texts
    assert "control-plane subnets in fewer than two zones" in texts


def with_pod_subnets(account: AwsAccount, network: dict[str, Any], *cidrs: str) -> dict[str, Any]:
    """Return a network with a pod subnet in each of its zones."""
    ec2 = account.client("ec2")
    made = [
        ec2.create_subnet(VpcId=network["vpc"], CidrBlock=cidr, AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for cidr, zone in zip(cidrs, network["subnets"], strict=True)
    ]
    return {**network, "pod_subnets": dict(zip(network["subnets"], made, strict=True))}


def test_subnets_of_pods_are_looked_up_with_prefixes_for_all_pods_of_a_pool(account: AwsAccount) -> None:
    network = own_network(account, "us-east-2a", "us-east-2b")
    large = with_pod_subnets(account, network, "10.0.64.0/19", "10.0.96.0/19")
    findings = ask(account, in_own_network(large))
    assert by_title(findings, "free addresses for pods of pool train").severity == "fine"
    nodes = by_title(findings, "free addresses for pool train")
    assert (nodes.severity, nodes.why) == ("warns", "40 nodes need 40 addresses")
    small = with_pod_subnets(account, network, "10.0.8.0/24", "10.0.9.0/24")
    pods = by_title(ask(account, in_own_network(small)), "free addresses for pods of pool train")
    assert (pods.severity, pods.why) == ("warns", "40 nodes full of pods need 10920 addresses (273 a node)")
    tiny = with_pod_subnets(account, network, "10.0.10.0/28", "10.0.10.16/28")
    assert (
        by_title(ask(account, in_own_network(tiny)), "free addresses for pods of pool train").severity == "stops"
    )


def test_a_subnet_of_pods_of_another_zone_or_vpc_stops_a_new_cluster(account: AwsAccount) -> None:
    network = own_network(account, "us-east-2a", "us-east-2b")
    made = with_pod_subnets(account, network, "10.0.64.0/19", "10.0.96.0/19")["pod_subnets"]
    wrong = {"us-east-2a": made["us-east-2b"], "us-east-2b": "subnet-0a1b2c3d4e5f60718"}
    found = ask(account, in_own_network({**network, "pod_subnets": wrong}))
    stops = {one.looked_at: one.found for one in found if one.looked_at.startswith("subnet of pods")}
    assert stops == {
        f"subnet of pods {made['us-east-2b']}": "in us-east-2b, declared for us-east-2a",
        "subnet of pods subnet-0a1b2c3d4e5f60718": f"not in {network['vpc']}",
    }


def test_an_existing_cluster_of_another_version_stops_up(account: AwsAccount) -> None:
    finding = by_title(ask(account, existing_cluster(account, kubernetes="1.35")), "existing cluster ml")

    assert finding.severity == "stops"
    assert "'1.34', the version of cluster ml" in finding.why


def test_an_existing_cluster_that_is_not_there_stops_up(account: AwsAccount) -> None:
    plan = existing_cluster(account)
    account.client("eks").delete_cluster(name="ml")

    findings = ask(account, plan)

    assert by_title(findings, "existing cluster ml").severity == "stops"
    assert by_title(findings, "free addresses").severity == "unknown"


def test_subnets_with_too_few_free_addresses_are_found(account: AwsAccount) -> None:
    plan = existing_cluster(account)
    many = plan_eks(
        {"machine_type": "g6e.12xlarge", "count": {"desired": 1, "max": 40}, "workload": "inference"},
        cluster={"provider": "eks", "name": "ml", "region": REGION},
    )

    assert by_title(ask(account, plan), "free addresses").severity == "fine"
    assert by_title(ask(account, many), "free addresses").severity == "warns"


def test_a_declared_subnet_outside_the_clusters_network_stops_up(account: AwsAccount) -> None:
    plan = existing_cluster(account, subnets={"us-east-2a": "subnet-0a1b2c3d4e5f60718"})

    finding = by_title(ask(account, plan), "subnet subnet-0a1b2c3d4e5f60718")

    assert (finding.severity, finding.found) == ("stops", "not in the VPC of ml")


def test_another_account_is_queried_with_the_role_that_up_assumes(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.endpoint)
    cluster = {**CREATED, "account": OTHER_ACCOUNT, "assume_role": ROLE, "create": OTHER_CREATE}
    [of_account, *_] = AwsCloud(plan_eks({}, cluster=cluster), load_catalog(), NOW).lookups()
    found = by_title(list(of_account.findings()), "AWS account")
    assert found.severity == "fine"
    assert f"account {OTHER_ACCOUNT}" in found.found
    assert "assumed-role/deployer" in found.found


def test_a_role_that_may_not_be_assumed_is_named(account: AwsAccount) -> None:
    account.denied.add("sts:AssumeRole")
    api = AwsApi(REGION, account.session(), role=ROLE)
    with pytest.raises(NotLookedAt, match="the credentials lack sts:AssumeRole"):
        AwsClient(REGION, api).identity()


def test_a_cluster_in_another_account_is_read_with_the_role_of_up(account: AwsAccount) -> None:
    plan = existing_cluster(account, assume_role=ROLE)
    client = AwsClient(REGION, AwsApi(REGION, account.session()))
    text = AwsCloud(plan, load_catalog(), NOW, client).kubeconfig()
    assert text is not None
    assert ROLE in text


def test_an_endpoint_that_does_not_answer_is_called_once(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    plan = new_cluster(account)

    findings = [
        finding for lookup in AwsCloud(plan, load_catalog(), NOW).lookups() for finding in lookup.findings()
    ]

    assert {finding.severity for finding in findings} == {"unknown"}
    assert "sts did not answer" in findings[0].why


STANDARD = "L-1216C47A"


def test_cpu_pools_and_system_nodes_of_a_new_cluster_count_against_one_quota(account: AwsAccount) -> None:
    monitoring = {
        "name": "monitoring",
        "machine_type": "m7i.2xlarge",
        "count": {"desired": 2},
        "workload": "general",
    }
    account.quotas[STANDARD] = 19.0
    plan = plan_eks(monitoring, cluster={**CREATED, "create": {"admins": CREATED["create"]["admins"]}})

    finding = by_title(ask(account, plan), "Standard (A, C, D, H, I, M, R, T, Z) instances")

    # The pool needs 2 x 8 vCPUs, and the system nodes need 2 x 2.
    assert finding.severity == "stops"
    assert finding.why == "1 vCPU is missing for the desired nodes"


def test_cpu_pools_of_an_existing_cluster_count_against_standard_instances(account: AwsAccount) -> None:
    existing = existing_cluster(account)
    monitoring = {
        "name": "monitoring",
        "machine_type": "m7i.2xlarge",
        "count": {"desired": 2},
        "workload": "general",
    }
    account.quotas[STANDARD] = 15.0
    plan = plan_eks(monitoring, cluster={"provider": "eks", "name": existing.cluster.name, "region": REGION})

    finding = by_title(ask(account, plan), "Standard (A, C, D, H, I, M, R, T, Z) instances")

    assert (finding.severity, finding.why) == ("stops", "1 vCPU is missing for the desired nodes")

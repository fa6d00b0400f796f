"""Rendered resources of a new and of an existing EKS cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pulumi_aws
import pytest
from pulumi.runtime.mocks import MockResourceArgs

from components.eks.cluster import EksCluster
from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.components.eks.known_aws import KnownAws, deploy
from tests.components.known_cloud import deploy_on
from tests.support.eks_stacks import ADMIN, CLUSTER_ARN, CREATED, EXISTING, plan_eks, record_eks
from tests.support.recorded import Recorded

TRAIN = {"count": {"desired": 2}, "zones": ["us-east-2b"]}
SERVE = {"name": "serve", "machine_type": "g6e.12xlarge", "workload": "inference"}
DEVELOP = {
    "name": "develop",
    "machine_type": "g6.4xlarge",
    "workload": "development",
    "provisioner": "karpenter",
    "count": {"desired": 0, "max": 2},
}
LOOKED_UP = {key: value for key, value in EXISTING.items() if key != "subnets"}


def cluster(**rest: Any) -> dict[str, Any]:
    create = {**CREATED["create"], **rest.pop("create", {})}
    return {**CREATED, "create": create, **rest}


def made(*pools: dict[str, Any], **rest: Any) -> Recorded:
    return record_eks(*(pools or (TRAIN, SERVE)), cluster=cluster(**rest))


def of_the_cluster(recorded: Recorded, kind: str) -> list[ResourceRecord]:
    """Return the records whose parent is the cluster, because pools also have launch templates and node groups."""
    return [record for record in recorded.of(kind) if "index:EksCluster" in record.parent]


def the(recorded: Recorded, kind: str) -> Mapping[str, Any]:
    (record,) = of_the_cluster(recorded, kind)
    return record.inputs


def statements(documents: Iterable[str]) -> list[dict[str, Any]]:
    return [one for text in documents for one in json.loads(text)["Statement"]]


# -- network --------------------------------------------------------------------------------------------------


class ZonesOfUsEast1(KnownAws):
    """A simulated AWS account in which us-east-1e has the zone id use1-az3, where EKS has no control planes."""

    ids: Mapping[str, str] = {"us-east-1a": "use1-az1", "us-east-1b": "use1-az2", "us-east-1e": "use1-az3"}

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        own_id, outputs = super().new_resource(args)
        if args.typ.endswith(":Subnet"):
            outputs["availabilityZoneId"] = self.ids[args.inputs["availabilityZone"]]
        return own_id, outputs


def created_in_us_east_1(zones: list[str]) -> list[str]:
    """Create a cluster in these zones, and return the subnets of its control plane."""
    of_zones = cluster(region="us-east-1", create={"zones": zones})
    needed = plan_eks({"zones": [zones[-1]]}, cluster=of_zones).cluster.cloud
    assert isinstance(needed, EksClusterPlan)
    aws_of_zones = ZonesOfUsEast1()

    def program() -> pulumi.Output[str]:
        provider = pulumi_aws.Provider("ml", region="us-east-1")
        return EksCluster("ml", needed, pulumi.ResourceOptions(providers=[provider])).outputs.name

    deploy_on(aws_of_zones, program)
    [made_cluster] = aws_of_zones.of("Cluster")
    return made_cluster["vpcConfig"]["subnetIds"]


def test_the_control_plane_gets_no_subnet_in_a_zone_without_eks_support() -> None:
    subnets = created_in_us_east_1(["us-east-1a", "us-east-1b", "us-east-1e"])
    assert subnets == ["ml-private-us-east-1a-id", "ml-private-us-east-1b-id"]


def test_a_control_plane_in_one_supported_zone_is_refused() -> None:
    with pytest.raises(pulumi.RunError, match="us-east-1e is use1-az3"):
        created_in_us_east_1(["us-east-1a", "us-east-1e"])


def test_the_control_plane_gets_all_subnets_if_eks_supports_every_zone() -> None:
    [control_plane] = of_the_cluster(made(), "Cluster")
    subnets = {one.urn for one in made().of("Subnet") if "-private-" in one.name}
    assert set(control_plane.property_dependencies["vpcConfig"]) >= subnets


def test_each_zone_has_a_tagged_private_subnet_and_a_public_one() -> None:
    subnets = made().of("Subnet")
    tagged = {
        (subnet.inputs["availabilityZone"], tag)
        for subnet in subnets
        for tag in subnet.inputs["tags"]
        if tag.startswith("kubernetes.io/role/")
    }
    assert tagged == {
        (zone, f"kubernetes.io/role/{role}")
        for zone in ("us-east-2a", "us-east-2b")
        for role in ("internal-elb", "elb")
    }
    assert len(subnets) == len(tagged)


def test_no_subnet_gives_nodes_public_addresses() -> None:
    assert [subnet.inputs["mapPublicIpOnLaunch"] for subnet in made().of("Subnet")] == [False] * 4


@pytest.mark.parametrize(("nat", "gateways"), [("one", 1), ("per-zone", 2)])
def test_private_subnets_use_nat_and_public_ones_the_internet_gateway(nat: str, gateways: int) -> None:
    recorded = made(create={"nat": nat})
    assert len(recorded.of("NatGateway")) == gateways
    tables = {record.name: record.inputs["routes"] for record in recorded.of("RouteTable")}
    by_nat = {name for name, routes in tables.items() if "natGatewayId" in routes[0]}
    by_gateway = {name for name, routes in tables.items() if "gatewayId" in routes[0]}
    assert by_nat == {"ml-private-us-east-2a", "ml-private-us-east-2b"}
    assert by_gateway == {"ml-public"}


def test_s3_is_reached_by_a_gateway_endpoint_from_every_private_subnet() -> None:
    endpoint = the(made(), "VpcEndpoint")
    assert endpoint["vpcEndpointType"] == "Gateway"
    assert endpoint["serviceName"] == "com.amazonaws.us-east-2.s3"
    assert len(endpoint["routeTableIds"]) == 2


def test_the_default_security_group_lets_nothing_through() -> None:
    group = the(made(), "DefaultSecurityGroup")
    assert (group["ingress"], group["egress"]) == ([], [])


# -- EFA security group ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [CREATED, EXISTING], ids=["created", "existing"])
def test_eks_3_the_efa_group_allows_all_traffic_from_and_to_itself(
    where: dict[str, Any],
) -> None:
    recorded = record_eks(TRAIN, cluster=where)
    (group,) = recorded.of("SecurityGroup")
    assert "ingress" not in group.inputs
    assert "egress" not in group.inputs
    for kind in ("SecurityGroupIngressRule", "SecurityGroupEgressRule"):
        (rule,) = recorded.of(kind)
        assert rule.inputs["ipProtocol"] == "-1"
        assert "fromPort" not in rule.inputs
        ends = {"securityGroupId", "referencedSecurityGroupId"}
        assert {key: rule.property_dependencies[key] for key in ends} == dict.fromkeys(ends, (group.urn,))
        assert not {"cidrIpv4", "cidrIpv6", "prefixListId"} & set(rule.inputs)


def test_eks_3_efa_security_group_is_made_once_for_all_pools_with_efa() -> None:
    recorded = record_eks(TRAIN, {**TRAIN, "name": "second"}, cluster=CREATED)
    assert len(recorded.of("SecurityGroup")) == 1


def test_eks_3_efa_security_group_is_made_only_where_some_pool_has_efa() -> None:
    assert not made(SERVE).has("SecurityGroup")


# -- cluster --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", [[], ["203.0.113.0/24"]])
def test_the_api_server_is_public_only_for_declared_networks(access: list[str]) -> None:
    config = the(made(create={"api_access": access}), "Cluster")["vpcConfig"]
    assert config["endpointPrivateAccess"] is True
    assert config["endpointPublicAccess"] is bool(access)
    assert config.get("publicAccessCidrs", []) == access


def test_private_networks_are_admitted_by_the_clusters_security_group() -> None:
    recorded = made(create={"api_access": ["203.0.113.0/24", "10.0.0.0/16"]})
    assert the(recorded, "Cluster")["vpcConfig"]["publicAccessCidrs"] == ["203.0.113.0/24"]
    [rule] = [one for one in recorded.of("SecurityGroupIngressRule") if one.inputs.get("cidrIpv4")]
    assert (rule.inputs["cidrIpv4"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("10.0.0.0/16", 443, 443)
    assert "clusterSecurityGroupId" in str(rule.property_dependencies) or rule.inputs["securityGroupId"]


def test_admins_have_access_entries_but_the_creator_has_none() -> None:
    other = "arn:aws:iam::123456789012:user/ann"
    recorded = made(create={"admins": [ADMIN, other]})
    assert the(recorded, "Cluster")["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": False,
    }
    entries = recorded.of("AccessEntry")
    assert {(one.inputs["principalArn"], one.inputs["type"]) for one in entries} == {
        (ADMIN, "STANDARD"),
        (other, "STANDARD"),
    }
    policies = recorded.of("AccessPolicyAssociation")
    assert len(policies) == len(entries)
    assert {urn for one in policies for urn in one.dependencies} >= {one.urn for one in entries}
    assert {one.inputs["policyArn"] for one in policies} == {
        "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    }
    assert [one.inputs["accessScope"] for one in policies] == [{"type": "cluster"}] * 2


def test_system_nodes_are_as_the_stack_file_sizes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    system = {
        "machine_types": ["m7i.2xlarge", "m6i.2xlarge"],
        "min": 3,
        "desired": 4,
        "max": 8,
        "disk_gb": 100,
        "release": "1.34.8-20260818",
    }
    recorded = made(create={"system": system})
    nodes = recorded.one("NodeGroup", "system")
    assert nodes.inputs["instanceTypes"] == ["m7i.2xlarge", "m6i.2xlarge"]
    assert nodes.inputs["scalingConfig"] == {"minSize": 3, "desiredSize": 4, "maxSize": 8}
    assert nodes.inputs["releaseVersion"] == "1.34.8-20260818"
    (template,) = of_the_cluster(recorded, "LaunchTemplate")
    assert template.inputs["blockDeviceMappings"][0]["ebs"]["volumeSize"] == 100
    assert "scalingConfig.desiredSize" in nodes.ignore_changes
    monkeypatch.setenv(names.RESIZED_VARIABLE, json.dumps([names.SYSTEM_NODES]))
    resized = made(create={"system": {**system, "max": 9}}).one("NodeGroup", "system")
    assert resized.ignore_changes == ("subnetIds",)


def test_control_plane_logs_go_to_an_existing_group_with_a_retention() -> None:
    recorded = made(create={"logs_retention_days": 30})
    (control_plane,) = recorded.of("Cluster")
    assert set(control_plane.inputs["enabledClusterLogTypes"]) == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }
    (group,) = recorded.of("LogGroup")
    assert group.inputs == {"name": "/aws/eks/ml/cluster", "retentionInDays": 30}
    assert group.urn in control_plane.dependencies


def test_secrets_are_encrypted_with_a_key_that_rotates() -> None:
    recorded = made()
    (control_plane,) = recorded.of("Cluster")
    (key,) = recorded.of("Key")
    assert key.inputs["enableKeyRotation"] is True
    assert control_plane.inputs["encryptionConfig"]["resources"] == ["secrets"]
    assert key.urn in control_plane.property_dependencies["encryptionConfig"]


def test_the_cluster_never_slides_into_extended_support() -> None:
    assert the(made(), "Cluster")["upgradePolicy"] == {"supportType": "STANDARD"}
    extended = the(made(create={"support": "extended"}), "Cluster")
    assert extended["upgradePolicy"] == {"supportType": "EXTENDED"}


def test_a_cluster_that_packs_prefers_nodes_whose_cpu_memory_and_gpus_are_in_use() -> None:
    assert the(made(), "Cluster").get("kubeSchedulerConfig") is None
    packed = the(made(create={**CREATED["create"], "scheduling": "pack"}), "Cluster")["kubeSchedulerConfig"]
    strategy = packed["nodeResourcesFit"]["scoringStrategy"]
    assert strategy["type"] == "MostAllocated"
    assert [one["name"] for one in strategy["resources"]] == ["cpu", "memory", "nvidia.com/gpu"]


def test_the_zone_of_a_new_pool_replaces_nothing_that_is_there() -> None:
    recorded = made()
    assert recorded.one("Cluster", "ml").ignore_changes == ("vpcConfig.subnetIds",)
    assert "subnetIds" in recorded.one("NodeGroup", "system").ignore_changes


@pytest.mark.parametrize("production", [True, False])
def test_production_protects_the_private_subnets(production: bool) -> None:
    protected = {subnet.name for subnet in made(production=production).of("Subnet") if subnet.protect}
    assert protected == ({"ml-private-us-east-2a", "ml-private-us-east-2b"} if production else set())


def test_nodes_can_reach_out_as_long_as_they_are_there() -> None:
    recorded = made()
    before = recorded.before(recorded.one("NodeGroup", "system"), above=True)
    ways_out = [*recorded.of("RouteTableAssociation"), *recorded.of("NatGateway"), *recorded.of("InternetGateway")]
    assert len(ways_out) == 4 + 2 + 1
    assert {r.name for r in ways_out if r.urn not in before} == set()


def test_protect_changes_nothing_but_protection() -> None:
    def without_protection(recorded: Recorded) -> list[str]:
        """Return the resources as sorted JSON without ids and without deletion protection, because ids and order
        differ between runs.
        """
        texts = [
            json.dumps(replace(record, protect=False, outputs={}, revealed_inputs=None).to_json(), sort_keys=True)
            for record in recorded.resources
            if record.custom
        ]
        return sorted(
            re.sub(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"deletionProtection": \w+', "", text)
            for text in texts
        )

    kept, lifted = made(TRAIN, DEVELOP, protect=True), made(TRAIN, DEVELOP, protect=False)
    assert without_protection(lifted) == without_protection(kept)
    assert [record.name for record in lifted.resources if record.protect] == []
    assert the(kept, "Cluster")["deletionProtection"] is True
    assert the(lifted, "Cluster")["deletionProtection"] is False


@pytest.mark.parametrize(("settings", "kept"), [({"protect": False}, True), ({"production": False}, False)])
def test_destroy_keeps_the_logs_and_key_of_a_production_cluster(settings: dict[str, bool], kept: bool) -> None:
    recorded = made(**settings)
    assert [record.retain_on_delete for kind in ("LogGroup", "Key") for record in recorded.of(kind)] == [
        kept,
        kept,
    ]
    assert not any(record.protect for record in recorded.of("Key"))


@pytest.mark.parametrize("production", [True, False])
def test_production_protects_cluster_vpc_and_key_from_deletion(production: bool) -> None:
    recorded = made(production=production)
    protected = {
        record.type.rsplit(":", 1)[-1] for record in of_the_cluster(recorded, "Cluster") if record.protect
    }
    protected |= {kind for kind in ("Vpc", "Key") if recorded.of(kind)[0].protect}
    assert protected == ({"Cluster", "Vpc", "Key"} if production else set())
    assert the(recorded, "Cluster")["deletionProtection"] is production


@pytest.mark.parametrize("services", [None, "172.21.0.0/16"])
def test_a_cluster_has_the_declared_range_of_services(services: str | None) -> None:
    found = the(made(create={"services_cidr": services} if services else {}), "Cluster")
    assert found.get("kubernetesNetworkConfig") == ({"serviceIpv4Cidr": services} if services else None)


# -- add-ons and system nodes ---------------------------------------------------------------------------------


def test_every_add_on_is_pinned_and_eks_installs_none_by_itself() -> None:
    recorded = made()
    assert the(recorded, "Cluster")["bootstrapSelfManagedAddons"] is False
    versions = {record.inputs["addonName"]: record.inputs["addonVersion"] for record in recorded.of("Addon")}
    assert versions == {
        name: addon.versions[CREATED["kubernetes"]]
        for name, addon in load_catalog().eks_addons.items()
        # The drivers for EFS, FSx and S3 are installed only if the stack declares storage of that kind.
        if name not in ("aws-efs-csi-driver", "aws-fsx-csi-driver", "aws-mountpoint-s3-csi-driver")
    }


def test_the_monitoring_agent_of_node_repair_runs_on_tainted_gpu_nodes_without_mig() -> None:
    agent = made().one("Addon", "ml-eks-node-monitoring-agent").inputs
    dcgm = json.loads(agent["configurationValues"])["dcgmAgent"]
    assert dcgm["tolerations"] == [{"operator": "Exists"}]
    (term,) = dcgm["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    wanted = {one["key"]: (one["operator"], one["values"]) for one in term["matchExpressions"]}
    assert wanted["nvidia.com/gpu.present"] == ("In", ["true"])
    assert wanted["gpu-platform.dev/sharing"] == ("NotIn", ["mig"])


def test_nodes_wait_for_network_and_identity_and_what_needs_nodes_waits_for_them() -> None:
    recorded = made()
    nodes = recorded.one("NodeGroup", "system")
    before = {
        recorded.one("Addon", f"ml-{name}").urn for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
    }
    routes = {record.urn for record in recorded.of("RouteTableAssociation") if "private" in record.name}
    assert before | routes <= recorded.before(nodes, above=True)
    for name in ("coredns", "aws-ebs-csi-driver", "eks-node-monitoring-agent"):
        assert nodes.urn in recorded.before(recorded.one("Addon", f"ml-{name}"), above=True)


def test_the_vpc_cni_waits_for_the_agent_that_gives_it_credentials() -> None:
    recorded = made()
    agent = recorded.one("Addon", "ml-eks-pod-identity-agent")
    assert agent.urn in recorded.before(recorded.one("Addon", "ml-vpc-cni"), above=True)


def test_gpu_nodes_wait_for_what_every_node_needs() -> None:
    recorded = made()
    waited = recorded.before(recorded.one("NodeGroup", "train"), above=True)
    assert recorded.one("Addon", "ml-vpc-cni").urn in waited
    assert recorded.one("RolePolicyAttachment", "ml-nodes-AmazonEKSWorkerNodePolicy").urn in waited


def test_system_nodes_are_small_without_gpus_and_hide_their_credentials() -> None:
    recorded = made()
    nodes = recorded.one("NodeGroup", "system").inputs
    assert nodes["instanceTypes"][0] == "m7i.large"
    assert nodes["amiType"] == "AL2023_x86_64_STANDARD"
    assert (nodes["scalingConfig"]["minSize"], nodes["scalingConfig"]["maxSize"]) == (2, 4)
    assert "taints" not in nodes
    assert nodes["nodeRepairConfig"] == {"enabled": True}
    template = recorded.one("LaunchTemplate", "ml-system").inputs
    assert template["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    (disk,) = template["blockDeviceMappings"]
    assert (disk["ebs"]["encrypted"], disk["ebs"]["volumeType"]) == ("true", "gp3")


def test_names_of_node_groups_fit_in_63_characters_with_what_pulumi_appends() -> None:
    longest = made({"name": "p" * 40}, name="c" * 63).of("NodeGroup")
    assert len(longest) == 2
    assert max(len(one.name) for one in longest) + len("-1a2b3c4") <= 63


def test_system_nodes_are_upgraded_with_the_cluster() -> None:
    recorded = made(kubernetes="1.35")
    assert the(recorded, "Cluster")["version"] == "1.35"
    assert recorded.one("NodeGroup", "system").inputs["version"] == "1.35"


# -- IAM ------------------------------------------------------------------------------------------------------


def test_aws_roles_of_pods_trust_only_their_service_account() -> None:
    recorded = made()
    for addon, account in (("vpc-cni", "aws-node"), ("aws-ebs-csi-driver", "ebs-csi-controller-sa")):
        record = recorded.one("Addon", f"ml-{addon}")
        role = recorded.one("Role", f"ml-{addon}")
        (identity,) = record.inputs["podIdentityAssociations"]
        assert identity["serviceAccount"] == account
        assert role.urn in record.property_dependencies["podIdentityAssociations"]
        (statement,) = statements([role.inputs["assumeRolePolicy"]])
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert statement["Condition"]["StringEquals"] == {
            "aws:RequestTag/kubernetes-namespace": "kube-system",
            "aws:RequestTag/kubernetes-service-account": account,
        }
        assert statement["Condition"]["StringLike"] == {"aws:RequestTag/eks-cluster-arn": CLUSTER_ARN}


def test_no_policy_that_the_cluster_writes_has_a_wildcard() -> None:
    aws = deployed(TRAIN, SERVE, DEVELOP)
    written = [inputs["policy"] for inputs in aws.of("RolePolicy")]
    written += [inputs["assumeRolePolicy"] for inputs in aws.of("Role")]
    assert written
    for statement in statements(written):
        texts = [statement["Action"], statement.get("Resource", "")]
        flat = [text for one in texts for text in (one if isinstance(one, list) else [one])]
        assert not any("*" in text for text in flat), statement


def test_the_clusters_role_may_use_the_key_of_its_secrets_and_no_other() -> None:
    (statement,) = statements(inputs["policy"] for inputs in deployed(TRAIN).of("RolePolicy"))
    assert statement["Resource"].endswith(":ml-secrets")


def test_the_node_role_has_least_privilege_if_the_cni_has_its_own_role() -> None:
    def attached(recorded: Recorded) -> set[str]:
        return {
            record.inputs["policyArn"].rpartition("/")[2]
            for record in recorded.of("RolePolicyAttachment")
            if record.name.startswith("ml-nodes-")
        }

    assert attached(made()) == {"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"}
    assert "AmazonEKS_CNI_Policy" in attached(record_eks(TRAIN, cluster=EXISTING))


@pytest.mark.parametrize("where", [CREATED, EXISTING], ids=["created", "existing"])
def test_karpenter_nodes_have_their_own_role_and_access_entry(where: dict[str, Any]) -> None:
    recorded = record_eks(SERVE, DEVELOP, cluster=where)
    (entry,) = [one for one in recorded.of("AccessEntry") if one.inputs["type"] == "EC2_LINUX"]
    role = recorded.one("Role", "ml-karpenter-nodes")
    assert entry.property_dependencies["principalArn"] == (role.urn,)
    node_role = recorded.one("NodeGroup", "serve").property_dependencies["nodeRoleArn"]
    assert node_role == (recorded.one("Role", "ml-nodes").urn,)
    assert not [one for one in made(SERVE).of("AccessEntry") if one.inputs["type"] == "EC2_LINUX"]


def test_names_fit_for_the_longest_name_of_a_cluster() -> None:
    recorded = record_eks(SERVE, DEVELOP, cluster=cluster(name="n" * 100))
    roles = of_the_cluster(recorded, "Role")
    assert roles
    assert all(len(role.name) <= 64 - len("-0123456") for role in roles)
    (queue,) = recorded.of("Queue")
    assert len(queue.inputs["name"]) <= 80


@pytest.mark.parametrize("where", [CREATED, EXISTING], ids=["created", "existing"])
def test_a_cluster_has_any_name_that_eks_allows(where: dict[str, Any]) -> None:
    recorded = record_eks(SERVE, DEVELOP, cluster={**where, "name": "ML_Prod"})
    for record in recorded.resources:
        if record.type.startswith("aws:") and not record.external:
            for request in requests_of(record):
                assert problems(request) == [], record.urn
    with pytest.raises(BadInput, match=r"cluster\.name"):
        record_eks(SERVE, cluster={**where, "name": "-ml"})


# -- access to the cluster ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [CREATED, EXISTING, LOOKED_UP], ids=["created", "existing", "looked-up"])
def test_the_kubeconfig_is_a_secret_of_the_component_and_of_the_stack(where: dict[str, Any]) -> None:
    recorded = record_eks(TRAIN, SERVE, cluster=where)
    assert recorded.one("EksCluster", "ml").outputs["kubeconfig"] == "[secret]"
    assert "kubeconfig" in recorded.program.secret_outputs
    (provider,) = [record for record in recorded.resources if record.type == "pulumi:providers:kubernetes"]
    assert provider.inputs["kubeconfig"] == "[secret]"
    # Pulumi replaces the provider, and with it every object, only if this value changes.
    assert provider.inputs["clusterIdentifier"] == recorded.program.outputs["cluster_identity"]


def test_kubernetes_objects_wait_for_admin_access_and_nodes() -> None:
    recorded = made()
    waited = recorded.before(recorded.one("Namespace", "gpu-operator"), above=True)
    assert {one.urn for one in recorded.of("AccessPolicyAssociation")} <= waited
    assert {one.urn for one in recorded.of("Addon")} <= waited
    assert recorded.one("NodeGroup", "system").urn in waited


def test_the_provider_refuses_other_accounts_and_tags_everything() -> None:
    (provider,) = [record for record in made().resources if record.type == "pulumi:providers:aws"]
    inputs = {key: json.loads(value) if key != "region" else value for key, value in provider.inputs.items()}
    assert inputs["region"] == "us-east-2"
    assert inputs["allowedAccountIds"] == ["123456789012"]
    assert inputs["defaultTags"] == {"tags": {"gpu-platform.dev/stack": "test"}}


@pytest.mark.parametrize("where", [CREATED, EXISTING, LOOKED_UP], ids=["created", "existing", "looked-up"])
def test_every_aws_resource_goes_through_the_provider_of_the_clusters_region(where: dict[str, Any]) -> None:
    records = [
        one for one in record_eks(TRAIN, SERVE, DEVELOP, cluster=where).resources if one.type.startswith("aws:")
    ]
    assert records
    for record in records:
        assert "pulumi:providers:aws::ml::" in record.provider, record.urn


def test_a_deploy_with_every_output_known_registers_what_the_preview_did() -> None:
    pools = (TRAIN, SERVE, DEVELOP)
    preview = {
        (record.type.rsplit(":", 1)[-1], record.name)
        for record in record_eks(*pools, cluster=CREATED).resources
        if record.custom and "index:EksCluster" in record.parent
    }
    made_ones = {key for key in deployed(*pools).made if not key[0].startswith("Eks") and key != ("aws", "ml")}
    assert made_ones == preview


# -- an existing cluster --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [EXISTING, LOOKED_UP], ids=["subnets-given", "looked-up"])
def test_an_existing_cluster_gets_only_what_its_pools_need(where: dict[str, Any]) -> None:
    recorded = record_eks(TRAIN, SERVE, cluster=where)
    kinds = {
        record.type.rsplit(":", 1)[-1]
        for record in recorded.resources
        if record.type.startswith("aws:") and "index:EksCluster" in record.parent
    }
    assert kinds == {
        "Role",
        "RolePolicyAttachment",
        "SecurityGroup",
        "SecurityGroupIngressRule",
        "SecurityGroupEgressRule",
    }


def test_looked_up_subnets_are_unknown_and_declared_ones_wait_for_the_check() -> None:
    for where in (EXISTING, LOOKED_UP):
        assert record_eks(TRAIN, cluster=where).one("NodeGroup", "train").inputs["subnetIds"] == [UNKNOWN]


def deployed(*pools: dict[str, Any]) -> KnownAws:
    """Deploy only the cluster of a stack with these pools, and return the account. Every output is known."""
    plan = plan_eks(*pools, cluster=CREATED).cluster.cloud
    assert isinstance(plan, EksClusterPlan)
    known, _ = deploy(
        lambda: EksCluster("ml", plan, pulumi.ResourceOptions(providers=[pulumi_aws.Provider("ml")])).outputs.name
    )
    return known

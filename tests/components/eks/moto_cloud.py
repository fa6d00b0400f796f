"""An AWS account in this process (moto's server), and an engine that creates a program's resources in it.

The program runs as in `pulumi up`: the outputs of one resource are the inputs of the next. Requests therefore
arrive in the order of the program's dependencies, and the ids in them belong to resources that exist.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import pytest
from botocore import xform_name
from botocore.config import Config
from moto.backends import get_backend
from moto.server import ThreadedMotoServer

from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.components.eks.aws_api import OWN_ID, Call
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.support.eventually import PATIENCE_SECONDS

REGION = "us-east-2"
_RESPONSES = {
    "autoscaling": "AutoScalingResponse",
    "ec2": "EC2Response",
    "eks": "EKSResponse",
    "iam": "IamResponse",
    "kms": "KmsResponse",
    "logs": "LogsResponse",
    "events": "EventsHandler",
    "sqs": "SQSResponse",
}

Answer = Mapping[str, Any]


class MotoCloud:
    """A moto account. It compares every request with the API model, and sends the request if moto supports the
    operation.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.sent: list[Call] = []
        self.not_in_moto: list[Call] = []
        self.ids: dict[str, str] = {}
        """The ids of the created resources, by URN."""
        self.cluster_security_group_id = ""

    def client(self, service: str) -> Any:
        """Return the boto3 client for a service."""
        return _client(self._endpoint, service)

    def make(self, record: ResourceRecord) -> tuple[str, dict[str, Any]]:
        """Create a resource. Return its id, and the outputs that are not inputs."""
        made: dict[str, Any] = {}
        own_id = ""
        for index, call in enumerate(requests_of(record)):
            call = Call(call.service, call.operation, _with_own_id(call.parameters, own_id))
            wrong = problems(call)
            assert not wrong, (record.urn, wrong)
            answer = self._send(call)
            if index == 0:
                made = _turned_out(record, answer)
                if call.operation == "CreateCluster":
                    subnets = call.parameters["resourcesVpcConfig"]["subnetIds"]
                    made["vpcConfig"]["clusterSecurityGroupId"] = self.make_cluster_security_group(subnets)
                if call.operation == "CreateNodegroup":
                    self.make_auto_scaling_group(call.parameters, made)
                own_id = made["id"]
        self.ids[record.urn] = own_id
        return own_id, made

    def make_cluster_security_group(self, subnets: list[str]) -> str:
        """Create the cluster security group, which EKS creates but moto does not. Return its id."""
        ec2 = self.client("ec2")
        vpc_id = ec2.describe_subnets(SubnetIds=subnets)["Subnets"][0]["VpcId"]
        made = ec2.create_security_group(GroupName="eks-cluster-sg", Description="made by EKS", VpcId=vpc_id)
        self.cluster_security_group_id = made["GroupId"]
        return self.cluster_security_group_id

    def make_auto_scaling_group(self, node_group: Mapping[str, Any], made: Mapping[str, Any]) -> None:
        """Create the tagged Auto Scaling group of a node group. EKS creates this group, but moto only returns a
        name for it.
        """
        (name,) = [group["name"] for one in made["resources"] for group in one["autoscalingGroups"]]
        owned = {"Key": f"k8s.io/cluster-autoscaler/{node_group['clusterName']}", "Value": "owned"}
        template = node_group["launchTemplate"]
        self.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=node_group["scalingConfig"]["maxSize"],
            DesiredCapacity=0,
            LaunchTemplate={"LaunchTemplateId": template["id"], "Version": template["version"]},
            VPCZoneIdentifier=",".join(node_group["subnets"]),
            Tags=[{**owned, "ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}],
        )

    def _send(self, call: Call) -> Answer:
        if not moto_has(call):
            self.not_in_moto.append(call)
            return {}
        self.sent.append(call)
        return getattr(self.client(call.service), xform_name(call.operation))(**call.parameters)


def moto_has(call: Call) -> bool:
    """Return whether moto supports an operation: its responses class must have a method for the operation."""
    responses = importlib.import_module(f"moto.{call.service}.responses")
    return hasattr(getattr(responses, _RESPONSES[call.service]), xform_name(call.operation))


def _with_own_id(value: Any, own_id: str) -> Any:
    if isinstance(value, dict):
        return {key: _with_own_id(inner, own_id) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_own_id(inner, own_id) for inner in value]
    return own_id if value == OWN_ID else value


def _turned_out(record: ResourceRecord, answer: Answer) -> dict[str, Any]:
    """Return a resource's id and outputs, which the provider reads from the AWS response."""
    maker = _OUTPUTS.get(record.type)
    if maker is not None and answer:
        return maker(answer)
    name = record.inputs.get("name", record.name)
    return {"id": name, "arn": f"arn:aws:service:{REGION}:123456789012:{name}"}


def _cluster(answer: Answer) -> dict[str, Any]:
    cluster = answer["cluster"]
    return {
        "id": cluster["name"],
        "name": cluster["name"],
        "arn": cluster["arn"],
        "endpoint": cluster["endpoint"],
        "version": cluster["version"],
        "certificateAuthority": {"data": cluster["certificateAuthority"]["data"]},
        "vpcConfig": dict(cluster["resourcesVpcConfig"]),
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", **cluster["kubernetesNetworkConfig"]},
        "identities": [{"oidcs": [{"issuer": cluster["identity"]["oidc"]["issuer"]}]}],
    }


def _at(*path: str | int) -> Callable[[Any], dict[str, Any]]:
    """Return a function that reads the id at this path of an AWS response, and no other output."""

    def found(answer: Any) -> dict[str, Any]:
        for step in path:
            answer = answer[step]
        return {"id": answer}

    return found


_OUTPUTS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "aws:ec2/vpc:Vpc": _at("Vpc", "VpcId"),
    "aws:ec2/subnet:Subnet": _at("Subnet", "SubnetId"),
    "aws:ec2/internetGateway:InternetGateway": _at("InternetGateway", "InternetGatewayId"),
    "aws:ec2/eip:Eip": _at("AllocationId"),
    "aws:ec2/natGateway:NatGateway": _at("NatGateway", "NatGatewayId"),
    "aws:ec2/routeTable:RouteTable": _at("RouteTable", "RouteTableId"),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _at("AssociationId"),
    "aws:ec2/vpcEndpoint:VpcEndpoint": _at("VpcEndpoint", "VpcEndpointId"),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": _at("SecurityGroups", 0, "GroupId"),
    "aws:ec2/securityGroup:SecurityGroup": _at("GroupId"),
    "aws:kms/key:Key": lambda answer: {
        "id": answer["KeyMetadata"]["KeyId"],
        "arn": answer["KeyMetadata"]["Arn"],
    },
    "aws:sqs/queue:Queue": lambda answer: {
        "id": answer["QueueUrl"],
        "url": answer["QueueUrl"],
        "arn": f"arn:aws:sqs:{REGION}:123456789012:{answer['QueueUrl'].rpartition('/')[2]}",
    },
    "aws:cloudwatch/eventRule:EventRule": lambda answer: {
        "id": answer["RuleArn"].rpartition("/")[2],
        "name": answer["RuleArn"].rpartition("/")[2],
        "arn": answer["RuleArn"],
    },
    "aws:iam/role:Role": lambda answer: {
        "id": answer["Role"]["RoleName"],
        "name": answer["Role"]["RoleName"],
        "arn": answer["Role"]["Arn"],
    },
    "aws:ec2/launchTemplate:LaunchTemplate": lambda answer: {
        "id": answer["LaunchTemplate"]["LaunchTemplateId"],
        "latestVersion": answer["LaunchTemplate"]["LatestVersionNumber"],
    },
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/nodeGroup:NodeGroup": lambda answer: {
        "id": f"{answer['nodegroup']['clusterName']}:{answer['nodegroup']['nodegroupName']}",
        "nodeGroupName": answer["nodegroup"]["nodegroupName"],
        "arn": answer["nodegroup"]["nodegroupArn"],
        "resources": [{"autoscalingGroups": answer["nodegroup"]["resources"]["autoScalingGroups"]}],
    },
}


@cache
def _endpoint() -> str:
    """Start moto's server once in this process, and return its URL. The server ends with the process."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # werkzeug logs a line for every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


@cache
def _client(endpoint: str, service: str) -> Any:
    return boto3.client(  # pyrefly: ignore[no-matching-overload] - boto3 has one overload per service
        service,
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        # Each request is sent only once, however long the response takes.
        # A retry could create the resource a second time.
        config=Config(read_timeout=PATIENCE_SECONDS, retries={"total_max_attempts": 1}),
    )


@contextmanager
def moto_cloud() -> Generator[MotoCloud]:
    """Yield an empty account that has only the AWS managed policies, so that it refuses a role with an unknown
    policy.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
        # moto's own reset would load all default data again, including the managed policies
        for service in _RESPONSES:
            get_backend(service).clear()
        yield MotoCloud(_endpoint())

"""A simulated AWS account. moto's server answers read requests, and recorded answers cover the operations that
moto lacks.

A recorded answer is checked against the API's model in botocore, so that a wrong name or type fails the test.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.loaders import Loader, create_loader
from botocore.validate import ParamValidator
from moto.backends import get_backend
from moto.server import ThreadedMotoServer

from gpu_platform.catalog import load_catalog
from gpu_platform.online.aws.api import iam_action

ACCOUNT = "123456789012"
_SERVICES = ("ec2", "efs", "eks", "fsx", "iam", "kms", "logs")
_KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}

_POLICIES = '{"enableNetworkPolicy": "true"}'
_TOLERATIONS = '{"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}}'

Recorded = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class AwsAccount:
    """A simulated AWS account. `asked` contains the IAM actions of all calls. `denied` contains the actions that
    are not allowed.
    """

    def __init__(self, region: str) -> None:
        self.region = region
        self.asked: set[str] = set()
        self.denied: set[str] = set()
        self.quotas: dict[str, float] = {}
        """Values by code; others have no value of their own, and a default of 5000."""
        self.reservations: list[dict[str, Any]] = []
        self.products: list[Mapping[str, Any]] = []
        """Products of the price list."""
        self.addons: dict[str, Mapping[str, Any]] = {
            "vpc-cni": {"configurationValues": _POLICIES},
            "eks-node-monitoring-agent": {"configurationValues": _TOLERATIONS},
        }
        """Add-ons of every cluster by name, with what differs from a version alone."""
        self._recorded: Mapping[str, Recorded] = {
            "DescribeAddon": self._addon,
            "GetServiceQuota": self._quota,
            "GetProducts": lambda _: {"PriceList": [json.dumps(product) for product in self.products]},
            "GetAWSDefaultServiceQuota": lambda _: {"Quota": {"Value": 5000.0}},
            "DescribeCapacityReservations": self._reservations,
        }
        for service in _SERVICES:
            get_backend(service).clear()

    @property
    def endpoint(self) -> str:
        """The URL of moto's server, which simulates the account's APIs."""
        return _endpoint()

    def client(self, service: str, region: str | None = None) -> Any:
        """Return a boto3 client that a test uses to set up the account."""
        return _client(service, region or self.region)

    def session(self) -> Any:
        """Return a boto3 session that sends its requests to this account."""
        own = botocore.session.Session()
        own.register_component("data_loader", _models())
        session = boto3.Session(botocore_session=own, **_KEYS)
        # pyrefly: ignore[bad-argument-type] - botocore uses the return value of the handler
        session.events.register("before-call", self._before_call)
        session.events.register("after-call.eks.DescribeCluster", _as_eks_answers)
        original = session.client

        def client(service: str, *, region_name: str, config: Config) -> Any:
            assert region_name == self.region
            assert getattr(config, "connect_timeout") <= 10, "a request must not wait for long"  # noqa: B009
            # pyrefly: ignore[no-matching-overload]
            return original(service, region_name=region_name, config=config, endpoint_url=_endpoint())

        session.client = client  # pyrefly: ignore[bad-assignment, method-assign]
        return session

    def _before_call(self, model: Any, params: Mapping[str, Any], **_: Any) -> tuple[AWSResponse, Any] | None:
        service = {"Service Quotas": "service-quotas"}.get(model.service_model.service_id, "")
        service = service or model.service_model.service_name
        action = iam_action(service, model.name)
        self.asked.add(action)
        if action in self.denied:
            message = f"User is not authorized to perform: {action}"
            code = "UnauthorizedOperation" if service == "ec2" else "AccessDeniedException"
            raise ClientError({"Error": {"Code": code, "Message": message}}, model.name)
        if model.name == "DescribeInstances":
            _expand(params["body"])
        recorded = self._recorded.get(model.name)
        if recorded is None:
            return None
        answer = recorded(params["body"] or {"path": params["url_path"]})
        report = ParamValidator().validate(answer, model.output_shape)
        assert not report.has_errors(), report.generate_report()
        return AWSResponse("", 200, {}, None), answer  # pyrefly: ignore[bad-argument-type] - without headers

    def _addon(self, body: Any) -> Mapping[str, Any]:
        name = str(body["path"]).rpartition("/")[2]
        if name not in self.addons:
            error = {"Error": {"Code": "ResourceNotFoundException", "Message": "no such add-on"}}
            raise ClientError(error, "DescribeAddon")
        return {"addon": {"addonName": name, "addonVersion": "v1.20.4-eksbuild.2", **self.addons[name]}}

    def _quota(self, body: Any) -> Mapping[str, Any]:
        code = next(code for code in (*self.quotas, "L-") if code in str(body))
        if code == "L-":
            error = {"Error": {"Code": "NoSuchResourceException", "Message": "no applied value"}}
            raise ClientError(error, "GetServiceQuota")
        return {"Quota": {"QuotaCode": code, "Value": self.quotas[code]}}

    def _reservations(self, body: Any) -> Mapping[str, Any]:
        wanted = {value for key, value in body.items() if key.startswith("CapacityReservationId.")}
        found = [one for one in self.reservations if not wanted or one["CapacityReservationId"] in wanted]
        if wanted and not found:
            error = {"Error": {"Code": "InvalidCapacityReservationId.NotFound", "Message": "none"}}
            raise ClientError(error, "DescribeCapacityReservations")
        return {"CapacityReservations": found}


def _expand(body: dict[str, Any]) -> None:
    """Expand the wildcards of an instance type filter as EC2 does, because moto compares the pattern literally."""
    last = next(key for key, value in body.items() if value == "instance-type").removesuffix("Name") + "Value."
    patterns = [body.pop(key) for key in list(body) if key.startswith(last)]
    types = [name for name in load_catalog().machine_types if any(fnmatch(name, one) for one in patterns)]
    body.update({f"{last}{index}": name for index, name in enumerate(types, 1)})


def _as_eks_answers(parsed: dict[str, Any], **_: Any) -> None:
    """Add the network, security group and authentication mode to a cluster, because moto omits them."""
    if cluster := parsed.get("cluster"):
        cluster.setdefault("accessConfig", {"authenticationMode": "API"})
        network = cluster["resourcesVpcConfig"]
        subnets = get_backend("ec2")[ACCOUNT]["us-east-2"].subnets
        network.setdefault(
            "vpcId",
            next(
                found[network["subnetIds"][0]] for found in subnets.values() if network["subnetIds"][0] in found
            ).vpc_id,
        )
        groups = get_backend("ec2")[ACCOUNT]["us-east-2"].groups[network["vpcId"]]
        network.setdefault("clusterSecurityGroupId", next(iter(groups)))


@cache
def _client(service: str, region: str) -> Any:
    # pyrefly: ignore[no-matching-overload]
    return boto3.client(service, region_name=region, endpoint_url=_endpoint(), **_KEYS)


@cache
def _models() -> Loader:
    """Return one loader of API models for all sessions, so that the 4 MB model of EC2 is read only once."""
    return create_loader()


@cache
def _endpoint() -> str:
    """Start moto's server once per process and return its URL. The server ends with the process."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"

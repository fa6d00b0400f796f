"""List what an `up` of an EKS stack needs from AWS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gpu_platform.planning.clouds.examples import api_access_examples
from gpu_platform.planning.clouds.section import CloudPrerequisites, Example

if TYPE_CHECKING:
    from gpu_platform.planning.clouds.eks.plan import EksClusterPlan

# The account of the shipped stack files and of AWS's own examples.
_EXAMPLE_ACCOUNT: Final = "123456789012"
# IAM's names for services, where Pulumi's module has another.
_SERVICES: Final = {
    "vpc": "ec2",
    "cloudwatch/logGroup": "logs",
    "cloudwatch/eventRule": "events",
    "cloudwatch/eventTarget": "events",
}


def eks_prerequisites(cluster: EksClusterPlan, resource_types: Iterable[str]) -> CloudPrerequisites:
    """Return the prerequisites; `resource_types`: Pulumi's types of what the stack creates."""
    services = sorted({_service(each) for each in resource_types if each.startswith("aws:")})
    return CloudPrerequisites(
        cloud="AWS",
        command="aws",
        install="install the AWS CLI: https://docs.aws.amazon.com/cli/",
        credentials="aws",
        owner=cluster.account or "the account of the credentials",
        login="run aws configure sso, then aws sso login",
        quota_console="Service Quotas (ec2)",
        all_regions_quota=None,
        permissions=", ".join(f"{service}:*" for service in services) + " (iam with iam:PassRole)",
        permissions_fix="the user of `up` must be among cluster.create.admins, "
        "or have an access entry of the cluster",
        apis=None,
        examples=tuple(_examples(cluster)),
    )


def _examples(cluster: EksClusterPlan) -> Iterator[Example]:
    if cluster.account == _EXAMPLE_ACCOUNT:
        yield Example(field="cluster.account", value=cluster.account, fix="write the id of your AWS account")
    for principal in cluster.create.admins if cluster.create is not None else ():
        if f":{_EXAMPLE_ACCOUNT}:" in principal:
            fix = "write the IAM role or user that runs `up`"
            yield Example(field="cluster.create.admins", value=principal, fix=fix)
    for login in cluster.access.logins:
        if f":{_EXAMPLE_ACCOUNT}:" in login.principal:
            yield Example(
                field="cluster.logins", value=login.principal, fix="write the IAM role of the team, or remove it"
            )
    yield from api_access_examples(cluster)


def _service(type_: str) -> str:
    """Return IAM's name for the service of a resource type such as `aws:ec2/launchTemplate:LaunchTemplate`."""
    path = type_.split(":")[1]
    module = path.partition("/")[0]
    return _SERVICES.get(path, _SERVICES.get(module, module))

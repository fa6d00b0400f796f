"""`gpu-platform doctor STACK`: check what `up` of a stack needs.

It uses no network and no credentials, so some prerequisites (quotas, permissions) are only listed for a manual
check."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.tool import Tool
from gpu_platform.credentials import aws_sources, google_sources
from gpu_platform.engine.objects import only_pulumi_can_deploy
from gpu_platform.engine.pulumi_cli import Unusable, find_cli
from gpu_platform.engine.record import PROVIDER_PREFIX, ResourceRecord
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.eks.plan import EksClusterPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.prerequisites import QuotaNeed, examples_left, gpu_quotas
from gpu_platform.program import record_stack
from gpu_platform.stacks import load_stack

_INSTALL_CLI = "install the CLI from pulumi.com, or let `up` install it"
_KUBECONFIG_COMMANDS = {
    "eks": ("aws", "install the AWS CLI: https://docs.aws.amazon.com/cli/"),
    "gke": ("gke-gcloud-auth-plugin", "run gcloud components install gke-gcloud-auth-plugin"),
}
# IAM service names that differ from Pulumi's module names.
_AWS_SERVICES = {
    "vpc": "ec2",
    "cloudwatch/logGroup": "logs",
    "cloudwatch/eventRule": "events",
    "cloudwatch/eventTarget": "events",
}
# IAM roles and APIs for each Google Cloud service that the program uses.
_GOOGLE_ROLES = {
    "compute": "roles/compute.admin",
    "container": "roles/container.admin",
    "kms": "roles/cloudkms.admin",
    "projects": "roles/resourcemanager.projectIamAdmin",
    "serviceaccount": "roles/iam.serviceAccountAdmin and roles/iam.serviceAccountUser",
}
_GOOGLE_APIS = {
    "compute": "compute.googleapis.com",
    "container": "container.googleapis.com",
    "kms": "cloudkms.googleapis.com",
    "projects": "cloudresourcemanager.googleapis.com",
    "serviceaccount": "iam.googleapis.com",
}
# APIs that nodes call.
_NODE_APIS = ("artifactregistry.googleapis.com", "logging.googleapis.com", "monitoring.googleapis.com")


def needs_of(stack: str) -> list[Tool]:
    """Return the prerequisites of `up` of a stack; raises BadInput for an invalid stack."""
    loaded = load_stack(stack)
    plan = loaded.plan
    resources = record_stack(loaded).resources
    found = [_pulumi(resources), *_plugins(resources)]
    if plan.kind == "environment" and plan.cluster.cloud is not None:
        found += [*_cloud(plan), _permissions(plan, resources)]
    if plan.kind == "environment" and isinstance(plan.cluster.cloud, GkeClusterPlan):
        found.append(_google_apis(plan.cluster.cloud, resources))
    return found


def _pulumi(resources: Iterable[ResourceRecord]) -> Tool:
    try:
        cli = find_cli(install=False)
    except Unusable as reason:
        needed = bool(only_pulumi_can_deploy(resources))
        why = "deploying this stack" if needed else "optional, the embedded engine can deploy this stack"
        return Tool("Pulumi CLI and backend", "", why, needed, f"{reason}; {_INSTALL_CLI}")
    return Tool("Pulumi CLI and backend", cli.why, "deploying this stack", True, _INSTALL_CLI)


def _plugins(resources: Iterable[ResourceRecord]) -> Iterator[Tool]:
    folder = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
    wanted = {
        (_package(record), record.package_version)
        for record in resources
        if record.custom and record.package_version and not record.type.startswith("pulumi:pulumi:")
    }
    for package, version in sorted(wanted):
        here = folder / f"resource-{package}-v{version}"
        yield Tool(
            f"provider plugin {package} {version}",
            str(here) if here.is_dir() else "",
            f"resources of {package}",
            False,
            "none needed: the CLI downloads it; without network access copy it from a machine where you ran "
            f"pulumi plugin install resource {package} {version}",
        )


def _package(record: ResourceRecord) -> str:
    return record.type.removeprefix(PROVIDER_PREFIX).partition(":")[0]


def _cloud(plan: EnvironmentPlan) -> Iterator[Tool]:
    command, install = _KUBECONFIG_COMMANDS[plan.cluster.provider]
    yield Tool(
        command,
        shutil.which(command) or "",
        "credentials in the cluster's kubeconfig",
        True,
        install,
    )
    match plan.cluster.cloud:
        case EksClusterPlan() as cloud:
            account = f"account {cloud.account}" if cloud.account else "the account of the credentials"
            yield _credentials("AWS", aws_sources(), account, "run aws configure sso, then aws sso login")
        case GkeClusterPlan() as cloud:
            # Pulumi uses the application default credentials, the kubeconfig's plugin those of gcloud.
            login = "run gcloud auth login --update-adc, for both Pulumi and the kubeconfig's plugin"
            yield _credentials("Google Cloud", google_sources(), f"project {cloud.project}", login)
        case None:
            return
    for example in examples_left(plan):
        yield Tool(example.field, "", f"replacing the example value {example.value}", True, example.fix)
    for quota in gpu_quotas(plan, load_catalog()):
        yield _quota(quota, plan.cluster.provider)


def _credentials(cloud: str, sources: list[str], owner: str, login: str) -> Tool:
    return Tool(
        f"{cloud} credentials",
        "; ".join(sources),
        f"creating the stack's resources in {owner}; not checked for validity",
        False,
        f"{login}; the role of an instance is not detected, because that needs the network",
    )


def _quota(quota: QuotaNeed, provider: str) -> Tool:
    console = "Service Quotas (ec2)" if provider == "eks" else "IAM & Admin, Quotas"
    name = quota.name or "(unknown name)"
    return Tool(
        f"quota {name}",
        "",
        f"{quota.amount} {quota.unit} in {quota.region} for the maximum size of {', '.join(quota.pools)}",
        False,
        f"check that the quota is large enough: {console}",
        known=False,
    )


def _permissions(plan: EnvironmentPlan, resources: Iterable[ResourceRecord]) -> Tool:
    if plan.cluster.provider == "eks":
        services = sorted({_aws_service(each) for each in _types("aws", resources)})
        required = ", ".join(f"{service}:*" for service in services) + " (iam with iam:PassRole)"
        remedy = "the identity that runs `up` must be one of cluster.create.admins, or have an access entry"
    else:
        services = _google_services(resources)
        required = ", ".join(_GOOGLE_ROLES.get(service, f"a role for {service}") for service in services)
        remedy = "check with gcloud projects get-iam-policy"
    return Tool("permissions", "", f"creating, changing and deleting: {required}", False, remedy, known=False)


def _google_apis(cloud: GkeClusterPlan, resources: Iterable[ResourceRecord]) -> Tool:
    called = {_GOOGLE_APIS.get(service, f"{service}.googleapis.com") for service in _google_services(resources)}
    enable = f"gcloud services enable --project {cloud.project} " + " ".join(sorted(called | set(_NODE_APIS)))
    return Tool(
        "Google APIs",
        "",
        "creating the stack's resources; most are disabled in a new project",
        False,
        enable,
        known=False,
    )


def _google_services(resources: Iterable[ResourceRecord]) -> list[str]:
    """Return the Google Cloud services of the resources by their Pulumi module: `container`, `projects`."""
    return sorted({each.split(":")[1].partition("/")[0] for each in _types("gcp", resources)})


def _types(package: str, resources: Iterable[ResourceRecord]) -> set[str]:
    return {record.type for record in resources if record.custom and record.type.startswith(f"{package}:")}


def _aws_service(type_: str) -> str:
    """Return the IAM service name of a resource type such as `aws:ec2/launchTemplate:LaunchTemplate`."""
    path = type_.split(":")[1]
    module = path.partition("/")[0]
    return _AWS_SERVICES.get(path, _AWS_SERVICES.get(module, module))

"""List what Azure must provide before `up` can run on an AKS stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.planning.clouds.examples import api_access_examples
from gpu_platform.planning.clouds.section import CloudCluster, CloudPrerequisites, CloudQuota, Example

# The subscription and object ID in the shipped stack files and in Azure's examples.
EXAMPLE_ID: Final = "00000000-0000-0000-0000-000000000000"
REGIONAL_QUOTA: Final = "cores (Total Regional vCPUs)"
# Azure role for each service that the program uses.
_ROLES: Final = {
    "containerservice": "Azure Kubernetes Service Contributor Role",
    "network": "Network Contributor",
    "proximity": "Virtual Machine Contributor",
    "armmsi": "Managed Identity Contributor on the identities of teams",
    "core": "Contributor on the subscription, to create the resource group",
    "authorization": "Managed Identity Contributor, Managed Identity Operator and Role Based Access Control "
    "Administrator",
}
# Resource providers, which a subscription registers once.
PROVIDERS: Final = (
    "Microsoft.Compute",
    "Microsoft.ContainerService",
    "Microsoft.ManagedIdentity",
    "Microsoft.Network",
    "Microsoft.Storage",
)


def aks_prerequisites(cluster: CloudCluster, resource_types: Iterable[str]) -> CloudPrerequisites:
    """Return what Azure must provide before `up` can run. `resource_types` are the Pulumi types of the stack's
    resources.
    """
    assert isinstance(cluster, AksClusterPlan)  # noqa: S101 - the plan is of this cloud
    services = sorted({_service(each) for each in resource_types if each.startswith("azure:")})
    roles = [_ROLES.get(service, f"a role for {service}") for service in services]
    subnet = cluster.create.subnet if cluster.create is not None else None
    existing = (*([subnet] if subnet is not None else ()), *cluster.reservation_groups)
    roles += [f"Role Based Access Control Administrator on {each}" for each in existing]
    roles += _key_rights(cluster)
    if cluster.identities:
        roles.append("Role Based Access Control Administrator on the containers of teams")
    return CloudPrerequisites(
        cloud="Azure",
        command="kubelogin",
        install="run az aks install-cli",
        owner=f"subscription {cluster.subscription}",
        login=f"run az login, then az account set --subscription {cluster.subscription}",
        quota_console="Quotas, Compute",
        all_regions_quota=None,
        permissions=", ".join(roles),
        permissions_fix=f"see az role assignment list --subscription {cluster.subscription} --assignee USER",
        apis="; ".join(
            f"az provider register --subscription {cluster.subscription} --namespace {name}" for name in PROVIDERS
        ),
        examples=tuple(_examples(cluster)),
        quotas=tuple(_quotas(cluster)),
    )


def _key_rights(cluster: AksClusterPlan) -> Iterator[str]:
    """Yield the roles that customer-managed keys need, besides the roles that `up` assigns."""
    for one in cluster.encryption_sets:
        yield f"Key Vault Crypto Service Encryption User on its key for the identity of {one}"
    if cluster.create is None:
        return
    key = cluster.create.secrets_key
    for scope in (*cluster.encryption_sets, *((key.id,) if key is not None else ())):
        yield f"Role Based Access Control Administrator on {scope}"


def _quotas(cluster: AksClusterPlan) -> Iterator[CloudQuota]:
    """Yield the vCPU quotas of system nodes and of the whole region. The quotas of pools are planned for every
    cloud.
    """
    create = cluster.create
    system = create.most_system_nodes * create.system_vcpus if create is not None else 0
    if create is not None:
        yield CloudQuota(
            name=create.system_cpu_quota,
            unit="vCPU",
            region=cluster.region,
            amount=system,
            what=f"system nodes ({create.system_machine_type}), including rolling updates",
        )
    if cluster.vcpus + system:
        yield CloudQuota(
            name=REGIONAL_QUOTA,
            unit="vCPU",
            region=cluster.region,
            amount=cluster.vcpus + system,
            what="all nodes except spot and reserved nodes",
        )


def _examples(cluster: AksClusterPlan) -> Iterator[Example]:
    if cluster.subscription == EXAMPLE_ID:
        yield Example(
            field="cluster.subscription", value=cluster.subscription, fix="write the ID of your subscription"
        )
    if cluster.create is not None and EXAMPLE_ID in cluster.create.admins:
        yield Example(
            field="cluster.create.admins", value=EXAMPLE_ID, fix="write the object ID of a group of administrators"
        )
    yield from api_access_examples(cluster)


def _service(type_: str) -> str:
    """Return the service of a Pulumi resource type, such as `containerservice` or `network`."""
    return type_.split(":")[1].partition("/")[0]

"""List what Google Cloud must provide before `up` can run on a GKE stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gpu_platform.planning.clouds.examples import api_access_examples
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.section import CloudCluster, CloudPrerequisites, CloudQuota, Example

# The project ID in the shipped stack files and in Google's examples.
_EXAMPLE_PROJECT: Final = "my-project"
# Balanced and SSD disks share a quota (Compute Engine docs, Allocation quotas, read 2026-11-23).
_DISK_QUOTAS: Final = {
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "hyperdisk-balanced": "HDB_TOTAL_GB",
}
# Compute Engine docs, Protect resources by using Cloud KMS keys, read 2026-11-28.
# GKE docs, Encrypt secrets at the application layer, read 2026-11-28.
# Filestore docs, Encrypt data with customer-managed keys, read 2026-11-28.
_KEY_ROLE: Final = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
OF_DISKS: Final = "compute-system"
"""Domain of the service agent that encrypts disks. Its e-mail address is
service-NUMBER@DOMAIN.iam.gserviceaccount.com.
"""
OF_SECRETS: Final = "container-engine-robot"
OF_FILESTORE: Final = "cloud-filer"
_EXAMPLE_DOMAIN: Final = "@example.com"
# IAM role for each Google service that the program uses.
_ROLES: Final = {
    "compute": "roles/compute.admin",
    "container": "roles/container.admin",
    "kms": "roles/cloudkms.admin",
    "projects": "roles/resourcemanager.projectIamAdmin",
    "serviceaccount": "roles/iam.serviceAccountAdmin and roles/iam.serviceAccountUser",
    "servicenetworking": "roles/servicenetworking.networksAdmin",
    "storage": "roles/storage.admin on the buckets of teams",
}
_APIS: Final = {
    "compute": "compute.googleapis.com",
    "container": "container.googleapis.com",
    "kms": "cloudkms.googleapis.com",
    "projects": "cloudresourcemanager.googleapis.com",
    "serviceaccount": "iam.googleapis.com",
}
# Google Cloud APIs that the storage drivers call
_FILESTORE_API: Final = "file.googleapis.com"
_LUSTRE_API: Final = "lustre.googleapis.com"
# Google Cloud APIs that nodes call
_NODE_APIS: Final = (
    "artifactregistry.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
)


def gke_prerequisites(cluster: CloudCluster, resource_types: Iterable[str]) -> CloudPrerequisites:
    """Return what Google Cloud must provide before `up` can run. `resource_types` are the Pulumi types of the
    stack's resources.
    """
    assert isinstance(cluster, GkeClusterPlan)  # noqa: S101 - the plan is of this cloud
    services = sorted({_service(each) for each in resource_types if each.startswith("gcp:")})
    apis = {*(_APIS.get(service, f"{service}.googleapis.com") for service in services), *_NODE_APIS}
    if cluster.create is not None:
        apis |= {_FILESTORE_API} if cluster.create.nfs_driver else set()
        apis |= {_LUSTRE_API} if cluster.create.lustre_driver else set()
    roles = [_ROLES.get(service, f"a role for {service}") for service in services]
    if cluster.node_email is not None and roles:
        roles.append(f"roles/iam.serviceAccountUser on {cluster.node_email}")
    vpc = cluster.create.existing_vpc if cluster.create is not None else None
    if vpc is not None and roles:
        roles.append(f"roles/compute.networkUser on {vpc.subnetwork}")
    apis |= {_APIS["kms"]} if cluster.keys else set()
    roles += _key_rights(cluster.keys)
    return CloudPrerequisites(
        cloud="Google Cloud",
        command="gke-gcloud-auth-plugin",
        install="run gcloud components install gke-gcloud-auth-plugin",
        owner=f"project {cluster.project}",
        # Pulumi uses the application default credentials, and the kubeconfig's plugin uses gcloud's credentials.
        login="run gcloud auth login --update-adc, for Pulumi and the kubeconfig's plugin",
        quota_console="IAM & Admin, Quotas",
        all_regions_quota="GPUS_ALL_REGIONS",
        permissions=", ".join(roles),
        permissions_fix="see gcloud projects get-iam-policy",
        apis=f"gcloud services enable --project {cluster.project} " + " ".join(sorted(apis)),
        examples=tuple(_examples(cluster)),
        quotas=tuple(_quotas(cluster)),
    )


def _key_rights(keys: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the role that a Google service agent needs on each key.

    `keys` contains pairs of key and agent domain.
    """
    for key, domain in dict.fromkeys(keys):
        yield f"{_KEY_ROLE} on {key} for service-PROJECT_NUMBER@{domain}.iam.gserviceaccount.com"


def _quotas(cluster: GkeClusterPlan) -> Iterator[CloudQuota]:
    """Yield the quotas for networks, disks and vCPUs.

    The name of the vCPU quota for GPU nodes depends on their machine family.
    """
    create = cluster.create
    own = create is not None and create.existing_vpc is None
    vpcs = len({network.vpc for network in cluster.networks}) + (1 if own else 0)
    if vpcs:
        yield CloudQuota(
            name="NETWORKS", unit="VPC networks", region="the project", amount=vpcs, what="the cluster"
        )
    disks: dict[str, int] = {}
    for disk, gb in cluster.disks_gb.items():
        name = _DISK_QUOTAS[disk]
        disks[name] = disks.get(name, 0) + gb
    if create is not None:
        system = create.most_system_nodes
        name = _DISK_QUOTAS[create.system_disk_type]
        disks[name] = disks.get(name, 0) + system * create.system_disk_gb
        yield CloudQuota(
            name=create.system_cpu_quota,
            unit="vCPU",
            region=cluster.region,
            amount=system * create.system_vcpus,
            what="system nodes, including rolling updates",
        )
    for name, gb in sorted(disks.items()):
        yield CloudQuota(name=name, unit="GB", region=cluster.region, amount=gb, what="boot disks of all nodes")
    if cluster.vcpus:
        yield CloudQuota(
            name=None,
            unit="vCPU",
            region=cluster.region,
            amount=cluster.vcpus,
            what="GPU nodes, by machine family",
        )


def _examples(cluster: GkeClusterPlan) -> Iterator[Example]:
    if cluster.project == _EXAMPLE_PROJECT:
        yield Example(field="cluster.project", value=cluster.project, fix="write the id of your project")
    groups = cluster.create.authenticator_groups if cluster.create is not None else None
    if groups is not None and groups.endswith(_EXAMPLE_DOMAIN):
        yield Example(
            field="cluster.create.authenticator_groups", value=groups, fix="write the domain of your organisation"
        )
    yield from api_access_examples(cluster)


def _service(type_: str) -> str:
    """Return the Google service of a Pulumi resource type, such as `container` or `projects`."""
    return type_.split(":")[1].partition("/")[0]

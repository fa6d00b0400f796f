"""Stack file field `teams[].identity`: the cloud resources that pods of a team may use."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.azure_resources import ManagedIdentityResource, StorageAccountResource
from gpu_platform.stack.bucket_paths import BUCKET_NAME, BUCKET_PREFIX, KMS_OF_BUCKET
from gpu_platform.stack.declared import CLOUDS, On
from gpu_platform.stack.keys import AwsKey
from gpu_platform.stack.patterns import SERVICE_ACCOUNT

EXISTING: Final = ("role_arn", "google_service_account", "managed_identity")
"""Fields of `TeamIdentity` that name an existing identity. Each cloud has its own."""


class TeamBucket(SpecModel):
    """An existing S3 bucket, Cloud Storage bucket or container of Azure Blob Storage that pods of a team use
    through the cloud's SDKs.
    """

    name: str = Field(pattern=BUCKET_NAME, examples=["acme-datasets"])
    """Name of the bucket or container. The program neither creates nor deletes it."""
    storage_account: Annotated[
        StorageAccountResource | None, On(("aks",), "buckets of other clouds have no storage account")
    ] = None
    """Resource ID of the storage account that has the container. Required on AKS."""
    access: Literal["read", "write"] = "read"
    """`read` allows listing and reading objects. `write` also allows creating, overwriting and deleting them."""
    prefix: str | None = Field(default=None, pattern=BUCKET_PREFIX, max_length=512, examples=["team-a/"])
    """Directory of the bucket. The team can list, read and write nothing outside it. The default is the whole
    bucket. On AKS, a prefix requires `access: read`.
    """
    kms_key: Annotated[AwsKey | None, KMS_OF_BUCKET] = None
    """ARN of the customer-managed key that encrypts the bucket's objects (SSE-KMS) on EKS. Leave it unset if there
    is no such key.
    """

    @property
    def bucket(self) -> str:
        """Name of the bucket, the value of the field `name`."""
        return self.name

    @property
    def writable(self) -> bool:
        """Whether pods may write."""
        return self.access == "write"

    @property
    def directory(self) -> str:
        """`prefix` with exactly one slash at its end, or an empty string for the whole bucket."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""


class TeamIdentity(SpecModel):
    """Cloud identity of a team. Only the team's pods with the service account `team` have this identity. Set
    either `buckets`, or an existing role, service account or managed identity.
    """

    buckets: Annotated[
        tuple[TeamBucket, ...],
        On(CLOUDS, "elsewhere the program grants no roles"),
        Field(max_length=50),
    ] = ()
    """Buckets that the team may use. The identity has no other permissions. The program creates an IAM role for it
    on EKS, and a managed identity on AKS.
    """
    role_arn: Annotated[
        str | None,
        On(
            ("eks", "existing"),
            "it is an AWS role",
            fix="set google_service_account on GKE, managed_identity on AKS, or buckets",
        ),
    ] = Field(
        default=None,
        pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$",
        examples=["arn:aws:iam::123456789012:role/vision"],
    )
    """An existing IAM role, instead of `buckets`. On EKS, pods assume it through EKS Pod Identity. On an existing
    cluster, they assume it through the annotation for IAM roles for service accounts. The owner of the role
    defines its permissions and allows the service account to assume it.
    """
    google_service_account: Annotated[
        str | None,
        On(
            ("gke", "existing"),
            "it is a Google Cloud account",
            fix="set role_arn on EKS, managed_identity on AKS, or buckets",
        ),
    ] = Field(
        default=None,
        pattern=SERVICE_ACCOUNT,
        examples=["vision@my-project.iam.gserviceaccount.com"],
    )
    """E-mail address of an existing Google Cloud service account, instead of `buckets`. On GKE, the program allows
    the team to use it (roles/iam.workloadIdentityUser). On an existing cluster, the owner of the account must
    allow this. The owner also defines the account's permissions.
    """
    managed_identity: Annotated[
        ManagedIdentityResource | None,
        On(("aks",), "it is an Azure identity", fix="set role_arn, google_service_account or buckets"),
    ] = None
    """Resource ID of an existing user-assigned managed identity, instead of `buckets`. The team uses the
    identity through a federated identity credential, which the program adds to it. The owner of the identity
    defines its permissions.
    """

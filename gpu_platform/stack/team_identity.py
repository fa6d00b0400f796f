"""Stack file field `teams[].identity`: what pods of a team may use in the cloud."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.bucket_paths import BUCKET_NAME, BUCKET_PREFIX, KMS_OF_BUCKET
from gpu_platform.stack.declared import ON_CLOUDS, On
from gpu_platform.stack.keys import AwsKey
from gpu_platform.stack.patterns import SERVICE_ACCOUNT


class TeamBucket(SpecModel):
    """An existing S3 or Cloud Storage bucket that pods of a team use by the cloud's SDKs."""

    name: str = Field(pattern=BUCKET_NAME, examples=["acme-datasets"])
    """Name of the bucket; the program neither creates nor deletes it."""
    access: Literal["read", "write"] = "read"
    """`read`: list and get objects; `write`: also create, overwrite and delete them."""
    prefix: str | None = Field(default=None, pattern=BUCKET_PREFIX, max_length=512, examples=["team-a/"])
    """Directory of the bucket beyond which the team can list, read and write nothing; unset: the whole bucket."""
    kms_key: Annotated[AwsKey | None, KMS_OF_BUCKET] = None
    """EKS: ARN of the customer-managed key that encrypts the bucket's objects (SSE-KMS); unset: none is needed."""

    @property
    def bucket(self) -> str:
        """`name`."""
        return self.name

    @property
    def writable(self) -> bool:
        """Whether pods may write."""
        return self.access == "write"

    @property
    def directory(self) -> str:
        """`prefix` with one slash at its end; empty: the whole bucket."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""


class TeamIdentity(SpecModel):
    """Cloud identity of a team: its pods with the service account `team` have it, and no others. Either `buckets`,
    or an existing role or service account."""

    buckets: Annotated[tuple[TeamBucket, ...], ON_CLOUDS, Field(max_length=50)] = ()
    """Buckets that it may use, and nothing else. On EKS the program creates an IAM role for it."""
    role_arn: Annotated[
        str | None,
        On(("eks", "existing"), "it is a role of AWS", fix="write google_service_account, or buckets on GKE"),
    ] = Field(
        default=None,
        pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$",
        examples=["arn:aws:iam::123456789012:role/vision"],
    )
    """An existing IAM role instead: on EKS by EKS Pod Identity; on an existing cluster by the annotation of IAM
    roles for service accounts. Its owner decides what it may do, and lets the service account assume it."""
    google_service_account: Annotated[
        str | None,
        On(("gke", "existing"), "it is an account of Google Cloud", fix="write role_arn, or buckets on EKS"),
    ] = Field(
        default=None,
        pattern=SERVICE_ACCOUNT,
        examples=["vision@my-project.iam.gserviceaccount.com"],
    )
    """E-mail of an existing service account of Google Cloud instead. On GKE the program lets the team use it
    (roles/iam.workloadIdentityUser); on an existing cluster its owner does. Its owner decides what it may do."""

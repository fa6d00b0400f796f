"""The service account of a team with a cloud identity, and the types that planning uses for such identities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

SERVICE_ACCOUNT: Final = "team"
"""Name of a service account in the namespace of a team. Pods that use it have the team's identity.

It is not `default`, so that a pod receives cloud credentials only if its manifest requests them.
"""

IRSA_ANNOTATION: Final = "eks.amazonaws.com/role-arn"
"""ServiceAccount annotation with an IAM role, for clusters with the webhook of IAM roles for service accounts."""
GOOGLE_ANNOTATION: Final = "iam.gke.io/gcp-service-account"
"""ServiceAccount annotation with the Google Cloud service account that its pods use.

Source: GKE docs, Workload Identity Federation for GKE; read 2026-11-23.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAccess:
    """The annotations and labels that give pods with the service account `team` the team's identity.

    `annotations` are the annotations of the service account. A value is None if it is known only after the
    deployment of the identity. `labels` are the labels that the pods need in addition to the service account.
    """

    annotations: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


class Bucket(Protocol):
    """A bucket or a directory in it, with the permitted access."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        ...

    @property
    def directory(self) -> str:
        """Prefix of the objects, which ends with one slash. An empty prefix means the whole bucket."""
        ...

    @property
    def writable(self) -> bool:
        """Whether pods may create, overwrite and delete objects."""
        ...

    @property
    def kms_key(self) -> str | None:
        """ARN of the KMS key that encrypts the objects. Only EKS uses it."""
        ...


class CloudIdentities(Protocol):
    """Cloud resources for the identities of teams, such as roles and the service accounts that use the roles."""

    @property
    def kind(self) -> str:
        """Name of the provider. `components.<kind>` creates the resources of the plan."""
        ...

    @property
    def rights(self) -> Mapping[str, tuple[str, ...]]:
        """Resources that the pods of each team may use, as text such as `read s3://acme-datasets/`."""
        ...


def bucket_rights(places: Iterable[tuple[str, bool]]) -> tuple[str, ...]:
    """Return the permissions on buckets as text, such as `read s3://acme-datasets/`.

    `places` contains the URL of each bucket or directory, and whether pods may write. Write access includes read
    access.
    """
    return tuple(
        right
        for place, writable in places
        for right in ((f"read {place}", f"write {place}") if writable else (f"read {place}",))
    )


def irsa(role_arn: str) -> Mapping[str, str]:
    """Return the ServiceAccount annotation that grants a role through IAM roles for service accounts."""
    return {IRSA_ANNOTATION: role_arn}


def google_account(email: str | None) -> Mapping[str, str]:
    """Return the ServiceAccount annotation for a Google Cloud service account, or an empty mapping if `email` is
    None.
    """
    return {GOOGLE_ANNOTATION: email} if email is not None else {}

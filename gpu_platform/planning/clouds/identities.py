"""Identities of teams in a cloud: the service account whose pods have them, and what a cloud's plan of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

SERVICE_ACCOUNT: Final = "team"
"""Service account of a team's namespace whose pods have the team's identity. Not `default`: a pod gets credentials
of the cloud only if its manifest asks for them, and no image of somebody else gets them by chance."""

IRSA_ANNOTATION: Final = "eks.amazonaws.com/role-arn"
"""Of a ServiceAccount: IAM role by IAM roles for service accounts, on clusters that have their webhook."""
GOOGLE_ANNOTATION: Final = "iam.gke.io/gcp-service-account"
"""Of a ServiceAccount: the service account of Google Cloud that its pods use (GKE docs, Workload Identity
Federation for GKE; read 2026-11-23)."""


class Bucket(Protocol):
    """A bucket, or a directory of it, and what may be done with it."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        ...

    @property
    def directory(self) -> str:
        """Prefix of the objects with one slash at its end; empty: the whole bucket."""
        ...

    @property
    def writable(self) -> bool:
        """Whether objects may be created, overwritten and deleted."""
        ...

    @property
    def kms_key(self) -> str | None:
        """EKS: ARN of the key that encrypts the objects."""
        ...


class CloudIdentities(Protocol):
    """Resources of a cloud for the identities of teams: roles, and the service accounts that may use them."""

    @property
    def kind(self) -> str:
        """The provider; `components.<kind>` transcribes the plan."""
        ...

    @property
    def rights(self) -> Mapping[str, tuple[str, ...]]:
        """What pods of each team may use, as text: `read s3://acme-datasets/`."""
        ...


def bucket_rights(buckets: Sequence[Bucket], scheme: str) -> tuple[str, ...]:
    """Return the rights on buckets as text: `read s3://acme-datasets/`; who may write may read, too."""
    places = [(f"{scheme}://{one.bucket}/{one.directory}", one.writable) for one in buckets]
    return tuple(
        right
        for place, writable in places
        for right in ((f"read {place}", f"write {place}") if writable else (f"read {place}",))
    )


def irsa(role_arn: str) -> Mapping[str, str]:
    """Return the annotation of a ServiceAccount for a role by IAM roles for service accounts."""
    return {IRSA_ANNOTATION: role_arn}


def google_account(email: str | None) -> Mapping[str, str]:
    """Return the annotation of a ServiceAccount for a service account of Google Cloud, if there is one."""
    return {GOOGLE_ANNOTATION: email} if email is not None else {}

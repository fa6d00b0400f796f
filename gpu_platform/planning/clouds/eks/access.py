"""Types of the plan that describe who can log in to an EKS cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPlan:
    """An access entry of type STANDARD without an access policy.

    If `username` is None, EKS derives the user name from the ARN.
    """

    principal: str
    groups: tuple[str, ...]
    username: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcPlan:
    """The OIDC provider of a cluster. Its fields have the names that the stack file uses.

    A field that is None keeps the EKS default.
    """

    name: str
    issuer: str
    client_id: str
    username_claim: str | None
    username_prefix: str | None
    groups_claim: str | None
    groups_prefix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPlan:
    """Who can log in to a cluster besides its admins."""

    logins: tuple[LoginPlan, ...]
    oidc: OidcPlan | None

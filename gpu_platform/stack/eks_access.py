"""Stack file fields `cluster.logins` and `cluster.oidc` for EKS: who can log in, and with which user name and
groups.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from gpu_platform.stack._types import SpecModel, wrong
from gpu_platform.stack.patterns import NO_SPACES, worded

_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+")
# EKS refuses "system:" in groups and prefixes, and all of the prefixes below in user names.
# Sources: EKS user guide, "Create access entries" and "Set a custom username"; read 2026-11-23.
# EKS API reference, OidcIdentityProviderConfigRequest; read 2026-11-23.
_OF_KUBERNETES = "system:"
_OF_AWS = ("system:", "eks:", "aws:", "amazon:", "iam:")


def _principal(value: str) -> str:
    if not _PRINCIPAL.fullmatch(value):
        raise wrong(
            "the ARN of a single IAM role or user, without wildcards, because an access entry is for one "
            "principal",
            "for example, write arn:aws:iam::123456789012:role/admin",
        )
    return value


def _group(value: str) -> str:
    if value.startswith(_OF_KUBERNETES):
        raise wrong(
            "a group that does not start with system:, which Kubernetes reserves and EKS refuses",
            "for example, write speech-members; cluster admins belong in create.admins",
        )
    return value


def _username(value: str) -> str:
    if value.startswith(_OF_AWS):
        raise wrong(
            f"a user name that does not start with {', '.join(_OF_AWS)}: EKS refuses these",
            "for example, write speech:{{SessionName}}",
        )
    return value


def _prefix(value: str) -> str:
    if _OF_KUBERNETES in value:
        raise wrong("a prefix without system:, which EKS refuses", "for example, write oidc:")
    return value


IamPrincipal = Annotated[str, AfterValidator(_principal), Field(examples=["arn:aws:iam::123456789012:role/admin"])]
GroupName = Annotated[str, AfterValidator(_group), Field(pattern=NO_SPACES, max_length=256, examples=["speech"])]
OidcPrefix = Annotated[
    str, AfterValidator(_prefix), Field(pattern=worded(r"^\S*$", "a string without spaces"), examples=["oidc:"])
]


class Login(SpecModel):
    """An IAM role or user that can log in to an EKS cluster, through an access entry without an access policy."""

    principal: IamPrincipal
    groups: Annotated[tuple[GroupName, ...], Field(min_length=1, max_length=100)]
    """Kubernetes groups of everybody who logs in with this role or user. A team's `members` refer to a group as
    `group:NAME`.
    """
    username: (
        Annotated[str, AfterValidator(_username), Field(pattern=NO_SPACES, examples=["speech:{{SessionName}}"])]
        | None
    ) = None
    """Kubernetes user name. `{{SessionName}}` stands for the session name of the role. The default is the ARN of
    the IAM user or of the role's session.
    """


class Oidc(SpecModel):
    """An OpenID Connect provider. The EKS cluster accepts its tokens. EKS allows one provider per cluster."""

    issuer: str = Field(pattern=r"^https://[^\s?]+$", examples=["https://login.example.com"])
    """URL of the issuer. EKS must be able to reach it over the internet."""
    client_id: str = Field(pattern=NO_SPACES, examples=["kubernetes"])
    """Client ID, which is the audience of the tokens."""
    username_claim: str | None = None
    """Claim that contains the user name. The default is `sub`."""
    username_prefix: OidcPrefix | None = None
    """Prefix of user names. The default is the issuer's URL and `#`, or no prefix if `username_claim` is `email`.
    `-` means no prefix.
    """
    groups_claim: str | None = None
    """Claim that contains the groups. If unset, users have no groups."""
    groups_prefix: OidcPrefix | None = None
    """Prefix of groups. By default, groups have no prefix."""

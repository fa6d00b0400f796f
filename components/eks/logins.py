"""Access entries and the OIDC provider for users of an EKS cluster who are not admins."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from gpu_platform.planning.clouds.eks.access import AccessPlan, OidcPlan

# The entry has no access policy, because Roles in the cluster determine what its groups may do.
_ENTRY_TYPE = "STANDARD"


def entry_name(cluster: str, principal: str) -> str:
    """Return the resource name of a principal's access entry, which is the same for admins and other users.

    A principal can have only one entry, and keeps it when it becomes an admin or stops being one.
    """
    return f"{cluster}-{principal.rpartition(':')[2]}"


def create_logins(
    name: str, access: AccessPlan, cluster_name: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> None:
    """Create the access entries and the OIDC provider of a cluster. `name` is the cluster's Pulumi name."""
    for login in access.logins:
        aws.eks.AccessEntry(
            entry_name(name, login.principal),
            cluster_name=cluster_name,
            principal_arn=login.principal,
            kubernetes_groups=list(login.groups),
            user_name=login.username,
            type=_ENTRY_TYPE,
            opts=opts,
        )
    if access.oidc is not None:
        _create_oidc(name, access.oidc, cluster_name, opts)


def _create_oidc(name: str, oidc: OidcPlan, cluster_name: pulumi.Input[str], opts: pulumi.ResourceOptions) -> None:
    aws.eks.IdentityProviderConfig(
        f"{name}-oidc",
        cluster_name=cluster_name,
        oidc=aws.eks.IdentityProviderConfigOidcArgs(
            identity_provider_config_name=oidc.name,
            issuer_url=oidc.issuer,
            client_id=oidc.client_id,
            username_claim=oidc.username_claim,
            username_prefix=oidc.username_prefix,
            groups_claim=oidc.groups_claim,
            groups_prefix=oidc.groups_prefix,
        ),
        # Every change replaces the OIDC provider, and a cluster can have only one provider.
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True)),
    )

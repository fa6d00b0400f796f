"""The rendered resources that allow users to log in to an EKS cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.eks_stacks import ADMIN, CREATED, EXISTING, record_eks

ROLE = "arn:aws:iam::123456789012:role/vision"


@pytest.mark.parametrize("base", [CREATED, EXISTING], ids=["created", "existing"])
def test_members_log_in_by_access_entries_with_groups_and_without_an_access_policy(base: dict[str, Any]) -> None:
    logins = [{"principal": ROLE, "groups": ["vision", "gpu-users"], "username": "vision:{{SessionName}}"}]
    recorded = record_eks({"zones": ["us-east-2b"]}, cluster={**base, "logins": logins})
    entry = recorded.one("AccessEntry", "ml-role/vision")
    assert entry.inputs == {
        "clusterName": entry.inputs["clusterName"],
        "principalArn": ROLE,
        "kubernetesGroups": ["vision", "gpu-users"],
        "userName": "vision:{{SessionName}}",
        "type": "STANDARD",
    }
    policies = recorded.of("AccessPolicyAssociation") if recorded.has("AccessPolicyAssociation") else []
    assert ROLE not in {policy.inputs["principalArn"] for policy in policies}


def test_an_admin_who_becomes_a_member_keeps_the_access_entry() -> None:
    other = {"principal": ADMIN, "groups": ["vision"]}
    demoted = {**CREATED, "create": {"admins": [ROLE]}, "logins": [other]}
    as_member = record_eks({"zones": ["us-east-2b"]}, cluster=demoted)
    as_admin = record_eks({"zones": ["us-east-2b"]}).one("AccessEntry", "ml-role/platform-admin")
    assert as_member.one("AccessEntry", "ml-role/platform-admin").urn == as_admin.urn


@pytest.mark.parametrize("base", [CREATED, EXISTING], ids=["created", "existing"])
def test_a_cluster_accepts_tokens_of_its_oidc_provider(base: dict[str, Any]) -> None:
    oidc = {"issuer": "https://login.example.com", "client_id": "kubernetes", "groups_claim": "groups"}
    recorded = record_eks({"zones": ["us-east-2b"]}, cluster={**base, "oidc": oidc})
    (provider,) = recorded.of("IdentityProviderConfig")
    assert provider.inputs["oidc"] == {
        "identityProviderConfigName": "ml",
        "issuerUrl": "https://login.example.com",
        "clientId": "kubernetes",
        "groupsClaim": "groups",
    }
    assert provider.delete_before_replace, "a cluster has at most one identity provider"
